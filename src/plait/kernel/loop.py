"""The agent loop: one generator that asks for effects and receives answers.

Floor: 1. Owns: the order in which a turn happens; never: a clock, a file, a socket, a thread or chance.

Facts are the only memory: what comes next follows from `State` alone, so that a plain turn, recovery after a crash
and an approval answered in another process are the same code. Effects are the only hands. The driver decides when a
fact is safe. Every call gets exactly one result, and only `Interrupted` and `ProviderFailed` come in.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import replace
from typing import Any, Final

from plait.core.exchange import ProviderFailed, Reply
from plait.core.facts import (
    Asked,
    Decided,
    Fact,
    MessageAdded,
    Reset,
    RetryScheduled,
    RoundClosed,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from plait.core.messages import Control, Message, ResultStatus, Text, ToolCall, ToolResult, assistant, user
from plait.kernel import guards
from plait.kernel.compact import compact
from plait.kernel.effects import (
    Act,
    Allow,
    Approve,
    Ask,
    Boundary,
    Deny,
    Effect,
    End,
    Interrupted,
    Outcome,
    Plan,
    Replace,
    Stop,
    Think,
    Wait,
)
from plait.kernel.history import fault_in
from plait.kernel.rules import Rules
from plait.kernel.state import Round, State, record
from plait.kernel.tools import ToolTable

Loop = Generator[Effect, Any, End]

_CUT_CALL: Final = (
    "Not run: the answer was cut off before its tool calls were complete. Send the call again, with less in one answer."
)
_UNSEEN: Final = (
    "Interrupted while it ran: it may have done all, part or nothing of its work. Check before repeating it."
)


def turn(
    state: State,
    tools: ToolTable,
    rules: Rules,
    inputs: tuple[Message, ...] = (),
    *,
    resume: bool = False,
    sender: str = "",
) -> Loop:
    """Run one turn: from `inputs`, or with `resume` from wherever the facts say that it stands."""
    yield from _open(state, inputs, resume, sender)
    try:
        end = yield from _steps(state, tools, rules)
    except Interrupted as interrupt:
        end = yield from _close(state, interrupt)
    spent = end.error.usage if isinstance(end.error, ProviderFailed) else None
    yield from record(state, TurnEnd(end.reason, end.detail, spent))
    return end


def _open(state: State, inputs: tuple[Message, ...], resume: bool, sender: str) -> Generator[Effect, Any, None]:
    fault = _fault_of_speech(inputs)
    if fault is not None:
        raise ValueError(fault)
    facts: list[Fact] = []
    if not resume and state.round is not None:
        facts += _unanswered(state.round, "Not run: the conversation went on without it.")
    if not resume and state.in_turn:
        facts.append(TurnEnd("interrupted", "the process ended before the turn did"))
    if not resume or not state.in_turn:
        facts.append(TurnStart(resume, sender))
    facts += [MessageAdded(message) for message in inputs]
    if facts:
        yield from record(state, *facts)


def _steps(state: State, tools: ToolTable, rules: Rules) -> Loop:
    while True:
        end: End | None = None
        if state.round is not None:
            end = yield from _finish_round(state, state.round, tools)
        elif state.is_answered:
            end = yield from _finish(state, rules)
        else:
            end = yield from _step(state, rules)
        if end is not None:
            return end


def _step(state: State, rules: Rules) -> Generator[Effect, Any, End | None]:
    """Ask the model once, unless a limit, a guard or the host says otherwise."""
    if rules.max_steps is not None and state.steps >= rules.max_steps:
        return End("max_steps", detail=f"reached max iterations ({rules.max_steps} steps)")
    plan: Plan = yield Boundary(state.steps + 1, "step")
    end = yield from _obey(state, plan, rules)
    if end is not None or state.is_answered:
        return end
    concern = guards.before_step(state, rules.guards)
    if isinstance(concern, Stop):
        return End(concern.reason, detail=concern.detail)
    if concern is not None:
        yield from record(state, MessageAdded(user(concern.text, mark="guard")))
    reply = yield from _think(state, rules)
    message = _with_own_ids(reply.message, state.call_ids)
    yield from record(state, MessageAdded(message, reply.usage, reply.stop))
    return None


def _finish(state: State, rules: Rules) -> Generator[Effect, Any, End | None]:
    """The model has answered: is that the end?"""
    concern = guards.at_answer(state, rules.guards)
    reply = _reply(state)
    if isinstance(concern, Stop):
        return End(concern.reason, reply, detail=concern.detail)
    if concern is not None:
        yield from record(state, MessageAdded(user(concern.text, mark="guard")))
        return None
    plan: Plan = yield Boundary(state.steps, "final")
    end = yield from _obey(state, plan, rules)
    if end is not None:
        return end if end.reply is not None else replace(end, reply=reply)
    return End("completed", _reply(state)) if state.is_answered else None


def _reply(state: State) -> str:
    """The answer: the model's last words, after those that were cut off and that it was told to go on from."""
    words: list[str] = []
    for index in range(len(state.history) - 1, state.turn_began - 1, -2):
        words.append(state.history[index].content)
        before = state.history[max(index - 2, state.turn_began) : index]
        if [message.role for message in before] != ["assistant", "user"]:
            break
        if before[0].tool_calls or not before[1].marked("guard"):
            break
    return "".join(text for text in reversed(words) if text.strip())


def _obey(state: State, plan: Plan, rules: Rules) -> Generator[Effect, Any, End | None]:
    if plan.stop is not None:
        return End(plan.stop.reason, plan.final_reply, detail=plan.stop.detail)
    if plan.compact is not None:
        yield from compact(state, rules.shrinking, plan.compact.why)
    if plan.replace is not None:
        there = plan.replace
        _refuse(_fault_of_replacement(state.history, there))
        yield from record(state, Reset(there.start, there.end, there.messages, there.why))
    if plan.inject:
        _refuse(_fault_of_speech(plan.inject))
        yield from record(state, *(MessageAdded(message) for message in plan.inject))
    if plan.final_reply is not None:
        yield from record(state, MessageAdded(assistant(plan.final_reply), stop="end_turn"))
    return None


def _fault_of_speech(messages: tuple[Message, ...]) -> str | None:
    """What keeps messages from joining the history one by one: calls and results come from the loop alone."""
    if any(message.role == "tool" or message.tool_calls for message in messages):
        return "messages with tool calls or their results cannot be put into a conversation"
    return None


def _fault_of_replacement(history: Sequence[Message], there: Replace) -> str | None:
    if not 0 <= there.start <= there.end <= len(history):
        return f"messages {there.start} to {there.end} are not within the {len(history)} of the history"
    return fault_in([*history[: there.start], *there.messages, *history[there.end :]])


def _refuse(fault: str | None) -> None:
    """Close the turn rather than record what no later request could send: the log would keep it for ever."""
    if fault is not None:
        raise Interrupted("error") from ValueError(f"a plan would break the history: {fault}")


def _think(state: State, rules: Rules) -> Generator[Effect, Any, Reply]:
    """Get one whole answer: wait and try again, or make room and try again, as far as the rules go."""
    while True:
        if state.retry is not None:
            yield Wait(state.retry.delay_ms / 1000)
        try:
            reply: Reply = yield Think(state.view(), "step", state.attempts + 1)
            return reply
        except ProviderFailed as failure:
            yield from _recover(state, rules, failure)


def _recover(state: State, rules: Rules, failure: ProviderFailed) -> Generator[Effect, Any, None]:
    is_overflow = failure.kind == "context_overflow" and state.shrinks < rules.shrinking.tries_max
    if is_overflow and (yield from compact(state, rules.shrinking, "overflow")):
        return
    attempt = state.attempts + 1
    delay_s = rules.retry.delay_s(failure, attempt)
    if delay_s is None:
        raise Interrupted("error") from failure
    scheduled = RetryScheduled(attempt, round(delay_s * 1000), failure.kind, failure.message, failure.usage)
    yield from record(state, scheduled)


def _finish_round(state: State, round_: Round, tools: ToolTable) -> Generator[Effect, Any, End | None]:
    """Bring the open round to one result a call; the turn ends when it has to wait for an answer from outside."""
    if round_.cut:
        yield from record(state, *_unanswered(round_, _CUT_CALL, "error"))
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
    here = {call.id for call in batch}
    lost = tuple(call for call in round_.lost if call.id in here)
    facts: list[Fact] = []
    for call in batch:
        if call.id not in round_.started and call.id not in round_.ended and call.id not in round_.asked:
            facts.append((yield from _judge(round_, tools, call)))
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
        known = _known(outcomes, running)
        running.difference_update(known)
        if known:
            yield from record(state, *known.values())


def _judge(round_: Round, tools: ToolTable, call: ToolCall) -> Generator[Effect, Any, Fact]:
    """Decide what becomes of one call: it starts, it is answered without running, or somebody is asked."""
    problem = tools.check(call)
    if problem is not None:
        return ToolEnd(problem)
    decided = round_.decided.get(call.id)
    verdict: Allow | Deny | Ask = _verdict(call, decided) if decided is not None else (yield Approve(call))
    if isinstance(verdict, Ask):
        return Asked(call.id, verdict.request, verdict.question)
    if isinstance(verdict, Deny):
        return ToolEnd(ToolResult(call.id, verdict.reason, status="denied"))
    rewritten = verdict.call.raw if verdict.call.raw != call.raw else None
    problem = None if rewritten is None else tools.check(replace(call, raw=rewritten))
    if problem is not None:
        return ToolEnd(problem)
    return ToolStart(call.id, rewritten, verdict.intent)


def _verdict(call: ToolCall, decided: Decided) -> Allow | Deny:
    if not decided.allow:
        return Deny(decided.reason or "Denied by user.")
    return Allow(call if decided.arguments is None else replace(call, raw=decided.arguments))


def _known(outcomes: tuple[Outcome, ...], running: Collection[str]) -> dict[str, Fact]:
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
    return ToolEnd(replace(outcome.result, call_id=outcome.call_id))


def _close(state: State, interrupt: Interrupted) -> Loop:
    """Leave a valid history: known results are kept, every other open call says that it has none."""
    facts: list[Fact] = []
    if state.round is not None:
        open_calls = {call.id for call in state.round.calls} - state.round.ended.keys()
        outcomes = tuple(outcome for outcome in interrupt.outcomes if outcome.status != "deferred")
        known = _known(outcomes, open_calls)
        facts += known.values()
        facts += _unanswered(state.round, "Not run: the turn was interrupted.", known=known)
    elif interrupt.partial is not None and interrupt.partial.content and interrupt.reason != "error":
        text = f"{interrupt.partial.content}\n[interrupted]"
        facts.append(MessageAdded(Message("assistant", (Text(text), Control("interrupted")))))
    if facts:
        yield from record(state, *facts)
    cause = interrupt.__cause__
    return End(interrupt.reason, error=cause, detail="" if cause is None else str(cause))


def _unanswered(
    round_: Round, text: str, status: ResultStatus = "cancelled", known: Collection[str] = ()
) -> list[Fact]:
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


def _with_own_ids(message: Message, taken: set[str]) -> Message:
    """Give a call whose id was used before in this conversation an id of its own; drop an exact repeat."""
    calls = message.tool_calls
    ids = [call.id for call in calls]
    if taken.isdisjoint(ids) and len(set(ids)) == len(ids) and all(ids):
        return message
    used = set(taken)
    seen: list[ToolCall] = []
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            if part.id and part in seen:
                continue
            seen.append(part)
            part = replace(part, id=_free_id(part.id or "call", used))
            used.add(part.id)
        parts.append(part)
    return replace(message, parts=tuple(parts))


def _free_id(wanted: str, used: set[str]) -> str:
    free, number = wanted, 2
    while free in used:
        free, number = f"{wanted}-{number}", number + 1
    return free
