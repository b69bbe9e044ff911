"""One round: the calls of an assistant message, brought to exactly one result each.

Floor: 1. Owns: judging, starting and collecting calls, and what a call is told that never ran; never: a tool.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import replace
from typing import Any, Final

from plait.core.facts import Asked, Decided, Fact, RoundClosed, ToolEnd, ToolStart
from plait.core.messages import ResultStatus, ToolCall, ToolResult
from plait.kernel.effects import Act, Allow, Approve, Ask, Deny, Effect, End, Outcome, Wait
from plait.kernel.state import Round, State, record
from plait.kernel.tools import ToolTable

CUT_OFF: Final = (
    "Not run: the answer was cut off before its tool calls were complete. Send the call again, with less in one answer."
)
"""What a call is answered with that nobody can trust to be whole."""
_DENIED: Final = "Denied by user."
_UNSEEN: Final = (
    "Interrupted while it ran: it may have done all, part or nothing of its work. Check before repeating it."
)


def finish_round(state: State, round_: Round, tools: ToolTable) -> Generator[Effect, Any, End | None]:
    """Bring the open round to one result a call; the turn ends when it has to wait for an answer from outside."""
    if round_.cut:
        yield from record(state, *unanswered(round_, CUT_OFF, "error"))
        return None
    for batch in tools.batches(round_.calls):
        yield from _run_batch(state, round_, tools, batch)
        if round_.asked:
            return End("waiting" if round_.started.keys() >= round_.asked.keys() else "approval_required")
    yield from record(state, RoundClosed(round_.of))
    return None


def _run_batch(
    state: State, round_: Round, tools: ToolTable, batch: tuple[ToolCall, ...]
) -> Generator[Effect, Any, None]:
    lost: tuple[ToolCall, ...] = ()
    facts: list[Fact] = []
    if round_.started:
        here = {call.id for call in batch}
        lost = tuple(call for call in round_.lost if call.id in here)
        facts += [ToolEnd(_denied(decided)) for decided in round_.refused if decided.call_id in here]
    for call in batch:
        if call.id not in round_.started and call.id not in round_.ended and call.id not in round_.asked:
            facts.append((yield from _judge(state, round_, tools, call)))
    if facts:
        yield from record(state, *facts)
    ready = tuple(round_.as_started(round_.call(fact.call_id)) for fact in facts if isinstance(fact, ToolStart))
    if lost:
        yield Act(lost, resolve=True)
    if ready:
        yield Act(ready)
    running = {call.id for call in (*lost, *ready)}
    while running:
        outcomes: tuple[Outcome, ...] = yield Wait()
        known = facts_of(outcomes, running)
        running.difference_update(known)
        if known:
            yield from record(state, *known.values())


def _judge(state: State, round_: Round, tools: ToolTable, call: ToolCall) -> Generator[Effect, Any, Fact]:
    """Decide what becomes of one call: it starts, it is answered without running, or somebody is asked."""
    problem = tools.check(call, state.history)
    if problem is not None:
        return ToolEnd(problem)
    decided = round_.decided.get(call.id)
    verdict: Allow | Deny | Ask = _verdict(call, decided) if decided is not None else (yield Approve(call))
    if decided is not None and isinstance(verdict, Allow) and tools.recovery(call) is not None:
        verdict = yield Approve(verdict.call, granted=True)
    if isinstance(verdict, Ask):
        return Asked(call.id, verdict.request, verdict.question)
    if isinstance(verdict, Deny):
        return ToolEnd(ToolResult(call.id, verdict.reason, status="denied"))
    rewritten = verdict.call.raw if verdict.call.raw != call.raw else None
    problem = None if rewritten is None else tools.check(replace(call, raw=rewritten), state.history)
    if problem is not None:
        return ToolEnd(problem)
    return ToolStart(call.id, rewritten, verdict.intent)


def _verdict(call: ToolCall, decided: Decided) -> Allow | Deny:
    if not decided.allow:
        return Deny(decided.reason or _DENIED)
    return Allow(call if decided.arguments is None else replace(call, raw=decided.arguments))


def _denied(decided: Decided) -> ToolResult:
    return ToolResult(decided.call_id, decided.reason or _DENIED, status="denied")


def facts_of(outcomes: tuple[Outcome, ...], running: Collection[str]) -> dict[str, Fact]:
    """One fact for each running call that has an outcome; the first one counts, and what nobody waits for does not."""
    known: dict[str, Fact] = {}
    for outcome in outcomes:
        if outcome.call_id in running and outcome.call_id not in known:
            known[outcome.call_id] = _fact_of(outcome)
    return known


def _fact_of(outcome: Outcome) -> Fact:
    if outcome.status == "deferred":
        return Asked(outcome.call_id, outcome.ref or outcome.call_id)
    if outcome.result is None:
        return ToolEnd(ToolResult(outcome.call_id, status=outcome.status))
    result = outcome.result
    return ToolEnd(result if result.call_id == outcome.call_id else replace(result, call_id=outcome.call_id))


def unanswered(round_: Round, text: str, status: ResultStatus = "cancelled", known: Collection[str] = ()) -> list[Fact]:
    """The facts that close a round: a result for each call that has none and is not `known` to get one."""
    facts: list[Fact] = []
    for call in round_.calls:
        if call.id in round_.ended or call.id in known:
            continue
        if call.id in round_.started:
            facts.append(ToolEnd(ToolResult(call.id, _UNSEEN, status="unknown")))
        else:
            facts.append(ToolEnd(ToolResult(call.id, text, status=status)))
    return [*facts, RoundClosed(round_.of)]
