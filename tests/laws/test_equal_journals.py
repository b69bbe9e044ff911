"""P-ONE: the same turn leaves the same journal, whoever drives it and whatever keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from plait.core.exchange import Reply
from plait.core.facts import Entry, Fact, MessageAdded, ToolEnd
from plait.core.messages import user
from plait.core.usage import Usage
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.hosts.stage import Policy
from plait.engine.limits import Limits
from plait.engine.validation import compile_schema
from plait.kernel.effects import Act, Allow, Approve, Boundary, Effect, Outcome, Plan, Record, Think
from plait.kernel.log import MemoryLog
from plait.kernel.loop import Loop, turn
from plait.kernel.ports import Setup
from plait.kernel.rules import Rules
from plait.kernel.scripted import play
from plait.kernel.state import State, fold
from plait.kernel.tools import Tool, ToolTable
from plait.store.opening import load_journal
from plait.store.records import Chain, encode_header, read_journal
from plait.store.syncer import AsyncJsonlLog, Syncer
from plait.testing import Call, Say, ScriptedModel
from tests.helpers.journals import facts_of, opened, ticking
from tests.helpers.programs import Program, ProgramWorld, programs
from tests.helpers.worlds import TASK, assert_same_state

SCRIPT: Sequence[Any] = (
    Say("I look.", calls=[Call("look", {"at": 1}, id="a"), Call("write", {"at": 2}, id="b")]),
    Say(calls=[Call("nope", id="c"), Call("look", {"at": "no number"}, id="d"), Call("fail", id="e")]),
    "Done.",
)


def look(at: int) -> tuple[str, dict[str, object]]:
    """Return text and data."""
    return f"saw {at}", {"at": at, "huge": 2**80, "half": "\ud800"}


def write(at: int) -> str:
    """Return text that only escapes can carry."""
    return f"wrote {at}\0\ud800"


def fail() -> str:
    """Break."""
    raise ValueError("it broke")


TABLE = ToolTable(
    [Tool("look", "", look, parallel_safe=True), Tool("write", "", write, mutates=True), Tool("fail", "", fail)],
    compile=compile_schema,
)
TERMS = Terms(TABLE, Setup("", TABLE.schemas), Policy(limits=Limits(tool_concurrency=1)), Rules(max_steps=9))


def conversation(**logs: Any) -> Conversation:
    """Return a conversation on some log, with the script before it."""
    return Conversation(ScriptedModel(SCRIPT), TERMS, Workbench(), **logs)


def in_memory() -> list[Fact]:
    """Hold the conversation without a file."""
    log = MemoryLog(ticking())
    conversation(log=log, alog=log).turn((TASK,))
    return facts_of(log.entries)


def with_sync_driver(folder: Path) -> list[Fact]:
    """Hold it in this thread, on a journal."""
    log = opened(folder).log
    conversation(log=log, alog=log).turn((TASK,))
    log.close()
    return load_journal(log.path).facts


def with_async_driver(folder: Path) -> list[Fact]:
    """Hold it in an event loop, on a journal."""
    log, syncer = opened(folder).log, Syncer()
    asyncio.run(conversation(log=log, alog=AsyncJsonlLog(log, syncer)).aturn((TASK,)))
    syncer.close()
    log.close()
    return load_journal(log.path).facts


def with_scripted_driver(facts: Sequence[Fact]) -> list[Fact]:
    """Play it from the answers that a journal holds, without a model or a tool."""
    state = State()
    answers = Recorded(facts)
    return play(answers.watching(turn(state, TABLE, TERMS.rules, (TASK,))), iter(answers, None)).facts


class Recorded:
    """Answers each effect with what a journal says came of it."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._replies = iter(
            [fact for fact in facts if isinstance(fact, MessageAdded) and fact.message.role == "assistant"]
        )
        self._results = {fact.result.call_id: fact.result for fact in facts if isinstance(fact, ToolEnd)}
        self._effect: Effect | None = None
        self._running: list[str] = []

    def watching(self, loop: Loop) -> Loop:
        """Pass a loop on, and see what it asks."""
        return self._watched(loop)

    def _watched(self, loop: Loop) -> Generator[Effect, Any, Any]:
        answer: Any = None
        while True:
            try:
                self._effect = loop.send(answer)
            except StopIteration as done:
                return done.value
            if isinstance(self._effect, Act):
                self._running += [call.id for call in self._effect.calls]
            answer = yield self._effect

    def __call__(self) -> object:
        effect = self._effect
        assert effect is not None
        assert not isinstance(effect, Record)
        if isinstance(effect, Boundary):
            return Plan()
        if isinstance(effect, Approve):
            return Allow(effect.call)
        if isinstance(effect, Think):
            said = next(self._replies)
            return Reply(said.message, said.stop or "end_turn", said.usage or Usage.UNAVAILABLE)
        done, self._running = self._running, []
        return tuple(Outcome.of(self._results[call_id]) for call_id in done)


def test_every_driver_leaves_the_same_journal(tmp_path: Path) -> None:
    """Sync, async and scripted drivers, memory and file: one turn, one sequence of facts."""
    expected = with_sync_driver(tmp_path / "sync")

    assert expected == in_memory()
    assert expected == with_async_driver(tmp_path / "async")
    assert expected == with_scripted_driver(expected)


@given(programs)
def test_a_journal_folds_to_what_memory_held(program: Program) -> None:
    """Whatever a turn comes to, the state that its journal folds to is the one it ended with."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)
    header, crc = encode_header("s1", {})
    entries = [Entry(seq, 1, "", fact) for seq, fact in enumerate(world.facts, 1)]
    journal = read_journal(header + Chain(crc).write(entries))

    assert world.facts == journal.facts
    assert_same_state(world.state, fold(journal.facts))


@pytest.mark.parametrize("text", ["", "\0", "\udc00\ud800", "é", "\u2028", "x" * 100_000])
def test_what_users_type_is_kept(tmp_path: Path, text: str) -> None:
    """A message comes back as it was typed, whatever it holds."""
    log = opened(tmp_path).log
    log.append((MessageAdded(user(text)),))
    log.close()

    assert [MessageAdded(user(text))] == load_journal(log.path).facts
