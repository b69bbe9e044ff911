"""What keeping a session costs, what is refused, and going on with another model on another wire."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from plait.core.errors import JournalCorrupt
from plait.core.messages import ToolCall
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import default_specification
from plait.kernel.tools import Tool
from plait.models.chat_model import chat_model
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store import disk
from plait.store.layout import SessionFolder
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptedModel, ScriptServer

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
ECHO = Tool("echo", "Say it again.", lambda text: f"echo:{text}", parameters={"type": "object"}, mutates=True)
HI = Call("echo", {"text": "hi"})


def opened(**options: Any) -> Session:
    """Return a session with the tool `echo`."""
    return init_session(SPEC, **{"tools": [ECHO], "strict_cache_proof": False, **options})


def ask(session: Session, *script: Any) -> None:
    """Run a turn on a script."""
    with ScriptedModel([*script]) as model:
        assert run_turn(model, "m", session, "Go on.").error is None


def place(name: str) -> SessionFolder:
    """Return where a session is kept."""
    return Sessions.of(os.environ).place_of(name)


def test_what_a_step_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that only reads is one sync, a batch that changes something one more, and so is a question about it."""
    syncs: list[int] = []
    sync_data = disk.sync_data
    monkeypatch.setattr(disk, "sync_data", lambda fd: (syncs.append(fd), sync_data(fd))[1])
    reads = Tool("read", "", lambda: "read", parameters={"type": "object"}, idempotent=True)

    def cost(*calls: Call, **options: Any) -> int:
        with opened(tools=[reads, ECHO], **options) as session:
            ask(session, "Begun.")
            syncs.clear()
            ask(session, *calls, "Done.")
            return len(syncs)

    alone = cost()
    assert 2 == alone
    assert alone + 2 == cost(*[Call("read", {})] * 2)
    assert alone + 2 == cost(HI)
    assert alone + 3 == cost(HI, approver=Yes())


class Yes:
    """Allows everything."""

    def approve(self, call: ToolCall, tool: Tool) -> bool:
        """Say yes."""
        return True


def test_a_damaged_journal_is_not_opened() -> None:
    """The record is named, nothing is changed, and the advice is what helps."""
    with opened(session_id="s") as session:
        ask(session, "One.")
        ask(session, "Two.")
    data = place("s").journal.read_bytes()
    place("s").journal.write_bytes(data.replace(b"One.", b"One,", 1))
    for _ in range(2):
        with pytest.raises(JournalCorrupt, match="record 4") as caught:
            opened(session_id="s")

    assert "plait sessions repair" in caught.value.hint
    assert data.replace(b"One.", b"One,", 1) == place("s").journal.read_bytes()


@pytest.mark.parametrize("first, second", [("anthropic", "chat"), ("chat", "anthropic"), ("responses", "chat")])
def test_a_history_is_valid_on_another_wire(first: Any, second: Any) -> None:
    """A session with thoughts, calls and results goes on where requests look otherwise: nothing of it is lost."""
    script = [Say("I look.", reasoning="Hm.", calls=[HI, Call("echo", {"text": "ho"})]), "One."]
    with ScriptServer(script) as server, opened(session_id="s") as session:
        model = chat_model("m", server.url, wire=first)
        assert "One." == run_turn(model, "m", session, "Begin.").final_reply
    other = AgentSpec({**SPEC, "model": "n"})
    with (
        ScriptServer(["Two."]) as server,
        init_session(other, session_id="s", tools=[ECHO], strict_cache_proof=False) as session,
    ):
        model = chat_model("n", server.url, wire=second)
        assert "Two." == run_turn(model, "n", session, "Go on.").final_reply
        sent = json.dumps(server.requests[0].json)

    assert all(words in sent for words in ("Begin.", "I look.", "echo:hi", "echo:ho", "One.", "Go on."))
    assert session["session_id"].startswith("s-")


@pytest.mark.parametrize("kept", [0, 1, 9, -1])
def test_a_journal_that_was_never_safe_is_none(kept: int) -> None:
    """After a crash in the middle of its first line a session of its name begins; a promised line counts."""
    with opened(session_id="s") as session:
        ask(session, "One.")
    journal = place("s").journal
    line = journal.read_bytes().partition(b"\n")[0]
    journal.write_bytes(line[:kept] if kept >= 0 else line)
    with pytest.raises(JournalCorrupt):
        opened(session_id="s").close()
    journal.with_name("journal.jsonl.writer").unlink()
    with opened(session_id="s", durable=False) as session:
        ask(session, "Two.")
        assert 3 == len(session["messages"])
    with opened(session_id="s") as session:
        ask(session, "Three.")
        assert [place("s").path] == [glance.folder for glance in Sessions.of(os.environ).listed(os.getcwd())]
    with opened(session_id="s") as session:
        assert "Three." == session["messages"][-1]["content"]
