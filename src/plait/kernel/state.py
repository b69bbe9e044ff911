"""Where a conversation stands: a fold of its facts, and the only position the loop has.

Floor: 1. Owns: what each fact means for the state; never: when a fact is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field, replace
from typing import Any, Final

from plait.core.exchange import View
from plait.core.facts import (
    CLEAR,
    UNCOMPACT,
    Asked,
    Decided,
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
from plait.core.messages import CUT, Message, StopReason, ToolCall, ToolResult
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.kernel.effects import Record
from plait.kernel.gauge import Gauge

PATIENCE_MIN: Final = 3
PATIENCE_MAX: Final = 48
_LONG_AGO: Final = 1_000_000


class FoldError(ValueError):
    """A fact does not fit the state before it: the log it comes from is not whole."""


@dataclass(slots=True)
class Round:
    """The calls of one assistant message on their way to one result each."""

    calls: tuple[ToolCall, ...]
    of: int
    """Index of that message in the history."""
    cut: bool = False
    """The message was cut off, so that none of its calls can be trusted to be whole."""
    asked: dict[str, Asked] = field(default_factory=dict)
    decided: dict[str, Decided] = field(default_factory=dict)
    started: dict[str, ToolStart] = field(default_factory=dict)
    ended: dict[str, ToolResult] = field(default_factory=dict)

    def call(self, call_id: str) -> ToolCall:
        """Return the call with this id; raise `FoldError` when the round has none."""
        for call in self.calls:
            if call.id == call_id:
                return call
        raise FoldError(f"the open round has no call {call_id!r}")

    def as_started(self, call: ToolCall) -> ToolCall:
        """Return the call with the arguments that it was started with."""
        start = self.started.get(call.id)
        return call if start is None or start.arguments is None else replace(call, raw=start.arguments)

    @property
    def lost(self) -> tuple[ToolCall, ...]:
        """Calls that were started and have neither a result nor somebody who will bring one or has refused it."""
        return tuple(self.as_started(call) for call in self._unended if not self._is_refused(call))

    @property
    def refused(self) -> tuple[Decided, ...]:
        """The answers that say no to started calls: nobody has to find out what became of those."""
        return tuple(self.decided[call.id] for call in self._unended if self._is_refused(call))

    @property
    def _unended(self) -> tuple[ToolCall, ...]:
        return tuple(
            call
            for call in self.calls
            if call.id in self.started and call.id not in self.ended and call.id not in self.asked
        )

    def _is_refused(self, call: ToolCall) -> bool:
        decided = self.decided.get(call.id)
        return decided is not None and not decided.allow


class State:
    """History, the open round and the counters of the turn. Changed by `apply` only."""

    __slots__ = (
        "attempts",
        "call_ids",
        "calls",
        "epoch",
        "gauge",
        "history",
        "in_turn",
        "last_stop",
        "last_usage",
        "nudges",
        "patience",
        "retry",
        "round",
        "shrinks",
        "since_shrink",
        "steps",
        "steps_before",
        "turn_began",
        "turn_usage",
        "usage_before",
        "waited_ms",
    )

    def __init__(self) -> None:
        self.history: list[Message] = []
        self.epoch = 0
        """Moves when a message that may have been sent changes."""
        self.round: Round | None = None
        self.in_turn = False
        self.turn_began = 0
        """Index in the history of the turn's first message."""
        self.steps = 0
        """Model answers of this turn."""
        self.calls = 0
        """Tool calls of this turn that were started."""
        self.steps_before = 0
        """Model answers before this turn, counted as `usage` is."""
        self.attempts = 0
        """Failed requests since the last answer."""
        self.shrinks = 0
        """Compactions since the last answer."""
        self.since_shrink = _LONG_AGO
        """Answers since history was made shorter last, or could not be."""
        self.patience = PATIENCE_MIN
        """Answers that have to come before it is made shorter again, unless a request does not fit."""
        self.nudges = 0
        """Warnings that the loop gave the model in this turn."""
        self.retry: RetryScheduled | None = None
        self.waited_ms = 0
        """How much of that retry's wait was over when the log was opened; set by whoever opened it."""
        self.last_stop: StopReason | None = None
        self.usage_before = Usage.ZERO
        """What was used before this turn."""
        self.turn_usage = Usage.ZERO
        self.last_usage: Usage | None = None
        """Usage of the last answer: how large the history is in the provider's own tokens."""
        self.gauge = Gauge()
        """How large this and earlier requests were, in the provider's own tokens."""
        self.call_ids: set[str] = set()

    def apply(self, fact: Fact) -> None:
        """Take a fact in; raise `FoldError`, and change nothing, when it does not fit."""
        _FOLD[type(fact)](self, fact)

    def view(self, extra: tuple[Message, ...] = ()) -> View:
        """Return the whole history as a request shows it."""
        return View(self.epoch, self.history, len(self.history), extra)

    @property
    def usage(self) -> Usage:
        """What the conversation has used so far, since it was cleared last."""
        return self.usage_before + self.turn_usage

    @property
    def is_answered(self) -> bool:
        """True when the turn's last word is the model's, and it does not want to go on."""
        if not self.in_turn or self.round is not None or len(self.history) <= self.turn_began:
            return False
        last = self.history[-1]
        return last.role == "assistant" and self.last_stop != "pause" and not last.marked("interrupted")

    @property
    def lacks_question(self) -> bool:
        """True when a turn has begun and there is nothing to answer: its question was lost before it was safe."""
        if not self.in_turn or self.round is not None or self.steps or len(self.history) > self.turn_began:
            return False
        return not self.history or self.history[-1].role not in ("user", "tool")

    def _turn_start(self, fact: TurnStart) -> None:
        if self.in_turn:
            raise FoldError("a turn began inside another one")
        self.in_turn = True
        self.attempts = self.shrinks = 0
        self.retry = None
        if not fact.resumed:
            self.turn_began = len(self.history)
            self.steps_before += self.steps
            self.steps = self.nudges = self.calls = 0
            self.last_stop = None
            self.usage_before, self.turn_usage = self.usage, Usage.ZERO

    def _message(self, fact: MessageAdded) -> None:
        if self.round is not None:
            raise FoldError("a message was added while tool calls were open")
        message = fact.message
        self.history.append(message)
        if message.role == "user" and message.marked("guard"):
            self.nudges += 1
        if message.role != "assistant":
            return
        self.steps += 1
        self.since_shrink += 1
        self.attempts = self.shrinks = 0
        self.retry = None
        self.last_stop = fact.stop
        if fact.usage is not None:
            self._spend(fact.usage)
            self.last_usage = fact.usage
            self.gauge.note(len(self.history) - 1, fact.usage)
        calls = message.tool_calls
        if calls:
            self.call_ids.update(call.id for call in calls)
            self.round = Round(calls, len(self.history) - 1, fact.stop in CUT)

    def _asked(self, fact: Asked) -> None:
        round_ = self._open()
        round_.call(fact.call_id)
        if fact.call_id in round_.ended:
            raise FoldError(f"somebody was asked about the call {fact.call_id!r}, which had ended")
        round_.asked[fact.call_id] = fact

    def _decided(self, fact: Decided) -> None:
        round_ = self._open()
        round_.call(fact.call_id)
        round_.asked.pop(fact.call_id, None)
        round_.decided[fact.call_id] = fact

    def _tool_start(self, fact: ToolStart) -> None:
        round_ = self._open()
        round_.call(fact.call_id)
        if fact.call_id in round_.started or fact.call_id in round_.ended:
            raise FoldError(f"the call {fact.call_id!r} was started twice")
        round_.started[fact.call_id] = fact
        self.calls += 1

    def _tool_end(self, fact: ToolEnd) -> None:
        round_ = self._open()
        call_id = fact.result.call_id
        round_.call(call_id)
        if call_id in round_.ended:
            raise FoldError(f"the call {call_id!r} ended twice")
        round_.asked.pop(call_id, None)
        round_.ended[call_id] = fact.result

    def _round_closed(self, fact: RoundClosed) -> None:
        round_ = self._open()
        missing = [call.id for call in round_.calls if call.id not in round_.ended]
        if missing or fact.of != round_.of:
            raise FoldError(f"a round was closed without a result of {missing}")
        self.history.append(Message("tool", tuple(round_.ended[call.id] for call in round_.calls)))
        self.round = None

    def _reset(self, fact: Reset) -> None:
        if self.round is not None:
            raise FoldError("history was replaced while tool calls were open")
        if not 0 <= fact.start <= fact.end <= len(self.history):
            raise FoldError(f"messages {fact.start} to {fact.end} were replaced in a history of {len(self.history)}")
        if fact.usage is not None:
            self._spend(fact.usage)
        if fact.is_skipped or fact.why == "compaction":
            self._note_shrink()
            if self.retry is not None and self.retry.purpose:
                self.retry = None
        if fact.is_skipped:
            return
        self.gauge.cut(fact.start, self.history)
        # A new list, because views of the old epoch may still be read by another thread.
        self.history = [*self.history[: fact.start], *fact.messages, *self.history[fact.end :]]
        self.epoch += 1
        self.call_ids.update(call.id for message in fact.messages for call in message.tool_calls)
        self.turn_began = _moved(self.turn_began, fact)
        self.last_usage = None
        # Whatever was to be tried again: it is another request now, and does not wait.
        self.retry = None
        if fact.why == "compaction":
            self.shrinks += 1
        elif fact.why == UNCOMPACT:
            # Somebody wants it as it was: it is not made shorter again at once.
            self.since_shrink, self.patience = 0, PATIENCE_MAX
        elif fact.why == CLEAR:
            self.usage_before, self.turn_usage = Usage.ZERO, Usage.ZERO
            self.steps_before = -self.steps

    def _note_shrink(self) -> None:
        """Wait longer each time for which the last wait was in vain; several for one request are one."""
        if self.since_shrink:
            is_soon = self.since_shrink <= self.patience + 1
            self.patience = min(2 * self.patience, PATIENCE_MAX) if is_soon else PATIENCE_MIN
        self.since_shrink = 0

    def _retry(self, fact: RetryScheduled) -> None:
        if not fact.purpose:
            self.attempts = fact.attempt
        self.retry = fact
        self.waited_ms = 0
        if fact.usage is not None:
            self._spend(fact.usage)

    def _turn_end(self, fact: TurnEnd) -> None:
        if not self.in_turn:
            raise FoldError("a turn ended that had not begun")
        self.in_turn = False
        self.retry = None
        if fact.usage is not None:
            self._spend(fact.usage)

    def _observation(self, fact: Observation) -> None:
        """Observations change nothing."""

    def _open(self) -> Round:
        if self.round is None:
            raise FoldError("a tool call was recorded outside of a round")
        return self.round

    def _spend(self, usage: Usage) -> None:
        self.turn_usage += usage


def record(state: State, *facts: Fact) -> Generator[Record, None, None]:
    """Append facts to the log, then take them in: memory never knows what the log does not."""
    yield Record(facts)
    for fact in facts:
        state.apply(fact)


def fold(facts: list[Fact] | tuple[Fact, ...]) -> State:
    """Return the state after these facts."""
    state = State()
    for fact in facts:
        state.apply(fact)
    return state


def _moved(index: int, fact: Reset) -> int:
    """Where a position in the history lies after the replacement."""
    if index >= fact.end:
        return index + len(fact.messages) - (fact.end - fact.start)
    return min(index, fact.start)


_FOLD: Final[Mapping[type, Callable[[State, Any], None]]] = {
    TurnStart: State._turn_start,
    MessageAdded: State._message,
    Asked: State._asked,
    Decided: State._decided,
    ToolStart: State._tool_start,
    ToolEnd: State._tool_end,
    RoundClosed: State._round_closed,
    Reset: State._reset,
    RetryScheduled: State._retry,
    TurnEnd: State._turn_end,
    Observation: State._observation,
}
