"""A toolbox behind a fence: durable commands, background jobs and MCP servers are inside like everything else."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.hands.command import Command
from plait.hands.fence.fence import Fence, open_fence
from plait.hands.fence.policy import SandboxPolicy
from plait.kernel.tools import ToolContext
from plait.tools.answer import as_answer
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.stdio import argv_of, environment_of
from plait.tools.toolbox import Toolbox, ToolboxOptions

LEVEL = "bubblewrap+seccomp+landlock"


@pytest.fixture
def fence(tmp_path: Path) -> Fence:
    """Return a fence around an empty workspace."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    (tmp_path / "work").mkdir()
    return open_fence(SandboxPolicy(tmp_path / "work", writable_paths=("build", "src")))


def test_jobs_and_durable_commands_are_inside(fence: Fence, tmp_path: Path) -> None:
    """What outlives plait under a supervisor is fenced the same, and can be stopped."""
    (tmp_path / "work/build").mkdir()
    box = Toolbox(fence.policy.root, ToolboxOptions(fence=fence, spool=tmp_path / "spool"))
    try:
        job = json.loads(as_answer(box.background.nohup("touch /etc/x no; pwd; echo $HOME; echo x > build/made"))[0])
        intend = box.recovery("exec_shell")
        assert intend is not None
        command = {"command": "pwd; cat /etc/shadow; sleep 0.01"}
        context = ToolContext("call", "key", Cancel())
        kept = box.exec_shell(command["command"], call=replace(context, intent=intend.intend(command, context)))
        done = json.loads(as_answer(box.background.wait(job["tool_exec_id"], 20))[0])
    finally:
        box.close()

    text, data = as_answer(kept)
    assert (LEVEL, f"{fence.policy.root}\n") == (data["sandbox"], text[: len(fence.policy.root) + 1])
    assert "Permission denied" in text
    assert f"{fence.policy.root}\n/tmp/home\n" == done["stdout"]
    assert 2 == done["stderr"].count("Read-only")
    assert "x\n" == (tmp_path / "work/build/made").read_text()


def test_a_running_job_ends_when_it_is_told(fence: Fence) -> None:
    """Closing the toolbox ends the whole fence of a job."""
    box = Toolbox(fence.policy.root, ToolboxOptions(fence=fence))
    job = json.loads(as_answer(box.background.nohup("setsid sleep 60 & sleep 60"))[0])
    running = box.background.board.job(job["tool_exec_id"])
    box.close()

    assert "over" == running.state().phase
    assert [] == running.processes()


def test_file_tools_write_where_commands_may(fence: Fence, tmp_path: Path) -> None:
    """Inside the writable paths, also ones that do not exist yet; elsewhere in the workspace they only read."""
    (tmp_path / "work/read.txt").write_text("text")
    box = Toolbox(fence.policy.root, ToolboxOptions(policy="read_outside", fence=fence))
    try:
        said = {path: as_answer(box.write_file(path, "x"))[1] for path in ("src/new/a", "b", "read.txt", "../c")}
        read = as_answer(box.read_file("read.txt"))[0]
    finally:
        box.close()

    assert [True, False, False, False] == [data["ok"] for data in said.values()]
    assert "write beneath build, src" == said["b"]["hint"]
    assert ("text", False) == (read, (tmp_path / "c").exists())


def test_what_programs_outside_would_obey_is_told(tmp_path: Path, fence: Fence) -> None:
    """A protected name that did not exist can be made, and the result says so; one that did stays as it is."""
    fence = open_fence(SandboxPolicy(fence.policy.root))
    (tmp_path / "work/.envrc").write_text("mine")
    box = Toolbox(fence.policy.root, ToolboxOptions(fence=fence))
    text = as_answer(box.exec_shell("mkdir .vscode; echo '{}' > .mcp.json; echo x > .envrc; rm -f .envrc; true"))[0]
    quiet = as_answer(box.exec_shell("echo '{}' > .mcp.json; true"))[0]
    box.close()

    assert "[made: .mcp.json, .vscode; programs outside the sandbox obey" in text
    assert "made:" not in quiet
    assert ("mine", "{}\n") == ((tmp_path / "work/.envrc").read_text(), (tmp_path / "work/.mcp.json").read_text())


def test_a_fence_is_for_one_workspace(fence: Fence, tmp_path: Path) -> None:
    """Tools in another directory than the commands' are refused."""
    with pytest.raises(Refusal, match="the sandbox is around"):
        Toolbox(tmp_path, ToolboxOptions(fence=fence))


def test_an_mcp_server_is_inside(fence: Fence, tmp_path: Path) -> None:
    """Its program sees the fence's files and environment, and what its declaration adds reaches only itself."""
    config = ServerConfig(name="s", command="/bin/true", env={"TOKEN": "t", "LD_PRELOAD": "x"}, fence=fence)

    seen = environment_of(config, {**os.environ, "HOME": "/root", "PATH": "/bin"}, "mark")

    assert {"PATH": "/bin", "TOKEN": "t", "PLAIT_TREE": "mark"}.items() <= seen.items()
    assert not {"LD_PRELOAD", "HOME"} & seen.keys()
    assert fence.wrap(Command(("/bin/true",))).argv == argv_of(config)


def test_fences_are_made_side_by_side(fence: Fence) -> None:
    """Commands of several threads have a fence each."""
    box = Toolbox(fence.policy.root, ToolboxOptions(fence=fence))
    said: list[str] = []

    def count(number: int) -> None:
        said.append(as_answer(box.exec_shell(f"ls /proc | grep -c '^[0-9]'; echo {number}"))[0])

    threads = [threading.Thread(target=count, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    box.close()

    assert {"0", "1", "2"} == {text.split("\n")[1] for text in said}
    assert all(int(text.split("\n")[0]) < 8 for text in said)
