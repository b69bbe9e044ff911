"""The kernel face's sandboxes: `bash` in what the caller passes, or all tools behind a fence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from plait import Config, DockerSandbox, SandboxPolicy, build_runtime
from plait.core.errors import ConfigError
from plait.core.messages import ToolResult
from plait.engine.approval import AutoApprover
from plait.hands.containers import Ran
from plait.testing import Call, Say, ScriptedModel


def results_of(config: Config, sandbox: object, *calls: Call) -> list[ToolResult]:
    """Run one turn that makes these calls, and return their results."""
    with ScriptedModel([Say(calls=[*calls]), "done"]) as model:
        agent, _, _ = build_runtime(config, model=model, approver=AutoApprover("auto_allow"), sandbox=sandbox)
        done = agent.run("go")
    return [part for message in done.messages for part in message.tool_results]


def test_bash_runs_in_what_is_passed(tmp_path: Path) -> None:
    """Its output, errors and exit code are told as the shell's own are; file tools stay where they are."""
    ran: list[str] = []

    def engine(argv: Sequence[str], timeout_s: float) -> Ran:
        ran.append(argv[1])
        return (3, "out\n", "oops\n") if argv[1] == "exec" else (0, "", "")

    sandbox = DockerSandbox(tmp_path, runner=engine)
    config = Config(model="m", working_dir=str(tmp_path))
    calls = Call("bash", {"command": "ls"}), Call("write_file", {"path": "a", "content": "x"})
    bash, wrote = results_of(config, sandbox, *calls)

    assert ("out\n[stderr]\noops\n[exit code 3]", True) == (bash.content, bash.is_error)
    assert (3, "DockerSandbox") == tuple((bash.data or {})[name] for name in ("exit_code", "sandbox"))
    assert (False, "x") == (wrote.is_error, (tmp_path / "a").read_text())
    assert ["run", "exec"] == ran  # it is the caller's to close


def test_a_policy_puts_every_tool_behind_its_fence(tmp_path: Path) -> None:
    """The shell is inside, and file tools change only what it could."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    config = Config(model="m", working_dir=str(tmp_path))
    calls = Call("bash", {"command": "pwd; touch /etc/x"}), Call("write_file", {"path": "plait.toml", "content": "x"})
    bash, wrote = results_of(config, SandboxPolicy(tmp_path), *calls)

    assert os.path.realpath(tmp_path) == bash.content.split("\n")[0]
    assert "Read-only file system" in bash.content
    assert (True, False) == (wrote.is_error, (tmp_path / "plait.toml").exists())


def test_what_is_no_sandbox_is_refused(tmp_path: Path) -> None:
    """A name that is none, an object without `run`, and a fence around another folder are configuration errors."""
    (tmp_path / "other").mkdir()

    with pytest.raises(ConfigError, match="is no sandbox"):
        Config(model="m", sandbox="jail")
    with pytest.raises(ConfigError, match="has no run"):
        results_of(Config(model="m"), object())
    if shutil.which("bwrap") is not None:
        with pytest.raises(ConfigError, match="the agent works elsewhere"):
            results_of(Config(model="m", working_dir=str(tmp_path)), SandboxPolicy(tmp_path / "other"))


def test_a_container_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Config(sandbox="docker")` without an engine answers each call with 127 and why."""
    monkeypatch.setenv("PATH", str(tmp_path))

    (bash,) = results_of(
        Config(model="m", working_dir=str(tmp_path), sandbox="docker"), None, Call("bash", {"command": "ls"})
    )

    assert (True, True) == (bash.is_error, "docker sandbox unavailable" in bash.content)
    assert "[exit code 127]" in bash.content
