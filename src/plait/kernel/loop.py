"""The agent loop: one generator that asks for effects and receives answers.

Floor: 1. Owns: the order in which a turn happens; never: a clock, a file, a socket, a thread or chance.

Facts are the only memory: what comes next follows from `State` alone, so that a plain turn, recovery after a crash
and an approval answered in another process are the same code. Effects are the only hands. The driver decides when a
fact is safe. Every call gets exactly one result, and only `Interrupted` and `ProviderFailed` come in.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, Final

from plait.core.exchange import ProviderFailed
from plait.core.facts import Fact, MessageAdded, Reset, TurnEnd, TurnStart
from plait.core.messages import Control, Message, Text, assistant, user
from plait.core.usage import Usage
from plait.kernel import guards
from plait.kernel.compact import compact
from plait.kernel.effects import Boundary, Effect, End, Interrupted, Plan, Stop
from plait.kernel.history import fault_of_replacement, fault_of_speech
from plait.kernel.rounds import facts_of, finish_round, unanswered
from plait.kernel.rules import Rules
from plait.kernel.state import State, record
from plait.kernel.thinking import think, with_own_ids
from plait.kernel.tools import ToolTable

Loop = Generator[Effect, Any, End]

_LOST_QUESTION: Final = "the process ended before the question was safe"


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
    is_lost = resume and not inputs and state.lacks_question
    yield from _open(state, inputs, resume, sender)
    spent: Usage | None = None
    try:
        end = End("interrupted", detail=_LOST_QUESTION) if is_lost else (yield from _steps(state, tools, rules))
    except Interrupted as interrupt:
        spent = interrupt.usage
        end = yield from close_round(state, interrupt)
    if isinstance(end.error, ProviderFailed):
        spent = end.error.usage
    yield from record(state, TurnEnd(end.reason, end.detail, spent))
    return end


def _open(state: State, inputs: tuple[Message, ...], resume: bool, sender: str) -> Generator[Effect, Any, None]:
    fault = fault_of_speech(inputs)
    if fault is not None:
        raise ValueError(fault)
    facts: list[Fact] = []
    if not resume and state.round is not None:
        facts += unanswered(state.round, "Not run: the conversation went on without it.")
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
            end = yield from finish_round(state, state.round, tools)
        elif state.is_answered or answer_by_call(state, tools) is not None:
            end = yield from _finish(state, tools, rules)
        else:
            end = yield from _step(state, rules)
        if end is not None:
            return end


def _step(state: State, rules: Rules) -> Generator[Effect, Any, End | None]:
    """Ask the model once, unless a limit, a guard or the host says otherwise."""
    if rules.max_steps is not None and state.steps >= rules.max_steps:
        steps = "1 step" if rules.max_steps == 1 else f"{rules.max_steps} steps"
        return End("max_steps", detail=f"reached max iterations ({steps})")
    end = yield from _before_step(state, rules)
    if end is not None or state.is_answered:
        return end
    concern = guards.before_step(state, rules.guards)
    if isinstance(concern, Stop):
        return End(concern.reason, detail=concern.detail)
    if concern is not None:
        yield from record(state, MessageAdded(user(concern.text, mark="guard")))
    reply = yield from think(state, rules)
    if reply is None:
        return None
    message = with_own_ids(reply.message, state.call_ids)
    yield from record(state, MessageAdded(message, reply.usage, reply.stop, reply.sent))
    if reply.halt is not None:
        raise Interrupted("error") from reply.halt
    return None


def _before_step(state: State, rules: Rules) -> Generator[Effect, Any, End | None]:
    """Ask the host what now; once more where history was made shorter, as all else is about what is left."""
    is_shrunk = state.shrinks > 0
    while True:
        plan: Plan = yield Boundary(state.steps + 1, "step", is_shrunk)
        compaction = plan.compact
        if is_shrunk and compaction is not None and compaction.bounds is None:
            plan, compaction = replace(plan, compact=None), None
        end = yield from _obey(state, plan, rules)
        if compaction is None or end is not None or state.is_answered:
            return end
        is_shrunk = True


def _finish(state: State, tools: ToolTable, rules: Rules) -> Generator[Effect, Any, End | None]:
    """The model has answered: is that the end?"""
    by_call = answer_by_call(state, tools)
    concern = guards.at_answer(state, rules.guards) if by_call is None else None
    reply = reply_of(state) if by_call is None else by_call
    if isinstance(concern, Stop):
        return End(concern.reason, reply, detail=concern.detail)
    if concern is not None:
        yield from record(state, MessageAdded(user(concern.text, mark="guard")))
        return None
    plan: Plan = yield Boundary(state.steps, "final")
    end = yield from _obey(state, plan, rules)
    if end is not None:
        return end if end.reply is not None else replace(end, reply=reply)
    by_call = answer_by_call(state, tools)
    if by_call is not None:
        return End("completed", by_call)
    return End("completed", reply_of(state)) if state.is_answered else None


def reply_of(state: State) -> str:
    """Return the model's last words, after those that were cut off and that it was told to go on from."""
    words: list[str] = []
    for index in range(len(state.history) - 1, state.turn_began - 1, -2):
        words.append(state.history[index].content)
        before = state.history[max(index - 2, state.turn_began) : index]
        if [message.role for message in before] != ["assistant", "user"]:
            break
        if before[0].tool_calls or not before[1].marked("guard"):
            break
    return "".join(text for text in reversed(words) if text.strip())


def answer_by_call(state: State, tools: ToolTable) -> str | None:
    """Return the arguments of the call that answered this turn, None where no tool that ends it has succeeded."""
    if not tools.can_end_turn:
        return None
    history = state.history
    if not state.in_turn or state.round is not None or len(history) - state.turn_began < 2:
        return None
    done = {result.call_id for result in history[-1].tool_results if result.status == "ok"}
    calls = history[-2].tool_calls if done else ()
    answers = (call for call in calls if call.id in done and (tool := tools.get(call.name)) and tool.ends_turn)
    return next((call.raw for call in answers), None)


def _obey(state: State, plan: Plan, rules: Rules) -> Generator[Effect, Any, End | None]:
    if plan.stop is not None:
        return End(plan.stop.reason, plan.final_reply, detail=plan.stop.detail)
    if plan.compact is not None:
        yield from compact(state, rules, plan.compact.why, plan.compact.bounds)
    if plan.replace is not None:
        there = plan.replace
        _refuse(fault_of_replacement(state.history, there))
        yield from record(state, Reset(there.start, there.end, there.messages, there.why))
    if plan.inject:
        _refuse(fault_of_speech(plan.inject))
        yield from record(state, *(MessageAdded(message) for message in plan.inject))
    if plan.final_reply is not None:
        yield from record(state, MessageAdded(assistant(plan.final_reply), stop="end_turn"))
    return None


def _refuse(fault: str | None) -> None:
    """Close the turn rather than record what no later request could send: the log would keep it for ever."""
    if fault is not None:
        raise Interrupted("error") from ValueError(f"a plan would break the history: {fault}")


def close_round(state: State, interrupt: Interrupted) -> Loop:
    """Leave a valid history: known results are kept, every other open call says that it has none."""
    facts: list[Fact] = []
    if state.round is not None:
        open_calls = {call.id for call in state.round.calls} - state.round.ended.keys()
        outcomes = tuple(outcome for outcome in interrupt.outcomes if outcome.status != "deferred")
        known = facts_of(outcomes, open_calls)
        facts += known.values()
        facts += unanswered(state.round, "Not run: the turn was interrupted.", known=known)
    elif interrupt.partial is not None and interrupt.partial.content and interrupt.reason != "error":
        text = f"{interrupt.partial.content}\n[interrupted]"
        facts.append(MessageAdded(Message("assistant", (Text(text), Control("interrupted")))))
    if facts:
        yield from record(state, *facts)
    cause = interrupt.__cause__
    return End(interrupt.reason, error=cause, detail="" if cause is None else str(cause))
