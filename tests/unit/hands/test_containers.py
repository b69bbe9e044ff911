"""The kernel face's sandboxes: a local one that says what it does not confine, and containers by their arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from plait.core.errors import SandboxError
from plait.hands.containers import DockerSandbox, LocalSandbox, Ran, make_sandbox


class Engine:
    """Stands for docker: remembers its arguments, and answers as it is told."""

    def __init__(self, *answers: Ran) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.times_s: list[float] = []
        self._answers = [*answers]

    def __call__(self, argv: Sequence[str], timeout_s: float) -> Ran:
        self.calls.append(tuple(argv))
        self.times_s.append(timeout_s)
        return self._answers.pop(0) if self._answers else (0, "out", "")


def test_one_container_for_all_commands(tmp_path: Path) -> None:
    """D9: it is started with the first command, with limits and the workspace, and removed at the end."""
    engine = Engine()
    sandbox = DockerSandbox(tmp_path, image="img", container_name="c", runner=engine)

    ran = [sandbox.run("echo 'a b'", timeout=7), sandbox.run("ls", cwd="/elsewhere")]
    sandbox.close()
    sandbox.close()

    start, first, second, end = engine.calls
    assert [(0, "out", "")] * 2 == ran
    assert ("docker", "run", "-d", "--rm", "--name", "c", "--network", "none") == start[:8]
    joined = " ".join(start)
    for part in (
        "--memory 512m",
        "--cpus 1.0",
        "--pids-limit 256",
        "no-new-privileges",
        "--cap-drop ALL",
        "--read-only",
    ):
        assert part in joined
    assert f"-v {tmp_path}:/workspace -w /workspace img sleep infinity" in joined
    assert ("docker", "exec", "-w", "/workspace", "c", "sh", "-c", """timeout 7 sh -c 'echo '"'"'a b'"'"''""") == first
    assert "timeout 60 sh -c ls" == second[-1]
    assert ("docker", "rm", "-f", "c") == end
    assert [120.0, 12.0, 65.0] == engine.times_s[:3]


def test_a_container_that_does_not_start_is_an_answer(tmp_path: Path) -> None:
    """A failing start is 127 and a sentence from `run`, a typed error from `start`; nothing is removed."""
    engine = Engine((125, "", "no daemon"), (125, "", "no daemon"))
    sandbox = DockerSandbox(tmp_path, runner=engine)

    assert (127, "", "docker sandbox unavailable: no daemon") == sandbox.run("ls")
    with pytest.raises(SandboxError, match="no daemon"):
        sandbox.start()
    sandbox.close()

    assert ["run", "run"] == [call[1] for call in engine.calls]
    assert sandbox.container_name.startswith("plait-")


def test_the_engine_is_the_users_and_never_the_workspaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X16: docker or podman is found on the PATH outside the workspace, and without one there is no sandbox."""
    workspace, elsewhere = tmp_path / "work", tmp_path / "bin"
    for folder, name in ((workspace, "docker"), (elsewhere, "podman")):
        folder.mkdir()
        (folder / name).write_text('#!/bin/sh\necho "$0" "$1"\n')
        (folder / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{workspace}:{elsewhere}")
    assert (0, f"{elsewhere}/podman exec\n", "") == DockerSandbox(workspace).run("ls")
    monkeypatch.setenv("PATH", str(workspace))
    code, _, errors = DockerSandbox(workspace).run("ls")
    assert (127, "docker sandbox unavailable: neither docker nor podman is installed") == (code, errors)


def test_the_local_one_bounds_a_commands_life_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D7, D8: no credentials, an end with its whole tree, bytes of any kind; and it says that it is no fence."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("HARMLESS", "here")
    sandbox = LocalSandbox(tmp_path)

    assert (3, f"{os.path.realpath(tmp_path)} here\n", "no\n") == sandbox.run(
        'echo "$(pwd -P) $HARMLESS$OPENAI_API_KEY"; echo no >&2; exit 3'
    )
    assert (0, "�\n", "") == sandbox.run("printf '\\377\\n'; sleep 60 &")
    code, output, errors = sandbox.run("echo begun; sleep 60", timeout=0.3)
    assert (124, "begun\n", "[timed out after 0.3s]") == (code, output, errors)
    assert (127, True) == (sandbox.run("ls", cwd=tmp_path / "missing")[0], "network" in " ".join(sandbox.unconfined))
    sandbox.close()


def test_sandboxes_are_made_by_name(tmp_path: Path) -> None:
    """A name that is none is refused and not taken for the weakest."""
    made = make_sandbox("docker", tmp_path, image="i", network="n")

    assert isinstance(made, DockerSandbox)
    assert ("i", "n") == (made.image, made.network)
    assert isinstance(make_sandbox("local", tmp_path), LocalSandbox)
    with pytest.raises(ValueError, match="'jail'"):
        make_sandbox("jail", tmp_path)
