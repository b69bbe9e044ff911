"""`plait sessions`, as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from plait.cli.entry import run_command_line
from plait.store.sessions import Sessions
from tests.helpers.journals import WRITES, append, ticking


@pytest.fixture
def own(home: Path) -> Sessions:
    """Return the user's sessions: one of this folder, one of another."""
    sessions = Sessions.of(os.environ)
    for name, project in (("here", os.getcwd()), ("there", "/elsewhere")):
        log = sessions.open(name, ticking(), project=project).log
        append(log, WRITES)
        log.close()
    return sessions


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command and return its code and what it wrote."""
    code = run_command_line(["sessions", *arguments])
    written = capfd.readouterr()
    return code, written.out, written.err


def test_this_projects_sessions_are_listed(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """Without --all only this folder's sessions are there."""
    ids = [json.loads(run(capfd, "list", *more, "--json")[1]) for more in ((), ("--all",))]

    assert [["here"], ["here", "there"]] == [sorted(each["id"] for each in found) for found in ids]
    assert "do it" in run(capfd, "list")[1]


def test_a_session_is_shown_searched_and_exported(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """Messages are printed harmlessly; words are found or not, by exit code."""
    code, out, _ = run(capfd, "show", "her")

    assert (0, True, False) == (code, "You are welcome." in out, "\x1b" in out)
    assert (0, 1) == (run(capfd, "search", "WELCOME")[0], run(capfd, "search", "nowhere")[0])
    assert own.place_of("here").journal.read_text() == run(capfd, "export", "here")[1]
    assert run(capfd, "export", "here", "--format", "html")[1].startswith("<!doctype html>")


def test_damage_is_named_and_salvaged(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """`verify` fails with the record and its offset; `repair` makes a new session of what is whole."""
    path = own.place_of("here").journal
    data = bytearray(path.read_bytes())
    data[data.index(b"I look")] ^= 1
    path.write_bytes(data)
    code, out, _ = run(capfd, "verify", "here", "there", "--json")

    assert (1, 4) == (code, json.loads(out)[0]["problem"]["seq"])
    assert json.loads(out)[1]["problem"] is None
    assert (0, "mended\n") == run(capfd, "repair", "here", "--as", "mended")[:2]
    assert 0 == run(capfd, "verify", "mended")[0]
    assert bytes(data) == path.read_bytes()


def test_a_session_moves(own: Sessions, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An exported session is imported under another name, and never over one that is there."""
    file = tmp_path / "x.jsonl"

    assert 0 == run(capfd, "export", "here", "-o", str(file))[0]
    assert 2 == run(capfd, "export", "here", "-o", str(file))[0]
    assert (0, "copy\n") == run(capfd, "import", str(file), "--as", "copy")[:2]
    assert 2 == run(capfd, "import", str(file), "--as", "copy")[0]


def test_deleting_asks_first(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a terminal and without --yes nothing is deleted; a mistyped name deletes nothing either."""
    assert 2 == run(capfd, "delete", "here")[0]
    assert 2 == run(capfd, "delete", "there", "hree", "--yes")[0]
    assert 2 == len(own.listed())
    assert 0 == run(capfd, "delete", "here", "--yes")[0]
    assert ["there"] == [glance.id for glance in own.listed()]


def test_an_unknown_session_is_one_sentence(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """A mistyped name is told with what comes close, without a traceback."""
    code, _, err = run(capfd, "show", "hree")

    assert (2, True, False) == (code, "did you mean" in err, "Traceback" in err)
