"""`plait clear` and `plait compact`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plait.cli.entry import run_command_line
from plait.testing import Say, ScriptServer
from plait.testing.faults import Status

LONG = "It is a long story. " * 60
SUMMARY = "Objective: tell a story."


@pytest.fixture(autouse=True)
def work(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a folder to work in, and stand elsewhere."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    return folder


def hold(server: ScriptServer, work: Path, turns: int = 3) -> None:
    """Hold the session `mine`."""
    for number in range(turns):
        options = ["--session", "mine", "--endpoint", server.url, "-m", "any", "--yes", "-C", str(work)]
        assert 0 == run_command_line(["run", *options, f"task {number + 1}"])


def typed(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command and return the code and what was written."""
    capfd.readouterr()
    code = run_command_line(arguments)
    written = capfd.readouterr()
    return code, written.out, written.err


def asked(server: ScriptServer) -> list[str]:
    """Return the last request's messages, the system prompt left out."""
    return [str(item["content"]).strip() for item in server.requests[-1].messages if item["role"] != "system"]


def test_a_session_is_cleared_from_anywhere(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The next resume sends the new task alone; a rewind brings the old turns back, a replay finds nothing amiss."""
    with ScriptServer(["One.", "Two.", "Three.", "Four."]) as server:
        hold(server, work, 2)
        assert (0, "mine is empty now; 4 messages were taken out\n", "") == typed(capfd, "clear", "mine")
        assert {"id": "mine", "messages_removed": 0} == json.loads(typed(capfd, "clear", "mine", "--json")[1])
        assert 0 == typed(capfd, "resume", "mine", "--yes", "anew")[0]
        assert ["anew"] == asked(server)
        assert 0 == typed(capfd, "replay", "mine")[0]
        assert 0 == typed(capfd, "rewind", "mine", "--to", "2")[0]
        assert 0 == typed(capfd, "resume", "mine", "--yes", "back")[0]
        assert ["task 1", "One.", "task 2", "Two.", "back"] == asked(server)


def test_a_fork_has_what_was_cleared_or_compacted(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A fork without --to begins with what the session holds now, not with what it held when its last turn ended."""
    with ScriptServer(["One.", "Two.", "Anew."]) as server:
        hold(server, work, 2)
        typed(capfd, "clear", "mine")
        assert 0 == typed(capfd, "fork", "mine", "--as", "other")[0]
        assert 0 == typed(capfd, "resume", "other", "--yes", "hello")[0]
        assert ["hello"] == asked(server)


def test_a_session_is_compacted_from_anywhere(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The line says what was gained; the next resume sends the summary and what was kept; the cache knows why."""
    with ScriptServer([LONG, LONG, "Three.", SUMMARY, "Four."]) as server:
        hold(server, work)
        code, out, _ = typed(capfd, "compact", "mine", "--keep", "1")
        assert 0 == code
        assert "mine: 6 messages are 3 now" in out
        assert "tokens" in out
        assert 0 == typed(capfd, "resume", "mine", "--yes", "go on")[0]
        assert [SUMMARY, "task 3", "Three.", "go on"] == asked(server)
        assert 0 == typed(capfd, "replay", "mine")[0]
        assert "compaction" in typed(capfd, "cache", "explain", "mine")[1]


def test_a_compaction_as_data(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--json` has the numbers, the summary and what it took."""
    with ScriptServer([LONG, LONG, "Three.", SUMMARY]) as server:
        hold(server, work)
        told = json.loads(typed(capfd, "compact", "mine", "--json")[1])
        assert (True, SUMMARY, 6, 5) == tuple(
            told[name] for name in ("is_gain", "summary", "messages_before", "messages_after")
        )
        assert told["usage"]["total"] > 0
        assert 0 == typed(capfd, "clear", "mine")[0]
        told = json.loads(typed(capfd, "compact", "mine", "--json")[1])
        assert (False, "there is nothing older than what is kept") == (told["is_gain"], told["reason"])


def test_another_model_gets_a_copy(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As with resume: the session itself stays as it is."""
    with ScriptServer([LONG, LONG, "Three.", SUMMARY, "Four."]) as server:
        hold(server, work)
        told = json.loads(typed(capfd, "compact", "mine", "-m", "other", "--json")[1])
        assert told["id"].startswith("mine-")
        assert "other" == server.requests[-1].model
        assert 0 == typed(capfd, "resume", "mine", "--yes", "go on")[0]
        assert 7 == len(asked(server))


def test_what_goes_wrong_has_a_code(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A model that fails is 3, a session that is not there or waits for its turn's end is 2, a deadline is 1."""
    script: list[Any] = [LONG, LONG, "Three.", Status(503, headers={"Retry-After": "3600"}), Say(SUMMARY, delay_s=30)]
    with ScriptServer(script) as server:
        hold(server, work)
        code, out, err = typed(capfd, "compact", "mine")
        assert (3, "") == (code, out)
        assert "cannot answer" in err
        code, _, err = typed(capfd, "compact", "mine", "--timeout", "0.2")
        assert 1 == code
    for verb in ("clear", "compact"):
        code, _, err = typed(capfd, verb, "nothing")
        assert 2 == code
        assert "there is no session 'nothing'" in err
        assert 2 == typed(capfd, verb)[0]
    assert 2 == typed(capfd, "compact", "mine", "--keep", "-1")[0]
    assert "error" in json.loads(typed(capfd, "compact", "nothing", "--json")[1])


def test_a_summary_is_taken_back_from_anywhere(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The next resume sends what was said, word for word; without a summary nothing is changed, and that is said."""
    with ScriptServer([LONG, LONG, "Three.", SUMMARY, "Four."]) as server:
        hold(server, work)
        assert 0 == typed(capfd, "compact", "mine", "--keep", "1")[0]
        assert (0, "mine: 4 messages are back\n", "") == typed(capfd, "compact", "--undo", "mine")
        assert {"id": "mine", "messages_restored": 0} == json.loads(
            typed(capfd, "compact", "--undo", "mine", "--json")[1]
        )
        assert (0, "mine: no summary stands in it; nothing was changed\n", "") == typed(
            capfd, "compact", "--undo", "mine"
        )
        assert 0 == typed(capfd, "resume", "mine", "--yes", "go on")[0]
        assert ["task 1", LONG.strip(), "task 2", LONG.strip(), "task 3", "Three.", "go on"] == asked(server)
        assert 0 == typed(capfd, "replay", "mine")[0]
