"""What effects were answered with, as the facts that follow them say.

Floor: 1. Owns: which answer a recorded fact stands for; never: whether it is the right one (`rerun`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from plait.core.errors import ErrorClass
from plait.core.exchange import ProviderFailed, Reply
from plait.core.facts import (
    Asked,
    Fact,
    MessageAdded,
    Observation,
    Reset,
    RetryScheduled,
    RoundClosed,
    ToolEnd,
    ToolStart,
    TurnEnd,
)
from plait.core.messages import ToolCall, assistant
from plait.core.usage import Usage
from plait.kernel.effects import (
    NOTHING,
    Allow,
    Approve,
    Ask,
    Boundary,
    Compact,
    Deny,
    Interrupted,
    Outcome,
    Plan,
    Replace,
    Stop,
    Think,
    Wait,
)
from plait.kernel.spans import weight
from plait.kernel.state import State

_LOOPS_OWN: Final = frozenset(
    {"completed", "max_steps", "loop_guard", "truncated", "content_filter", "approval_required", "waiting"}
)
"""Reasons for which the loop itself ends a turn."""
_AFTER_FAILURES: Final = frozenset({"compaction", "media", "overflow_skipped"})
"""Replacements that the loop makes of itself, when a request did not fit."""
_CUT_OFF: Final = "\n[interrupted]"


class Unclear(Exception):
    """The facts do not say what an effect was answered with."""


class Playback:
    """A log, read from one fact to the next; observations are passed over."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        numbered = enumerate(facts, 1)
        self._facts = [(seq, fact) for seq, fact in numbered if not isinstance(fact, Observation)]
        self._at = 0

    @property
    def next(self) -> Fact | None:
        """The fact that comes next; None at the end."""
        return self.peek(0)

    @property
    def seq(self) -> int:
        """The place of the next fact in the log."""
        return self._facts[self._at][0]

    def peek(self, ahead: int) -> Fact | None:
        """Return a fact further on."""
        index = self._at + ahead
        return self._facts[index][1] if index < len(self._facts) else None

    def advance(self) -> None:
        """Leave the next fact behind."""
        self._at += 1

    def inputs(self, ahead: int) -> tuple[MessageAdded, ...]:
        """Return the messages of a user, or of a host, from there on."""
        found: list[MessageAdded] = []
        while isinstance(fact := self.peek(ahead + len(found)), MessageAdded) and _is_input(fact):
            found.append(fact)
        return tuple(found)

    def plan(self, at: Boundary, state: State) -> Plan:
        """Return what the host wanted at a boundary."""
        fact = self.next
        if isinstance(fact, TurnEnd):
            # The loop looks at its own limit of steps before it asks: what stops here was another limit.
            # A failed request's end carries what it used, and is thrown at the request.
            is_loops = fact.reason in _LOOPS_OWN and fact.reason != "max_steps"
            is_thrown = fact.usage is not None and at.phase == "step"
            return NOTHING if is_loops or is_thrown else Plan(stop=Stop(fact.reason, fact.detail))
        plan, ahead = NOTHING, 0
        tried = self._tries_for_summary()
        if isinstance(fact := self.peek(tried), Reset) and fact.why == "compaction":
            # One that was made after a request that did not fit comes to the same here.
            plan, ahead = Plan(compact=Compact(bounds=(fact.start, fact.end))), tried + 1
        elif isinstance(fact, Reset) and fact.why == "compaction_skipped":
            # Nothing is gained by what is longer than everything.
            plan, ahead = Plan(compact=Compact(bounds=(fact.start, len(state.history)))), tried + 1
        if isinstance(fact := self.peek(ahead), Reset) and fact.why not in _AFTER_FAILURES:
            plan = replace(plan, replace=Replace(fact.start, fact.end, fact.messages, fact.why))
            ahead += 1
        injected = self.inputs(ahead)
        return replace(
            plan,
            inject=tuple(fact.message for fact in injected),
            final_reply=_words_of_host(self.peek(ahead + len(injected))),
        )

    def failure(self) -> ProviderFailed | Interrupted | None:
        """Return what a model request failed with, or was stopped by; None where it was answered."""
        tried = self._tries_for_summary()
        if tried and not isinstance(self.peek(tried), Reset):
            return _failed("context_overflow")  # stopped while it waited to ask for the summary once more
        match fact := self.peek(tried):
            case RetryScheduled():
                return _scheduled(fact)
            case Reset(why="compaction"):
                overflow = _failed("context_overflow")
                overflow.bounds = fact.start, fact.end
                return overflow
            case Reset(why="overflow_skipped"):
                return self._overflow(self.peek(tried + 1))
            case Reset(why="media"):
                return _failed("request_too_large")
            case MessageAdded() if fact.message.marked("interrupted"):
                halt = self.halt(1)
                if halt is None:
                    raise Unclear
                halt.partial = assistant(fact.message.content.removesuffix(_CUT_OFF))
                return halt
            case _:
                return self.halt()

    def summary(self, ask: Think) -> Reply | ProviderFailed | Interrupted:
        """Return the answer to a request for a summary."""
        fact = self.next
        if isinstance(fact, RetryScheduled) and fact.purpose:
            return _scheduled(fact)
        if not isinstance(fact, Reset) or fact.why != "compaction":
            # Nothing was gained by it: nothing is by this one. It left a trace where it was paid for, or wanted.
            useless = assistant("-a" * (weight(ask.view.history) + 1))
            if isinstance(fact, Reset) and fact.is_skipped:
                return Reply(useless, "end_turn", fact.usage or Usage.UNAVAILABLE)
            return self.halt() or Reply(useless, "end_turn")
        return Reply(assistant(fact.messages[0].content), "end_turn", fact.usage or Usage.UNAVAILABLE)

    def verdict(self, ask: Approve) -> Allow | Deny | Ask | Interrupted | None:
        """Return how a call was judged; None where its round was interrupted before.

        Raises:
            Unclear: the log does not say.
        """
        ahead = 0
        while (fact := self.peek(ahead)) is not None and not isinstance(fact, (RoundClosed, TurnEnd)):
            verdict = _verdict_in(fact, ask.call)
            if verdict is not None:
                return verdict
            if isinstance(fact, ToolEnd) and (fact.result.call_id, fact.result.status) == (ask.call.id, "cancelled"):
                break
            ahead += 1
        halt = self._halted_round()
        if halt is None:
            raise Unclear
        return halt

    def outcomes(self, wait: Wait) -> tuple[Outcome, ...] | Interrupted:
        """Return what calls had come to when somebody waited for them, or for a time to pass.

        Raises:
            Unclear: the log does not say.
        """
        if wait.timeout_s is not None:
            return self.halt() or ()
        ended = self._halted_round() or self._ended()
        if not ended:
            raise Unclear
        return ended

    def halt(self, ahead: int = 0) -> Interrupted | None:
        """Return what ended the turn in the middle of something, where its end is there."""
        fact = self.peek(ahead)
        if not isinstance(fact, TurnEnd) or fact.reason in _LOOPS_OWN:
            return None
        halt = Interrupted(fact.reason)
        if fact.usage is not None:
            halt.__cause__ = _failed("protocol", fact.detail, fact.usage)
        elif fact.detail:
            halt.__cause__ = RuntimeError(fact.detail)
        return halt

    def objection(self) -> Exception | None:
        """Return what ended the turn with the answer that comes next, before any of its calls was judged."""
        ahead = 1
        while isinstance(fact := self.peek(ahead), ToolEnd) and fact.result.status == "cancelled":
            ahead += 1
        if ahead > 1:
            if not isinstance(fact, RoundClosed):
                return None
            ahead += 1
        halt = self.halt(ahead)
        cause = None if halt is None or halt.reason != "error" else halt.__cause__
        return cause if isinstance(cause, RuntimeError) else None

    def _tries_for_summary(self) -> int:
        """Return how many of the next facts are requests for a summary that failed and were made again."""
        tried = 0
        while isinstance(fact := self.peek(tried), RetryScheduled) and fact.purpose:
            tried += 1
        return tried

    def _overflow(self, then: Fact | None) -> ProviderFailed:
        """What did not fit, and could not be made to: the request is made again, or the turn ends."""
        if isinstance(then, RetryScheduled):
            return _scheduled(replace(then, kind="context_overflow"))
        if isinstance(then, TurnEnd):
            return _failed("context_overflow", then.detail, then.usage)
        return _failed("context_overflow")

    def _ended(self) -> tuple[Outcome, ...]:
        """What the log says next about calls, up to anything else."""
        outcomes: list[Outcome] = []
        while True:
            match fact := self.peek(len(outcomes)):
                case ToolEnd():
                    outcomes.append(Outcome.of(fact.result))
                case Asked():
                    outcomes.append(Outcome(fact.call_id, "deferred", None, fact.request))
                case _:
                    return tuple(outcomes)

    def _halted_round(self) -> Interrupted | None:
        """The interruption that closed this round, or None when it was not interrupted."""
        outcomes = self._ended()
        if not isinstance(self.peek(len(outcomes)), RoundClosed):
            return None
        halt = self.halt(len(outcomes) + 1)
        if halt is not None:
            halt.outcomes = outcomes
        return halt


def _scheduled(fact: RetryScheduled) -> ProviderFailed:
    """Return the failure after which a request is made again as recorded: the delay is stated, nobody guesses it."""
    failed = _failed(fact.kind, fact.message, fact.usage)
    failed.retry_after_s, failed.retryable = fact.delay_ms / 1000, True
    return failed


def _verdict_in(fact: Fact, call: ToolCall) -> Allow | Deny | Ask | None:
    match fact:
        case ToolStart() if fact.call_id == call.id:
            return Allow(call if fact.arguments is None else replace(call, raw=fact.arguments), fact.intent)
        case Asked() if fact.call_id == call.id:
            return Ask(fact.request, fact.question)
        case ToolEnd() if fact.result.call_id == call.id and fact.result.status == "denied":
            return Deny(fact.result.content)
        case _:
            return None


def _is_input(fact: MessageAdded) -> bool:
    return fact.message.role not in ("assistant", "tool") and not fact.message.marked("guard")


def _words_of_host(fact: Fact | None) -> str | None:
    """Return an answer that no model gave: it came without usage, and was not cut off."""
    if not isinstance(fact, MessageAdded) or fact.usage is not None or fact.sent:
        return None
    message = fact.message
    return message.content if message.role == "assistant" and not message.marked("interrupted") else None


def _failed(kind: ErrorClass | str, message: str = "", usage: Usage | None = None) -> ProviderFailed:
    return ProviderFailed(kind, message, usage=usage, retryable=False)  # type: ignore[arg-type]
