"""P-PREFIX: the journal says of every request whether its bytes begin with those of the last answered one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from plait.core.clock import SystemClock
from plait.core.facts import Fact, MessageAdded
from plait.core.messages import user
from plait.engine.cache.ledger import CacheLedger, CacheRequest, is_answer
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.kernel.ports import Setup
from plait.kernel.rules import Retry, Rules
from plait.kernel.tools import Tool, ToolTable
from plait.models.chat_model import ChatModel, chat_model
from plait.store.jsonl import JOURNAL
from plait.store.opening import load_journal, open_journal
from plait.testing import Call, ScriptServer
from plait.testing.faults import Status
from plait.testing.request import Request

TOOLS = (Tool("one", "One.", lambda: "1"), Tool("two", "Two.", lambda: "2"))
ANSWERS = ("done", "call", "busy")


class World:
    """A conversation in a journal, against a server that keeps every byte."""

    def __init__(self, folder: Path, model: ChatModel) -> None:
        self.folder = folder
        self.model = model
        self.system, self.tools, self.name = "s", 1, "m"
        # No text comes twice: after a resume a replaced message counts as changed, whatever took its place.
        self.count = itertools.count()
        self.open()

    def open(self) -> None:
        """Begin, or go on as another process does."""
        self.opened = open_journal(self.folder, "s", SystemClock().now_ms)
        log = self.opened.log
        self.talk = Conversation(self.model, self.terms(), Workbench(), state=self.opened.state, log=log, alog=log)
        self.talk.cache.remember(self.opened.journal.facts, self.opened.journal.told.times_ms)

    def terms(self) -> Terms:
        """Return the terms of now."""
        table = ToolTable(TOOLS[: self.tools])
        return Terms(table, Setup(self.system, table.schemas), rules=Rules(retry=Retry(attempts_max=2, base_s=0)))

    def close(self) -> None:
        """Let the journal go."""
        self.talk.close()
        self.opened.log.close()

    def do(self, move: str, number: int) -> None:
        """Do one thing between turns, or a turn."""
        history = self.talk.state.history
        if move == "ask":
            self.talk.turn((user(f"question {next(self.count)}"),))
        elif move == "edit" and number < len(history) and history[number].role == "user":
            self.talk.rewrite(number, number + 1, (user(f"edited {next(self.count)}"),), "host_edit")
        elif move == "clear":
            self.talk.rewrite(0, len(history), (), "clear")
        elif move == "system":
            self.system += "!"
        elif move == "tools":
            self.tools = 3 - self.tools
        elif move == "model":
            self.name = "n" if self.name == "m" else "m"
        elif move == "resume":
            self.close()
            self.open()
        self.talk.change(self.model.with_model(self.name), self.terms())


moves = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "edit", "clear", "system", "tools", "model", "resume"]), st.integers(0, 4)
    ),
    max_size=9,
)


@given(moves, st.lists(st.sampled_from(ANSWERS), min_size=40, max_size=40))
@settings(max_examples=10)
def test_the_journal_tells_what_the_wire_carried(plan: Sequence[tuple[str, int]], answers: Sequence[str]) -> None:
    """Whatever is edited, replaced, resumed or refused in between: a request is said to extend the last answered one
    if and only if it begins with its bytes, and the first message that differs is the one that is named."""
    told, sent = carried_out([*plan, ("ask", 9)], answers)

    assert len(sent) == len(told)
    for before, after, request in zip(sent, sent[1:], told[1:], strict=False):
        assert request.extends is after.startswith(before), request
        if request.departure is not None and request.departure.part == "message":
            assert first_difference(before, after) == request.departure.index
    assert "unexplained" not in {request.departure.why for request in told if request.departure is not None}


@pytest.mark.prove
@given(moves, st.lists(st.sampled_from(ANSWERS), min_size=60, max_size=60))
@settings(max_examples=150)
def test_the_journal_tells_what_the_wire_carried_at_length(
    plan: Sequence[tuple[str, int]], answers: Sequence[str]
) -> None:
    """The same, many times."""
    test_the_journal_tells_what_the_wire_carried.hypothesis.inner_test(plan, answers)  # type: ignore[attr-defined]


def carried_out(plan: Sequence[tuple[str, int]], answers: Sequence[str]) -> tuple[list[CacheRequest], list[bytes]]:
    """Carry a plan out; return what its journal tells, and head and messages of each answered request."""
    answered: list[Request] = []

    def script(request: Request) -> Any:
        step = next(steps)
        if step == "busy":
            return Status(503)
        answered.append(request)
        return Call("one", {}) if step == "call" else "done"

    steps: Iterator[str] = iter(answers)
    with TemporaryDirectory() as folder, ScriptServer(script) as server:
        world = World(Path(folder) / "s", chat_model("m", server.url))
        for move, number in plan:
            world.do(move, number)
        world.close()
        world.model.close()
        journal = load_journal(Path(folder) / "s" / JOURNAL)
    facts: Sequence[Fact] = journal.facts
    told = CacheLedger().take_all(facts, journal.told.times_ms)
    assert len(answered) == sum(isinstance(fact, MessageAdded) and is_answer(fact) for fact in facts)
    return [request for request in told if request.purpose == "step"], [stem(request.body) for request in answered]


def stem(body: bytes) -> bytes:
    """Return a request up to the end of its last message."""
    return body[: body.rindex(b'],"stream":true')]


def first_difference(before: bytes, after: bytes) -> int:
    """Return the first message of the later request, after the system prompt, that the earlier one has not."""
    ours, theirs = (b.split(b'"messages":[', 1)[1].split(b',{"role"')[1:] for b in (before, after))
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
