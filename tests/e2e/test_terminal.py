"""`plait run` with a person in front of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.testing import Call, Request, Say, ScriptServer
from plait.testing.faults import Hold
from tests.e2e.command import PLAIT, environment
from tests.helpers.terminals import on_terminal

HOSTILE = "\x1b]0;owned\x07"


def shell(command: str) -> Call:
    """Make a call of the shell."""
    return Call("exec_shell", {"command": command})


def run(server: ScriptServer, *more: str) -> list[str | Path]:
    """Return the command line of a run whose commands are asked for."""
    return [PLAIT, "run", "x", "--endpoint", server.url, "-m", "any", "--sandbox", "off", *more]


def test_a_person_sees_the_run_and_is_asked(tmp_path: Path) -> None:
    """Text, calls and a diff are shown as they come, in colour; what was typed ahead answers nothing."""
    held = Hold("mid_event", answer=Say(f"First {HOSTILE} I look.", calls=[Call("list_dir", {})]))
    edit = Call("write_file", {"path": "a.txt", "content": "new\n"})
    (tmp_path / "a.txt").write_text("old\n")
    script = [held, Say("I change it.", calls=[edit]), shell("touch one"), shell("touch two"), "Done."]
    env = environment(TERM="xterm-256color")
    with ScriptServer(script) as server, on_terminal(run(server), cwd=tmp_path, env=env) as seen:
        seen.wait_for(b"First")
        seen.paste(b"y\ny\n")
        held.gate.set()
        seen.wait_for(b"Allow?")
        assert b"touch one" in seen.shown
        seen.type(b"y\n")
        seen.wait_for(b"touch two\r\nAllow?")
        seen.type(b"n\n")
        code = seen.end()

    shown = seen.shown.decode()
    assert (0, True, False) == (code, (tmp_path / "one").exists(), (tmp_path / "two").exists())
    assert "said no" in server.requests[-1].last_text
    assert ["-old", "+new"] == [line for line in ("-old", "+new") if line in shown]
    assert "\x1b[" in shown
    assert HOSTILE not in shown
    assert "5 steps, " in shown


def test_the_terminal_is_asked_when_the_streams_are_pipes(tmp_path: Path) -> None:
    """The question is on the terminal and the data on stdout, whatever stdin holds."""

    def script(request: Request) -> Call | str:
        return "Done." if request.turns else shell("touch one")

    with ScriptServer(script) as server, on_terminal(run(server, "--json"), cwd=tmp_path, piped=True) as seen:
        assert seen.process.stdout is not None
        seen.wait_for(b"Allow?")
        seen.type(b"a\n")
        document = seen.process.stdout.read()
        code = seen.end()

    assert (0, True) == (code, (tmp_path / "one").exists())
    assert document.startswith(b'{"status": "completed"')


@pytest.mark.parametrize("keys, code", [(b"\x03", 130), (b"\x04", 1)], ids=["ctrl-c", "ctrl-d"])
def test_a_question_can_be_left(keys: bytes, code: int, tmp_path: Path) -> None:
    """Ctrl-C stops the run; Ctrl-D answers nothing, and what nobody allowed does not run."""
    script = [shell("touch one"), "I could not."]
    with (
        ScriptServer(script, allow_unused=True) as server,
        on_terminal(run(server, "--json"), cwd=tmp_path) as seen,
    ):
        seen.wait_for(b"Allow?")
        seen.type(keys)

        assert code == seen.end()

    assert not (tmp_path / "one").exists()
    assert b"Traceback" not in seen.shown
