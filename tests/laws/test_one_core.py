"""One loop under every driver: the same facts, in the same order of safety, from whatever crash."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from plait.core.codec import encode_fact
from plait.core.exchange import Reply
from plait.core.facts import Fact, MessageAdded, ToolEnd, TurnEnd, TurnStart
from plait.core.usage import Usage
from plait.kernel.effects import Outcome
from plait.kernel.history import fault_in
from plait.testing import Call, Say
from tests.helpers.conversations import SCRIPT, TASK, Stand
from tests.helpers.hosts import Crash, NotedLog
from tests.helpers.worlds import World, texts

SERIAL: Sequence[Any] = (
    Call("look", {"at": 1}),
    Call("awrite", {"at": 2}),
    Say("Hm.", calls=[Call("write", {"at": 3}), Call("awrite", {"at": 4})]),
    "Done.",
)
DRIVERS = pytest.mark.parametrize("kind, concurrency", [("sync", 1), ("sync", 4), ("async", 1), ("async", 4)])


def facts_of(kind: str, concurrency: int, script: Sequence[Any]) -> list[Fact]:
    """Run a script under a driver and return its facts, without what a provider reports."""
    stand = Stand(script=script, concurrency=concurrency)
    assert "completed" == stand.run(kind).reason
    stand.close()
    return [without_usage(fact) for fact in stand.log.facts]


def without_usage(fact: Fact) -> Fact:
    """Return a fact without its usage."""
    return MessageAdded(fact.message, None, fact.stop) if isinstance(fact, MessageAdded) else fact


def scripted(recorded: Sequence[Fact], concurrency: int) -> list[Fact]:
    """Play recorded facts again without a world: the third driver."""
    stand = Stand()
    replies = [
        Reply(fact.message, fact.stop or "end_turn", Usage.UNAVAILABLE)
        for fact in recorded
        if isinstance(fact, MessageAdded) and fact.message.role == "assistant"
    ]
    results = {fact.result.call_id: Outcome.of(fact.result) for fact in recorded if isinstance(fact, ToolEnd)}
    world = World(replies, results=results, tools=stand.conversation.terms.tools, together=concurrency)
    world.run(TASK)
    stand.close()
    return [without_usage(fact) for fact in world.facts]


def as_texts(facts: Sequence[Fact]) -> list[str]:
    """Return facts as text that can be counted and compared."""
    return [repr(fact) for fact in facts]


@DRIVERS
def test_every_driver_records_the_same(kind: str, concurrency: int) -> None:
    """Sync in one thread or in several, async, scripted: the same facts, and the same history in the end."""
    reference = facts_of("sync", 1, SCRIPT)
    recorded = facts_of(kind, concurrency, SCRIPT)

    assert Counter(as_texts(reference)) == Counter(as_texts(recorded)) == Counter(as_texts(scripted(recorded, 2)))


@DRIVERS
def test_without_parallel_calls_the_order_is_the_same(kind: str, concurrency: int) -> None:
    """Where nothing runs side by side, every driver records the same sequence."""
    reference = facts_of("sync", 1, SERIAL)

    assert as_texts(reference) == as_texts(facts_of(kind, concurrency, SERIAL)) == as_texts(scripted(reference, 1))


@DRIVERS
def test_nothing_is_seen_before_it_is_safe(kind: str, concurrency: int) -> None:
    """P-WAL: no request, change, publication or return with facts before it that are not durable."""
    stand = Stand(concurrency=concurrency)

    end = stand.run(kind)

    # The tools, the model and the observer of the stand assert it; here is only that they did.
    assert ("completed", "All done.") == (end.reason, end.reply)
    assert {4: 1, 5: 1} == stand.effects
    assert list(range(1, len(stand.log.entries) + 1)) == stand.shown
    stand.close()


@DRIVERS
def test_a_result_stands_in_the_log_once(kind: str, concurrency: int) -> None:
    """P-DUP: the bytes of a result are in the log once, and the tool message of the history is made from them."""
    marker = " 7f3b-unlike-anything-else"
    script = (Call("look", {"at": 1}), Call("write", {"at": 2}), "Done.")
    stand = Stand(script=script, concurrency=concurrency, words=marker)

    stand.run(kind)

    log = "\n".join(json.dumps(encode_fact(fact)) for fact in stand.log.facts)
    assert [1, 1, 2] == [log.count(f"saw 1{marker}"), log.count(f"wrote 2{marker}"), log.count(marker)]
    assert f"saw 1{marker}" == stand.conversation.state.history[2].tool_results[0].content
    stand.close()


@pytest.mark.parametrize("kind, concurrency", [("sync", 1), ("sync", 4), ("async", 4)])
def test_a_crash_at_any_fact_is_recovered(kind: str, concurrency: int) -> None:
    """Whatever is left of the log, the same loop finishes the turn, and nothing that changes something runs twice."""
    expected = len(facts_of(kind, concurrency, SCRIPT))
    for crash_at in range(expected):
        for tail_survives in (False, True):
            dying = Stand(log=NotedLog(crash_at=crash_at), concurrency=concurrency)
            with pytest.raises(Crash):
                dying.run(kind)
            dying.close()
            left = dying.log.facts if tail_survives else dying.log.durable

            living = Stand(facts=left, effects=dying.effects, concurrency=concurrency)
            end = living.run(kind, resume=True) if has_task(left) else living.run(kind)
            assert ("completed", "All done.") == (end.reason, end.reply), (
                crash_at,
                texts(living.conversation.state.history),
            )
            assert {1} >= set(living.effects.values())
            assert fault_in(living.conversation.state.history) is None
            check_pairs(living.log.facts)
            living.close()


def has_task(facts: Sequence[Fact]) -> bool:
    """Say whether the question of the turn is in the log; else it is asked again."""
    return any(isinstance(fact, MessageAdded) and fact.message == TASK for fact in facts)


def check_pairs(facts: Sequence[Fact]) -> None:
    """Assert that turns begin and end in turns, and that every call has one result."""
    marks = [type(fact) for fact in facts if isinstance(fact, (TurnStart, TurnEnd))]
    assert [TurnStart, TurnEnd] * (len(marks) // 2) == marks
    ends = Counter(fact.result.call_id for fact in facts if isinstance(fact, ToolEnd))
    assert {1} == set(ends.values())
