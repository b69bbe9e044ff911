"""What an answer had used before it was cut off counts, whoever cut it, in both colours and over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pytest

from plait.core.cancel import Cancel
from plait.core.events import Delta
from plait.core.facts import TurnEnd
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.hosts.stage import Policy
from plait.engine.spec import default_specification
from plait.kernel.ports import Setup
from plait.kernel.state import fold
from plait.kernel.tools import ToolTable
from plait.models.backend import Backend
from plait.models.chat_model import ChatModel, chat_model
from plait.models.prices import Price
from plait.session.clients import create_client
from plait.session.history.resetting import compact_session
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Raw, ScriptServer, faults
from plait.wire.profile import WireName
from tests.helpers.conversations import TASK
from tests.helpers.hosts import NotedLog
from tests.helpers.worlds import assert_same_state

PRICE: Final = Price(input=Decimal(2), output=Decimal(8), currency="USD")
PREFIX: Final = {
    "chat": [
        {"choices": [{"index": 0, "delta": {"content": "Once"}}], "usage": {"prompt_tokens": 40}},
        {"choices": [{"index": 0, "delta": {"content": " upon"}}], "usage": {"completion_tokens": 2}},
    ],
    "anthropic": [
        {
            "type": "message_start",
            "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 40, "output_tokens": 2}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Once upon"}},
    ],
}
"""What comes before nothing more does."""


def hanging(wire: str) -> faults.Stall:
    """Return an answer that tells what it used, says a few words, and hangs."""
    events = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in PREFIX[wire])
    return faults.Stall(len(events), answer=Raw(events + b": more\n\n", {"Content-Type": "text/event-stream"}))


class Told:
    """A conversation whose answer is cut off as soon as its last words are there."""

    def __init__(self, model: ChatModel, cut: Callable[[], object]) -> None:
        self.log = NotedLog()
        self.talk = Conversation(model, Terms(ToolTable(), Setup(), Policy()), Workbench(), log=self.log, alog=self.log)
        self._cut = cut
        self.talk.observers.add(self._hear, Delta)

    def _hear(self, event: object) -> None:
        if isinstance(event, Delta) and event.text.endswith("upon"):
            self._cut()

    def check(self) -> None:
        """Assert that what was told is in the log, once, and in the totals with what it costs."""
        end = self.log.durable[-1]
        assert isinstance(end, TurnEnd)
        assert end.usage is not None
        assert (40, 2, Decimal("0.000096")) == (end.usage.input, end.usage.output, end.usage.cost)
        assert end.usage == self.talk.state.usage
        assert_same_state(self.talk.state, fold(self.log.durable))


@pytest.fixture(autouse=True)
def _priced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "price_of", lambda *_: PRICE)


def interrupt() -> None:
    """Send this process a real SIGINT from another thread."""
    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()


@pytest.mark.parametrize("wire", PREFIX)
@pytest.mark.parametrize("how", ["ctrl-c", "cancel"])
def test_in_a_thread(wire: WireName, how: str) -> None:
    """Ctrl-C, and a signal or a deadline from another thread."""
    cancel = Cancel()
    with ScriptServer([hanging(wire)]) as server:
        cuts = {"ctrl-c": interrupt, "cancel": lambda: cancel.cancel("timeout")}
        told = Told(chat_model("any", server.url, wire=wire), cuts[how])
        end = told.talk.turn((TASK,), cancel=cancel)
    assert {"ctrl-c": "interrupted", "cancel": "timeout"}[how] == end.reason
    assert "Once upon\n[interrupted]" == told.talk.state.history[-1].content
    told.check()


@pytest.mark.parametrize("wire", PREFIX)
@pytest.mark.parametrize("how", ["task", "cancel", "deadline"])
def test_in_an_event_loop(wire: WireName, how: str) -> None:
    """A cancelled task, a signal from anywhere, and a deadline around the turn."""
    cancel = Cancel()

    async def run(url: str) -> Told:
        task = asyncio.current_task()
        model = chat_model("any", url, wire=wire)
        assert task is not None
        limit = asyncio.timeout(None)
        soon = asyncio.get_running_loop().time
        cuts = {
            "task": task.cancel,
            "cancel": lambda: cancel.cancel("timeout"),
            "deadline": lambda: limit.reschedule(soon()),
        }
        told = Told(model, cuts[how])
        try:
            async with limit:
                await told.talk.aturn((TASK,), cancel=cancel)
        except (asyncio.CancelledError, TimeoutError):
            task.uncancel()
        await model.aclose()
        return told

    with ScriptServer([hanging(wire)]) as server:
        asyncio.run(run(server.url)).check()


def test_a_session_counts_it() -> None:
    """A turn's deadline, and a summary that is given up, leave their numbers in the session, and after a resume."""
    with ScriptServer(["One.", "Two.", "Three.", hanging("chat"), hanging("chat")]) as server:
        spec = default_specification("m", server.url)
        with create_client(spec) as client, init_session(spec, session_id="s", strict_cache_proof=False) as session:
            for task in ("1", "2", "3"):
                run_turn(client, "m", session, task)
            before = session["usage_totals"]["total"]
            result = run_turn(client, "m", session, "4", timeout=0.3)
            after = session["usage_totals"]["total"]
            given_up = compact_session(client, "m", session, timeout=0.3)
            totals = dict(session["usage_totals"])
        with init_session(spec, session_id="s", strict_cache_proof=False) as session:
            resumed = dict(session["usage_totals"])

    assert ("interrupted", 42) == (result.status, after - before)
    assert ("interrupted", 42, 42) == (given_up.status, given_up.usage.total, totals["total"] - after)
    assert totals == resumed
