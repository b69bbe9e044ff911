"""`plait fork`, as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from plait.cli.entry import run_command_line
from plait.kernel.state import fold
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from tests.helpers.journals import append, ticking
from tests.unit.store.test_turns import TALK


@pytest.fixture
def own(home: Path) -> Sessions:
    """Return the user's sessions, among them one with two turns."""
    sessions = Sessions.of(os.environ)
    log = sessions.open("old", ticking(), project=os.getcwd()).log
    append(log, TALK)
    log.close()
    return sessions


def test_a_fork_is_made_and_named(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """The new session's name is all of stdout; stderr says from where it goes on, and how."""
    code = run_command_line(["fork", "ol", "--as", "new", "--to", "1"])
    written = capfd.readouterr()

    assert (0, "new\n") == (code, written.out)
    assert 'after turn 1: "one"' in written.err
    assert "plait resume new" in written.err
    history = fold(tuple(load_journal(own.place_of("new").journal).facts)).history
    assert ["one", "1"] == [message.content for message in history]


def test_a_fork_is_told_as_json(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """With --json the name, the folder, the turn and its question are data."""
    assert 0 == run_command_line(["fork", "old", "--json"])
    told = json.loads(capfd.readouterr().out)
    assert (2, "two", str(own.folder / told["id"])) == (told["turn"], told["question"], told["folder"])


@pytest.mark.parametrize("arguments", [["old", "--to", "9"], ["nobody"], ["old", "--as", "old"], ["old", "--to", "-1"]])
def test_what_cannot_be_forked_is_a_sentence(
    own: Sessions, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """No such turn, no such session, a name that is taken, no number: usage errors, and nothing is made."""
    assert 2 == run_command_line(["fork", *arguments])
    written = capfd.readouterr()
    assert "" == written.out
    assert "Traceback" not in written.err
    assert ["old"] == [glance.id for glance in own.listed()]
