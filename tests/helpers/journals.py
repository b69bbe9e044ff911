"""A conversation that holds every kind of fact, and journals of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

from plait.core.facts import (
    Asked,
    Decided,
    Entry,
    Fact,
    MessageAdded,
    Observation,
    Reset,
    RetryScheduled,
    RoundClosed,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from plait.core.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.kernel.state import State
from plait.store.jsonl import JsonlLog
from plait.store.opening import Opened, open_journal

EVERYTHING_PRINTABLE = "".join(map(chr, range(256))) + '\ud800 \udfff \u2028 \U0001f600 {"at":1,"seq":2}\n'
"""Every byte a tool can print as text, half characters, and what looks like the beginning of a line."""
HUGE = 2**200 + 1

_SPENT = Usage(1_000, 20, 900, 0, 5, Decimal("0.000120"))
_CALLS = (
    ToolCall("c1", "look", '{"path":"a.py"}'),
    ToolCall("c2", "write", '{"n":123456789012345678901234567890}', extra={"signature": "s"}),
)

WRITES: Sequence[tuple[Fact, ...]] = (
    (Observation("session_start", {"project": "/home/me/project", "model": "m"}),),
    (
        TurnStart(sender="peer:other"),
        MessageAdded(user("do it", [Image("aGk=")])),
    ),
    (
        MessageAdded(
            Message("assistant", (Reasoning("hm", {"signature": "x"}), Text("I look."), *_CALLS), "http://x/v1"),
            _SPENT,
            "tool_calls",
        ),
        ToolStart("c1"),
    ),
    (ToolEnd(ToolResult("c1", EVERYTHING_PRINTABLE, data={"exit_code": HUGE})), Asked("c2", "q1", "May I?")),
    (TurnEnd("approval_required"),),
    (TurnStart(resumed=True), Decided("c2", True, "yes", '{"n":2}')),
    (ToolStart("c2", '{"n":2}', {"target": "b.py", "before": "0f", "after": None}),),
    (ToolEnd(ToolResult("c2", "no", status="error", images=(Image("http://x/i.png", kind="url"),))), RoundClosed(1)),
    (RetryScheduled(1, 500, "overloaded", "busy", Usage(10)),),
    (MessageAdded(Message("assistant", (Text("Done."), Opaque("responses", {"id": "r1"}))), _SPENT, "end_turn"),),
    (TurnEnd("completed"),),
    (Reset(0, 3, (Message("summary", (Text("It was done."),)),), "compaction", _SPENT),),
    (TurnStart(), MessageAdded(user("thanks")), Observation("x_note", {"deep": [[[1.5, None, True]]]})),
    (MessageAdded(assistant("You are welcome."), _SPENT, "end_turn", "c2VudA"), TurnEnd("completed", "x", Usage(1))),
)
"""Facts as a conversation writes them, barrier by barrier."""
FACTS: Sequence[Fact] = tuple(fact for write in WRITES for fact in write)


def ticking(start_ms: int = 1_764_500_000_000) -> Callable[[], int]:
    """Return a clock that goes on by a second each time it is looked at."""
    return itertools.count(start_ms, 1_000).__next__


def opened(folder: Path, now_ms: Callable[[], int] | None = None) -> Opened:
    """Open the journal in a folder."""
    return open_journal(folder, "s1", now_ms or ticking(), header={"project": "/home/me/project"})


def append(log: JsonlLog, writes: Sequence[tuple[Fact, ...]]) -> None:
    """Append facts, with a barrier after each tuple of them."""
    for facts in writes:
        log.append(facts)
        log.commit()


def journal_of(folder: Path, writes: Sequence[tuple[Fact, ...]] = WRITES) -> Path:
    """Write a journal and return its path."""
    log = opened(folder).log
    append(log, writes)
    log.close()
    return log.path


NOTE = Observation("note", {"text": "and on it goes"})
"""A fact that fits anywhere."""


def many(times: int) -> list[tuple[Fact, ...]]:
    """Return the writes of a conversation that does all of this several times over."""
    state, writes = State(), []
    for facts in [*WRITES] * times:
        written = []
        for fact in facts:
            if isinstance(fact, RoundClosed):
                assert state.round is not None
                fact = RoundClosed(state.round.of)
            state.apply(fact)
            written.append(fact)
        writes.append(tuple(written))
    return writes


def facts_of(entries: Sequence[Entry]) -> list[Fact]:
    """Return the facts of entries, whose numbers must be without a gap."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return [entry.fact for entry in entries]
