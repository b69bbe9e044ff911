"""`plait run` is killed while a command of its own runs: the command goes on, and the resume has its answer."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from plait.core.facts import ToolEnd
from plait.hands.process_tree import stop_marked
from plait.hands.spool import Spool
from plait.store.opening import load_journal
from plait.testing import Call, ScriptServer
from tests.e2e.command import TIMEOUT_S, plait, start, wait_until
from tests.e2e.test_resuming import journal, kill, run
from tests.helpers.processes import working_in


def results(server: ScriptServer, index: int) -> list[str]:
    """Return what a request says of tool calls."""
    messages = json.loads(server.requests[index].body)["messages"]
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def test_a_command_outlives_the_run_and_its_answer_is_collected(tmp_path: Path) -> None:
    """Killed during `sleep; echo done > f`, it ran once, `f` holds `done`, and the model reads its output."""
    command = "echo x >> ran; sleep 1.5; echo done > f; echo finished"
    with ScriptServer([Call("exec_shell", {"command": command}), "Done."]) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        wait_until(lambda: (tmp_path / "ran").exists(), "the command")
        kill(process)
        assert not (tmp_path / "f").exists()
        ran = plait("resume", "s", "--yes", cwd=tmp_path)
        told = results(server, 1)

    assert (0, "Done.\n", ["finished"]) == (ran.code, ran.out, told)
    assert ("x\n", "done\n") == ((tmp_path / "ran").read_text(), (tmp_path / "f").read_text())
    (end,) = (fact.result for fact in load_journal(journal("s")).facts if isinstance(fact, ToolEnd))
    assert ("ok", "ended") == (end.status, (end.data or {}).get("recovered"))


def test_a_command_that_ended_meanwhile_is_collected(tmp_path: Path) -> None:
    """The resume may come long after: the end is in the session's spool."""
    with ScriptServer(
        [Call("exec_shell", {"command": "echo x >> ran; sleep 0.3; touch over; exit 4"}), "Done."]
    ) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        wait_until(lambda: (tmp_path / "ran").exists(), "the command")
        kill(process)
        wait_until(lambda: (tmp_path / "over").exists(), "its end")
        plait("resume", "s", "--yes", cwd=tmp_path)
        told = results(server, 1)

    assert (["[exit code 4]"], "x\n") == (told, (tmp_path / "ran").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["int", "term", "hup"])
def test_an_orderly_end_takes_the_command_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, TERM and HUP end the command with all it has started; nothing is left and nothing to collect."""
    command = "setsid sleep 60 & sleep 61"
    asleep = ["sleep 60", "sleep 61"]
    with ScriptServer([Call("exec_shell", {"command": command})]) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        wait_until(lambda: {*asleep} <= {*working_in(tmp_path)}, "both")
        process.send_signal(number)
        process.communicate(timeout=TIMEOUT_S)
        left = working_in(tmp_path)

    assert 128 + number == process.returncode % 256 or -number == process.returncode
    assert not {*asleep} & {*left}
    (end,) = (fact.result for fact in load_journal(journal("s")).facts if isinstance(fact, ToolEnd))
    assert end.content.startswith("ERROR: The command was cancelled.")


def test_a_resume_that_is_killed_too(tmp_path: Path) -> None:
    """Kill after kill the command goes on, once, and whoever comes to the end has the answer."""
    command = "echo x >> ran; sleep 4; echo finished"
    with ScriptServer([Call("exec_shell", {"command": command}), "Done."]) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        wait_until(lambda: (tmp_path / "ran").exists(), "the command")
        kill(process)
        second = start("resume", "s", "--yes", cwd=tmp_path)
        wait_until(lambda: str(second.pid) in lock_of("s"), "the second")
        kill(second)
        ran = plait("resume", "s", "--yes", cwd=tmp_path)
        told = results(server, 1)

    assert (0, ["finished"], "x\n") == (ran.code, told, (tmp_path / "ran").read_text())


def lock_of(name: str) -> str:
    """Return what the folder of a session says of its owner."""
    folder = journal(name).parent
    return "".join(path.read_text() for path in folder.glob("*.writer"))


def test_files_of_the_spool_are_the_users_alone(tmp_path: Path) -> None:
    """What commands leave is readable by their owner only, whatever the umask of the run."""
    with ScriptServer([Call("exec_shell", {"command": "echo secret"}), "Done."]) as server:
        before = os.umask(0)
        try:
            plait(*run(server, "--session", "s"), cwd=tmp_path)
        finally:
            os.umask(before)
    spool = journal("s").parent / "spool"
    modes = {path.stat().st_mode & 0o777 for path in (spool, *spool.rglob("*"))}
    assert modes <= {0o700, 0o600}
    assert any(spool.rglob("out"))
    assert stop_marked(Spool(spool).mark)
