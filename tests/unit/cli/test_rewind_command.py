"""`plait rewind`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plait.cli.entry import run_command_line
from plait.testing import Call, Say, ScriptServer

SCRIPT: list[Any] = [
    Say(calls=[Call("write_file", {"path": "a.txt", "content": "one"})]),
    "First.",
    Say(calls=[Call("write_file", {"path": "a.txt", "content": "two"})]),
    "Second.",
]


@pytest.fixture
def work(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder where a session of two turns has been; stand elsewhere."""
    folder = tmp_path / "work"
    folder.mkdir()
    with ScriptServer(SCRIPT) as server:
        for task in ("go \x1b[2J", "and on"):
            options = ["--session", "mine", "--endpoint", server.url, "-m", "any", "--yes", "-C", str(folder)]
            assert 0 == run_command_line(["run", *options, task])
    monkeypatch.chdir(tmp_path)
    return folder


def rewind(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Rewind and return the code and what was written."""
    capfd.readouterr()
    code = run_command_line(["rewind", *arguments])
    written = capfd.readouterr()
    return code, written.out, written.err


def test_the_turns_are_listed(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without --to nothing is changed: the turns are told with their numbers, harmlessly."""
    code, out, _ = rewind(capfd, "mine")
    assert 0 == code
    assert ["0", "1", "2"] == [line.split()[0] for line in out.splitlines()]
    assert "\x1b" not in out
    assert {"turn": 2, "question": "and on"} == json.loads(rewind(capfd, "mine", "--json")[1])[2]


def test_a_session_is_taken_back_in_its_own_folder(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """From anywhere: the file holds what it held, and the session goes on from there."""
    told = json.loads(rewind(capfd, "mine", "--to", "1", "--dry-run", "--json")[1])
    assert ([{"path": "a.txt", "outcome": "restored"}], True) == (told["files"], told["dry_run"])
    assert "two" == (work / "a.txt").read_text()

    code, out, _ = rewind(capfd, "mine", "--to", "1")
    assert (0, "one") == (code, (work / "a.txt").read_text())
    assert "a.txt: taken back" in out
    assert "4 messages taken back" in out
    assert 0 == run_command_line(["sessions", "show", "mine"])
    assert "Second." not in capfd.readouterr().out
    code, out, _ = rewind(capfd, "mine", "--to", "2")
    assert (0, True) == (code, 'after turn 2: "' in out and "4 messages put back" in out)


def test_what_stays_is_said(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file that was changed by hand is left alone, and the exit code says that not everything is as it was."""
    (work / "a.txt").write_text("by hand")
    code, out, _ = rewind(capfd, "mine", "--to", "0")
    assert 1 == code
    assert "a.txt: left alone: somebody has changed it since" in out
    assert "by hand" == (work / "a.txt").read_text()


def test_a_folder_that_is_gone_is_a_sentence(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Files are looked for where the session worked, or where the user says; otherwise nothing is done."""
    work.rename(work.with_name("moved"))
    code, _, err = rewind(capfd, "mine", "--to", "0")
    assert (2, True) == (code, "which is gone" in err)
    code, out, _ = rewind(capfd, "mine", "--to", "1", "-C", str(work.with_name("moved")))
    assert (0, "one", True) == (code, (work.with_name("moved") / "a.txt").read_text(), "taken back" in out)


@pytest.mark.parametrize("arguments", [["nobody"], ["mine", "--to", "9"], ["mine", "--to", "x"]])
def test_what_cannot_be_done_is_a_sentence(work: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """No such session or turn: a usage error, and nothing is changed."""
    code, out, err = rewind(capfd, *arguments)
    assert (2, "") == (code, out)
    assert "Traceback" not in err
    assert "two" == (work / "a.txt").read_text()
