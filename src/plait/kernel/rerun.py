"""A conversation once more, from its facts: the loop asks, and what was recorded answers.

Floor: 1. Owns: running the loop on a log, and the first difference; never: a request, a tool, a file.

The loop's position is a fold of facts, so the facts that come next say what every effect was answered with. What the
loop then records has to be what stands in the log, and each request has to be the one whose answer follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from plait.core.exchange import Reply
from plait.core.facts import Decided, Fact, MessageAdded, Observation, Reset, TurnStart
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.kernel.effects import Act, Approve, Boundary, Effect, Record, Think, Wait
from plait.kernel.loop import Loop, turn
from plait.kernel.playback import Playback, Unclear
from plait.kernel.rules import Rules
from plait.kernel.state import State
from plait.kernel.tools import ToolTable

Fingerprint = Callable[[Think, int], str]
"""Says how the request for a `Think` is known, as `Reply.sent` of its answer, which has that place in the log."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which the loop of today would do something else."""

    seq: int
    """Place in the log of the fact that was recorded."""
    turn: int
    """Number of the turn, from 1."""
    recorded: Fact
    made: Fact | Effect | str
    """What the loop would record or ask instead; for another request its digest."""
    ask: Think | None = None
    """The request, where it is one that differs."""


@dataclass(slots=True)
class Rerun:
    """How it went."""

    turns: int = 0
    requests: int = 0
    """Answered requests."""
    proved: int = 0
    """Those of them that came out as they were sent; the log has no digest of the others."""
    followed: int = 0
    """Turns of which a part could only be followed, not run: their log does not say all that was answered."""
    difference: Difference | None = None


def rerun(facts: Iterable[Fact], tools: ToolTable, rules: Rules, fingerprint: Fingerprint) -> Rerun:
    """Run a conversation again, up to the first difference; nothing is sent, run or written.

    Args:
        facts: the whole log, in order. It may end anywhere.
        tools: as the conversation had them; none is called.
        fingerprint: is asked about each request whose digest is in the log, in order.
    """
    director = _Director(Playback(facts), tools, rules, fingerprint)
    director.run()
    return director.told


class _Director:
    """Plays the log to the loop."""

    def __init__(self, log: Playback, tools: ToolTable, rules: Rules, fingerprint: Fingerprint) -> None:
        self.told = Rerun()
        self._log = log
        self._tools, self._rules, self._fingerprint = tools, rules, fingerprint
        self._state = State()

    def run(self) -> None:
        while (fact := self._log.next) is not None and self.told.difference is None:
            if isinstance(fact, TurnStart):
                self.told.turns += 1
                self._run_turn(fact)
            else:
                self._follow(fact)

    def _run_turn(self, start: TurnStart) -> None:
        inputs = tuple(fact.message for fact in self._log.inputs(1))
        loop = turn(self._state, self._tools, self._rules, inputs, resume=start.resumed, sender=start.sender)
        try:
            self._drive(loop)
        except Unclear:
            self.told.followed += 1
            while (fact := self._log.next) is not None and self.told.difference is None and self._state.in_turn:
                self._follow(fact)
        finally:
            loop.close()

    def _drive(self, loop: Loop) -> None:
        answer: object = None
        while self.told.difference is None:
            try:
                effect = loop.throw(answer) if isinstance(answer, BaseException) else loop.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(effect, Record):
                self._compare(effect)
            self._take_decisions()
            if isinstance(effect, (Record, Act)):
                continue
            if self._log.next is None:
                return  # here the process ended
            answer = self._answer(effect)

    def _answer(self, effect: Boundary | Think | Approve | Wait) -> object:
        match effect:
            case Boundary():
                return self._log.plan(effect, self._state)
            case Think():
                return self._log.summary(effect) if effect.purpose == "compaction" else self._reply(effect)
            case Approve():
                return self._log.verdict(effect)
            case Wait():
                return self._log.outcomes(effect)

    def _reply(self, ask: Think) -> object:
        failure = self._log.failure()
        if failure is not None:
            return failure
        fact = self._log.next
        if not isinstance(fact, MessageAdded) or fact.message.role != "assistant":
            self._differs(ask)
            return None
        self._check(fact, ask)
        halt = self._log.objection()
        return Reply(fact.message, fact.stop or "end_turn", fact.usage or Usage.UNAVAILABLE, halt=halt)

    def _compare(self, effect: Record) -> None:
        """Compare what the loop records with what was; a log that ends here ended with its process."""
        for made in effect.facts:
            if isinstance(made, Observation):
                continue
            recorded = self._log.next
            if recorded is None:
                return
            if _lean(made) != _lean(recorded):
                self._differs(made)
                return
            self._log.advance()

    def _take_decisions(self) -> None:
        """Take what somebody decided meanwhile: it answers no effect, the loop reads it from the state."""
        while isinstance(fact := self._log.next, Decided):
            self._state.apply(fact)
            self._log.advance()

    def _follow(self, fact: Fact) -> None:
        """Take a fact as it stands; the request that it answers is looked at all the same."""
        if isinstance(fact, MessageAdded) and fact.message.role == "assistant":
            self._check(fact, Think(self._state.view()))
        if self.told.difference is None:
            self._state.apply(fact)
            self._log.advance()

    def _check(self, fact: MessageAdded, ask: Think) -> None:
        self.told.requests += fact.usage is not None
        if not fact.sent:
            return
        made = self._fingerprint(ask, self._log.seq)
        if made == fact.sent:
            self.told.proved += 1
        else:
            self._differs(made, ask)

    def _differs(self, made: Fact | Effect | str, ask: Think | None = None) -> None:
        recorded = self._log.next
        assert recorded is not None, "what comes after the log's end differs from nothing"
        self.told.difference = Difference(self._log.seq, self.told.turns, recorded, made, ask)


def _lean(fact: Fact) -> Fact:
    """Return a fact without what only the world knows."""
    if isinstance(fact, MessageAdded):
        return replace(fact, sent="", usage=fact.usage or (Usage.UNAVAILABLE if fact.stop else None))
    if isinstance(fact, Reset) and fact.usage == Usage.UNAVAILABLE:
        return replace(fact, usage=None)
    return fact
