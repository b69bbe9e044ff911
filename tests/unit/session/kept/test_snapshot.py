"""`messages.json`: there for whoever reads it, never needed, and cheap."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import JournalCorrupt
from plait.engine.spec import default_specification
from plait.session.history.resetting import clear_session
from plait.session.kept.keeping import kept_at
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store import disk
from plait.store.export import export
from plait.store.opening import load_journal
from plait.store.salvage import verify
from plait.store.sessions import Sessions
from plait.testing import ScriptedModel
from tests.helpers.faulty_os import FaultyOs

SPEC = default_specification("m", "http://127.0.0.1:1/v1")


def opened(name: str = "s1", *, pause_s: float = 60.0, **options: Any) -> Session:
    """Return a session that is kept in the state folder, and between whose turns time passes."""
    session = init_session(SPEC, session_id=name, strict_cache_proof=False, **options)
    snapshot = session._live.standing.snapshot
    clock = itertools.count(snapshot._written_s + pause_s, pause_s)
    snapshot._monotonic_s = lambda: next(clock)
    return session


def ask(session: Session, answer: str, task: str = "Go on.") -> list[str]:
    """Run a turn; return the texts that the model was sent."""
    with ScriptedModel([answer]) as model:
        assert run_turn(model, "m", session, task).error is None
    return [message.content for message in model.requests[0].messages]


def place(name: str = "s1") -> Path:
    """Return where the file is."""
    return Sessions.of(os.environ).place_of(name).path / "messages.json"


def told(name: str = "s1") -> dict[str, Any]:
    """Return what the file says."""
    document: dict[str, Any] = json.loads(place(name).read_bytes())
    return document


def test_each_turn_of_a_short_session_is_shown_with_what_the_session_is_about() -> None:
    """After each turn the file says what `messages` says, up to which record, and no key; a clear empties it."""
    with opened() as session:
        assert not place().exists()
        for answer in ("One.", "Two \u00e9 \ud800."):
            ask(session, answer)
            assert session["messages"] == told()["messages"]
        metadata = told()["metadata"]
        session["messages"].append({"role": "user", "content": "An edit that no turn has recorded."})
        clear_session(session)
        assert session["messages"] == told()["messages"]
    seq = load_journal(place().with_name("journal.jsonl")).seq

    assert ("m", "s1", SPEC["endpoint"]) == tuple(metadata[name] for name in ("model", "session_id", "endpoint"))
    assert {"min_cacheable_tokens": 0, "ttl_seconds": 3600} == metadata["cache"]
    assert [*session["tool_dispatch"]] == metadata["tools"]
    assert seq > told()["metadata"]["up_to_seq"] > metadata["up_to_seq"] > 0
    assert 0o600 == place().stat().st_mode & 0o777


@pytest.mark.parametrize("content", [None, b"", b'{"messages": [{"role": "user"', b"[]", b"\xff\x00", "folder"])
def test_a_resume_reads_the_journal_alone(content: bytes | str | None) -> None:
    """A file that is gone, damaged, stale or no file changes nothing: same request, same export, whole journal."""
    with opened() as session:
        ask(session, "One.")
    journal = place().with_name("journal.jsonl")
    exported = export(journal, "jsonl")
    place().unlink()
    if isinstance(content, bytes):
        place().write_bytes(content)
    elif content == "folder":
        place().mkdir()
    is_whole = verify(journal).is_whole
    with opened() as session:
        sent = ask(session, "Two.", "And?")

    assert is_whole
    assert exported == export(journal, "jsonl")[: len(exported)]
    assert ["Go on.", "One.", "And?"] == sent
    assert content == "folder" or session["messages"] == told()["messages"]
    Sessions.of(os.environ).delete(Sessions.of(os.environ).find("s1"))
    assert [] == os.listdir(Sessions.of(os.environ).folder)


def test_a_session_that_is_only_looked_at_leaves_the_file_alone() -> None:
    """Opening and closing a session writes nothing."""
    with opened() as session:
        ask(session, "One.")
    place().write_bytes(b"mine")
    with opened():
        pass

    assert b"mine" == place().read_bytes()


def test_a_long_session_is_not_written_again_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """All writes of a conversation that grows to 60 times the size come to a few times its size; the last is whole."""
    sizes: list[int] = []
    write = disk.put_in_place

    def noted(path: Path, data: bytes) -> None:
        sizes.append(len(data))
        write(path, data)

    monkeypatch.setattr(disk, "put_in_place", noted)
    with opened(compaction_policy="never") as session:
        for number in range(60):
            ask(session, f"{number} " + "x" * 20_000)
    assert session["messages"] == told()["messages"]
    assert 7 * sizes[-1] > sum(sizes)
    assert 25 > len(sizes)


def test_turns_that_follow_each_other_at_once_write_nothing() -> None:
    """Only the end of the session does, and the end of a turn that comes seconds later."""
    with opened(pause_s=0.1) as session:
        for _ in range(3):
            ask(session, "One.")
        assert not place().exists()

    assert session["messages"] == told()["messages"]


def test_no_turn_fails_for_it_and_no_sync_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails while the file is written, the turn is as it was; its folder holds no remains."""
    with opened() as session:
        ask(session, "One.")
        counting, syncs = FaultyOs(), []
        monkeypatch.setattr(disk, "sync_file", lambda *_: syncs.append(1))
        monkeypatch.setattr(disk, "os", counting)
        disk.put_in_place(place(), b"{}")
        for number in range(1, counting.count + 1):
            for error in (28, "short"):
                monkeypatch.setattr(disk, "os", FaultyOs(number, error))
                session._live.standing.snapshot._written = (-1, 0)
                session._live.standing.snapshot.keep(session, session._live.log.journal, is_last=True)
        monkeypatch.setattr(disk, "os", os)
        names = set(os.listdir(place().parent))
        ask(session, "Two.")

    assert [] == syncs
    assert {"journal.jsonl", "journal.jsonl.writer", "messages.json"} >= names
    assert session["messages"] == told()["messages"]


def test_the_cache_of_a_damaged_session_is_not_taken_for_the_session() -> None:
    """A path to a session whose journal is damaged at its very beginning is refused, whatever its cache says."""
    with opened() as session:
        ask(session, "One.")
    journal = place().with_name("journal.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'{"seq":0', b'{"seq":8', 1))

    with pytest.raises(JournalCorrupt):
        kept_at(str(place().parent))
