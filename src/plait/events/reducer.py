"""From what the loop publishes to named events: facts and fragments in, a view of them out.

Floor: 1. Owns: which named events a fact or a fragment comes to; never: who gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from plait.core import events, facts
from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.side_calls import side_call_of
from plait.core.strict_json import JsonInvalid
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.events import named
from plait.events.awareness_events import GroundMoved, SessionTime, TokenBudget

NamedEvents = Sequence[named.NamedEvent]


@dataclass(frozen=True, slots=True)
class Warmth:
    """How long an endpoint's cache still holds a conversation, as far as is known."""

    ttl_s: float = 3_600.0
    """Seconds for which a cache is believed to hold a prompt."""
    proved_ms: int | None = None
    """When tokens were last read from it or written to it; milliseconds since 1970."""

    def left_s(self, now_ms: int) -> float | None:
        """Return the seconds that are left, None while nothing was cached."""
        return None if self.proved_ms is None else max(0.0, self.ttl_s - (now_ms - self.proved_ms) / 1_000)


class Reducer:
    """Turns the events of one conversation into named ones, in order. One thread at a time.

    Args:
        usage: what the conversation used before, counted into `session_usage`.
        warmth: what its cache was like.
    """

    def __init__(self, usage: Usage = Usage.ZERO, warmth: Warmth | None = None) -> None:
        self.usage = usage
        """What the conversation has used so far."""
        self._calls: dict[str, ToolCall] = {}
        self._started: dict[str, int] = {}
        self._reply = ""
        self._open: dict[str, named.NamedEvent] = {}
        """Streams with fragments and no end yet, with the event that ends each."""
        self._was_streamed = False
        self._warmth = warmth or Warmth()

    def feed(self, event: events.Event) -> NamedEvents:
        """Return what one event of the loop comes to; often nothing."""
        if isinstance(event, events.Delta):
            return self._delta(event)
        if isinstance(event, events.Committed):
            return self.entry(event.entry)
        if isinstance(event, events.StreamEnd):
            self._was_streamed = "content" in self._open
            return self._end_streams()
        if isinstance(event, events.AttemptReset):
            self._open.clear()
            return [named.AttemptReset(event.step, event.attempt, event.withdrawn)]
        return [named.EVENTS[event.type](**event.data)]

    def entry(self, entry: facts.Entry) -> NamedEvents:
        """Return what one entry of a log comes to; a log that is read again gives its events again."""
        reduce = _BY_FACT.get(type(entry.fact))
        return [] if reduce is None else reduce(self, entry.fact, entry.at_ms)

    def _delta(self, delta: events.Delta) -> NamedEvents:
        found: list[named.NamedEvent] = []
        if delta.kind == "tool_arguments":
            return found
        is_first = delta.kind not in self._open
        if delta.kind == "reasoning":
            self._open.setdefault("reasoning", named.ReasoningStreamEnd())
            return [named.ReasoningDelta(delta.text, is_first)]
        if "reasoning" in self._open:
            found.append(self._open.pop("reasoning"))
        self._open.setdefault("content", named.ContentStreamEnd())
        return [*found, named.ContentDelta(delta.text, is_first)]

    def _end_streams(self) -> NamedEvents:
        ended = list(self._open.values())
        self._open.clear()
        return ended

    def _turn_start(self, fact: facts.TurnStart, at_ms: int) -> NamedEvents:
        return [named.TurnStart(fact.resumed, fact.sender)]

    def _message(self, fact: facts.MessageAdded, at_ms: int) -> NamedEvents:
        message = fact.message
        if message.role != "assistant":
            return [named.LoopGuard(message.content)] if message.marked("guard") else []
        self._reply = message.content
        self._calls = {call.id: call for call in message.tool_calls}
        self._started.clear()
        return [] if fact.usage is None else [self._spend(fact.usage, at_ms)]

    def _tool_start(self, fact: facts.ToolStart, at_ms: int) -> NamedEvents:
        self._started[fact.call_id] = at_ms
        return [self._called(fact.call_id, at_ms, fact.arguments)]

    def _tool_end(self, fact: facts.ToolEnd, at_ms: int) -> NamedEvents:
        result = fact.result
        started_ms = self._started.get(result.call_id)
        # A call that was answered without running is told of as well, so that no result comes out of nowhere.
        announced = [] if started_ms is not None else [self._called(result.call_id, at_ms)]
        return [*announced, self._returned(result, started_ms, at_ms), *_budget_told(result)]

    def _asked(self, fact: facts.Asked, at_ms: int) -> NamedEvents:
        call = self._calls.get(fact.call_id)
        name, args = ("", {}) if call is None else (call.name, arguments_of(call))
        return [named.ApprovalRequired(name, args, fact.call_id, fact.request, fact.question)]

    def _reset(self, fact: facts.Reset, at_ms: int) -> NamedEvents:
        found: list[named.NamedEvent] = []
        if fact.usage is not None:
            found.append(self._spend(fact.usage, at_ms, "compaction"))
        if fact.is_skipped:
            return [*found, named.CompactionSkipped("no summary came of it that is shorter than what it stands for")]
        if fact.why == facts.CLEAR:
            self.usage = Usage.ZERO
        if fact.why == "compaction":
            return [*found, _compaction(fact)]
        return [*found, named.ResetMessages(fact.why, fact.start, fact.end, len(fact.messages))]

    def _retry(self, fact: facts.RetryScheduled, at_ms: int) -> NamedEvents:
        found: list[named.NamedEvent] = []
        if fact.usage is not None:
            found.append(self._spend(fact.usage, at_ms, "retry"))
        delay_s = fact.delay_ms / 1000
        found.append(named.RetryScheduled(fact.attempt, delay_s, fact.kind, fact.message))
        if fact.kind == "rate_limit":
            found.append(named.RateLimitWait(delay_s, iso(at_ms + fact.delay_ms), "endpoint"))
        return found

    def _turn_end(self, fact: facts.TurnEnd, at_ms: int) -> NamedEvents:
        found = [*self._end_streams()]
        if fact.reason == "completed":
            found.append(named.FinalAnswer(self._reply.strip(), self._was_streamed))
            found.append(named.SessionUsage(**counts(self.usage)))
        return [*found, named.TurnEnd(fact.reason, fact.detail)]

    def _observation(self, fact: facts.Observation, at_ms: int) -> NamedEvents:
        if (side := side_call_of(fact)) is not None:
            return self._side_call(*side, at_ms)
        if fact.type == "note":
            if fact.data.get("event") == facts.SIDE_QUERY and fact.data.get("counts") is True:
                return [self._spend(usage_told(fact.data.get("usage")), at_ms, "side_query")]
            return _noted(fact.data)
        if fact.type == facts.SENSED:
            return _sensed(fact.data)
        part, index = fact.data.get("part"), fact.data.get("index")
        if fact.type != "provider_request" or not isinstance(part, str):
            return []
        why = str(fact.data.get("why", ""))
        return [named.PrefixChanged(part, index if isinstance(index, int) else None, why)]

    def _side_call(self, call: ToolCall, fact: facts.ToolStart | facts.ToolEnd, at_ms: int) -> NamedEvents:
        self._calls = {**self._calls, call.id: call}
        if isinstance(fact, facts.ToolStart):
            return self._tool_start(fact, at_ms)
        found = self._tool_end(fact, at_ms)
        self._calls = {call_id: other for call_id, other in self._calls.items() if call_id != call.id}
        return found

    def _spend(self, usage: Usage, at_ms: int, purpose: str | None = None) -> named.NamedEvent:
        self.usage += usage
        if usage.cache_read or usage.cache_write:
            self._warmth = Warmth(self._warmth.ttl_s, at_ms)
        left_s = self._warmth.left_s(at_ms)
        known = usage.input is not None
        ttl_s = self._warmth.ttl_s
        return named.Usage(
            **counts(usage), cache_ttl=ttl_s, cache_expires_in=left_s, is_prompt_known=known, purpose=purpose
        )

    def _called(self, call_id: str, at_ms: int, raw: str | None = None) -> named.NamedEvent:
        call = self._calls.get(call_id) or ToolCall(call_id, "")
        if raw is not None:
            call = ToolCall(call.id, call.name, raw, call.custom)
        return named.ToolCall(call.name, arguments_of(call), call_id, iso(at_ms))

    def _returned(self, result: ToolResult, started_ms: int | None, at_ms: int) -> named.NamedEvent:
        call = self._calls.get(result.call_id)
        data = result.data or {}
        if call is not None and data.get("is_answer") is True:
            # The model answered by this call: its arguments are its last word.
            self._reply = call.raw
        files, change, diff = data.get("files"), data.get("diff_summary"), data.get("diff")
        started_at = None if started_ms is None else iso(started_ms)
        return named.ToolResult(
            "" if call is None else call.name,
            result.said,
            result.call_id,
            result.status,
            streamed=data.get("streamed") is True,
            files=[str(path) for path in files] if isinstance(files, (list, tuple)) else None,
            diff_summary=dict(change) if isinstance(change, Mapping) else None,
            diff=diff if isinstance(diff, str) else None,
            started_at=started_at,
            ended_at=None if started_ms is None else iso(at_ms),
            duration_ms=None if started_ms is None else at_ms - started_ms,
        )


def _compaction(fact: facts.Reset) -> named.Compaction:
    summary = _summary_of(fact.messages)
    before, after = fact.sizes or (None, None)
    ratio = round(after / before, 3) if before and after is not None else None
    return named.Compaction(summary, fact.end - fact.start, before, after, len(summary), ratio)


def arguments_of(call: ToolCall) -> dict[str, object]:
    """Return a call's arguments; text that is no JSON object stands under `arguments`."""
    try:
        return call.arguments
    except JsonInvalid:
        return {"arguments": call.raw}


def counts(usage: Usage) -> dict[str, int]:
    """Return `{prompt, completion, total, cached, cache_write}`, 0 where nothing was reported."""
    return {
        "prompt": usage.input_tokens,
        "completion": usage.output_tokens,
        "total": usage.input_tokens + usage.output_tokens,
        "cached": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
    }


def iso(at_ms: int) -> str:
    """Return milliseconds since 1970 as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")


def _budget_told(result: ToolResult) -> NamedEvents:
    """Return what a result told of the model's tokens."""
    told = None if result.data is None else result.data.get(facts.TOKEN_BUDGET)
    return [TokenBudget(**told)] if isinstance(told, Mapping) else []


def _sensed(told: Mapping[str, Any]) -> NamedEvents:
    """Return what a question told of time, and of what others had changed."""
    kinds: tuple[tuple[str, type[named.NamedEvent]], ...] = (
        ("session_time", SessionTime),
        ("ground_moved", GroundMoved),
    )
    return [kind(**told[name]) for name, kind in kinds if isinstance(told.get(name), Mapping)]


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _noted(data: Mapping[str, object]) -> NamedEvents:
    """Return the event that a note tells of, where it does."""
    keep, reason, retries = data.get("keep"), data.get("reason"), data.get("retries")
    count = keep if isinstance(keep, int) else retries if isinstance(retries, int) else 0
    match data.get("event"):
        case "compaction_retry":
            return [named.CompactionRetry(count)]
        case "compaction_preparation_skipped":
            return [named.CompactionPreparationSkipped(str(reason or ""))]
        case "context_overflow_retry":
            return [named.ContextOverflowRetry(count)]
        case _:
            return []


def usage_told(told: object) -> Usage:
    """Return the usage that a note has, as `counts` made it."""
    known = told if isinstance(told, Mapping) else {}
    values = [value if isinstance(value := known.get(name), int) else 0 for name in counts(Usage.ZERO)]
    return Usage(values[0], values[1], values[3], values[4], computed=True)


def _summary_of(messages: tuple[Message, ...]) -> str:
    return next((message.content for message in messages if message.role == "summary"), "")


_BY_FACT: Final[Mapping[type, Callable[[Reducer, Any, int], NamedEvents]]] = {
    facts.TurnStart: Reducer._turn_start,
    facts.MessageAdded: Reducer._message,
    facts.ToolStart: Reducer._tool_start,
    facts.ToolEnd: Reducer._tool_end,
    facts.Asked: Reducer._asked,
    facts.Reset: Reducer._reset,
    facts.RetryScheduled: Reducer._retry,
    facts.TurnEnd: Reducer._turn_end,
    facts.Observation: Reducer._observation,
}
