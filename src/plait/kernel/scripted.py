"""The third interpreter: plays a turn from a list of answers, without a world.

Floor: 1. Owns: single-stepping the loop, for tests and for replay; never: durability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from plait.core.facts import Fact
from plait.core.values import dataclass
from plait.kernel.effects import Act, Effect, End, Record
from plait.kernel.loop import Loop

Answer = object
"""What an effect is answered with; an exception is thrown into the loop instead."""


@dataclass(slots=True)
class Trace:
    """Everything a played turn did."""

    effects: list[Effect] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    end: End | None = None
    pending: Effect | None = None
    """The effect for which no answer was left."""


def play(loop: Loop, answers: Iterator[Answer]) -> Trace:
    """Run the loop until it ends or the answers run out.

    `Record` and `Act` take no answer; every other effect takes the next one. A loop without an answer is closed
    as a crash would close it: nothing more is recorded.
    """
    trace = Trace()
    answer: Answer = None
    while True:
        try:
            effect = loop.throw(answer) if isinstance(answer, BaseException) else loop.send(answer)
        except StopIteration as done:
            trace.end = done.value
            return trace
        trace.effects.append(effect)
        answer = None
        if isinstance(effect, Record):
            trace.facts.extend(effect.facts)
        elif not isinstance(effect, Act):
            try:
                answer = next(answers)
            except StopIteration:
                trace.pending = effect
                loop.close()
                return trace
