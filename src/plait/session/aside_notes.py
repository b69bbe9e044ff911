"""What is noted of questions beside a session's conversation, and what of it counts.

Floor: 5. Owns: those notes, and the line such questions go over; never: asking one (`asides`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import field
from threading import Lock
from typing import TYPE_CHECKING

from plait.core.facts import CLEAR, SIDE_QUERY, Fact, Observation, Reset
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.events.reducer import counts, usage_told
from plait.kernel.ports import Channel, Model, Setup

if TYPE_CHECKING:
    from plait.session.live import Live
    from plait.session.session import Session


@dataclass
class Asides:
    """What the questions of a session have in common."""

    waiting: deque[Observation] = field(default_factory=deque)
    """Told by other threads, and to be recorded by the turn's own."""
    line: tuple[Model, Setup, Channel] | None = None
    """Goes on from question to question, so that no message is encoded twice."""
    busy: Lock = field(default_factory=Lock)
    """Held while the line is used."""
    asked: int = 0


def settle_asides(session: Session, live: Live) -> None:
    """Record what was told meanwhile, in the thread that may: the turn's own, or nobody's turn."""
    waiting = live.asides.waiting
    while waiting:
        note = waiting.popleft()
        live.log.append((note,))
        live.used_before += counted_in([note])
        session["usage_totals"].update(counts(live.used_before + live.conversation.state.usage))


def counted_in(facts: Iterable[Fact]) -> Usage:
    """Return what questions aside took that were to count, since the conversation was cleared last."""
    total = Usage.ZERO
    for fact in facts:
        if isinstance(fact, Reset) and fact.why == CLEAR:
            total = Usage.ZERO
        elif isinstance(fact, Observation) and fact.data.get("event") == SIDE_QUERY and fact.data.get("counts") is True:
            total += usage_told(fact.data.get("usage"))
    return total
