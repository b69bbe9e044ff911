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
from plait.core.messages import ToolCall
from plait.hands.command import Command
from plait.hands.fence.fence import Fence, open_fence
from plait.hands.fence.policy import SandboxPolicy
from plait.kernel.tools import ToolContext
from plait.tools.answer import as_answer
from plait.tools.background import completion_notice
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


def test_no_yes_leads_a_file_tool_out_of_the_fence(fence: Fence, tmp_path: Path) -> None:
    """A call that somebody allowed where it leads outside is refused there, and nothing is written."""
    box = Toolbox(fence.policy.root, ToolboxOptions(policy="inside_only", fence=fence))
    call = ToolCall.of("c", "write_file", {"path": "../out", "content": "x"})
    box.allow_outside("c", box.look(call))
    said = as_answer(box.write_file("../out", "x", call=ToolContext("c", "key", Cancel())))
    box.close()

    assert "escapes working directory" in said[0]
    assert not (tmp_path / "out").exists()


def test_what_programs_outside_obey_is_told_of_by_commands_and_jobs(tmp_path: Path) -> None:
    """A command's is put aside; a job's is told with its end, once by a process that came later too, and left."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    (tmp_path / "work").mkdir()
    fence = open_fence(SandboxPolicy(tmp_path / "work"))
    options = ToolboxOptions(fence=fence, spool=tmp_path / "spool")
    box = Toolbox(fence.policy.root, options)
    (tmp_path / "work/plait.toml").write_text("mine")
    said = as_answer(box.exec_shell("touch .envrc; mkdir -p sub/.git; touch plain; echo x > plait.toml"))[0]
    quiet = as_answer(box.exec_shell("touch plain; rm -f plait.toml"))[0]
    done = []
    for line in ("mkdir .husky", "true"):
        job = json.loads(as_answer(box.background.nohup(line))[0])
        done.append(json.loads(as_answer(box.background.wait(job["tool_exec_id"], 20))[0]))
    box.close(keep_jobs=True)

    assert "[set aside: .envrc is now .envrc.set-aside;" in said
    assert "[made: sub/.git;" in said
    assert "obey" not in quiet
    assert (tmp_path / "work/.envrc.set-aside").exists()
    assert "mine" == (tmp_path / "work/plait.toml").read_text()
    assert [[".husky"], None] == [each.get("made") for each in done]
    assert "look at it" in done[0]["made_note"]
    assert (tmp_path / "work/.husky").is_dir()
    later = Toolbox(fence.policy.root, options)
    told = later.background.board.take_untold()
    later.close()
    assert [[".husky"], None] == [each.get("made") for each in told]
    assert "  made: .husky; programs outside" in completion_notice(told)


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
