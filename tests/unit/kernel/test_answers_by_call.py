"""Tools whose call is the model's answer."""

from __future__ import annotations

import pytest

from plait.core.messages import ToolResult, user
from plait.kernel.effects import (
    NOTHING,
    Allow,
    Boundary,
    Deny,
    End,
    Interrupted,
    Outcome,
    Plan,
    Stop,
    Think,
)
from plait.kernel.loop import answer_by_call, turn
from plait.kernel.rules import Rules
from plait.kernel.scripted import play
from plait.kernel.state import State
from plait.kernel.tools import Tool, ToolTable
from tests.helpers.worlds import TASK, TOOLS, call, look_at, said

ANSWER = Tool("answer", "Answer.", lambda **_: "", parameters={"type": "object"}, ends_turn=True)
TABLE = ToolTable((*TOOLS, ANSWER))
DONE = call("answer", "z", '{"n":1}')


def ok(call_id: str) -> tuple[Outcome, ...]:
    """The outcome of a call that went well."""
    return (Outcome.of(ToolResult(call_id, "fine")),)


def bad(call_id: str) -> tuple[Outcome, ...]:
    """The outcome of a call that did not."""
    return (Outcome.of(ToolResult(call_id, "no", is_error=True)),)


def test_a_call_that_succeeds_is_the_answer() -> None:
    """The arguments are the reply, nothing more is asked, and the host hears that this would be the end."""
    state = State()
    answers = [NOTHING, said(DONE), Allow(DONE), ok("z"), NOTHING]
    trace = play(turn(state, TABLE, Rules(), (TASK,)), iter(answers))

    assert End("completed", '{"n":1}') == trace.end
    assert [("step", 1), ("final", 1)] == [(at.phase, at.step) for at in trace.effects if isinstance(at, Boundary)]
    assert 1 == sum(isinstance(effect, Think) for effect in trace.effects)
    assert ["user", "assistant", "tool"] == [message.role for message in state.history]
    assert None is answer_by_call(state, TABLE)


def test_a_call_that_fails_is_none() -> None:
    """An error goes to the model like any other, and a denial too; the next call may be the answer."""
    again = call("answer", "y", '{"n":2}')
    answers = [NOTHING, said(DONE), Allow(DONE), bad("z"), NOTHING, said(again), Deny("no")]
    answers += [NOTHING, said("In words."), NOTHING]
    trace = play(turn(State(), TABLE, Rules(), (TASK,)), iter(answers))

    assert End("completed", "In words.") == trace.end


def test_the_last_step_may_answer() -> None:
    """A ceiling of steps that the answering call reaches is no limit."""
    answers = [NOTHING, said(DONE), Allow(DONE), ok("z"), NOTHING]

    assert End("completed", '{"n":1}') == play(turn(State(), TABLE, Rules(max_steps=1), (TASK,)), iter(answers)).end


def test_other_calls_of_the_message_are_run() -> None:
    """The turn ends when every call of the message has its result; the first answer counts."""
    calls = [look_at("a"), DONE, call("answer", "y", '{"n":2}')]
    answers = [NOTHING, said(calls), Allow(calls[0]), ok("a"), Allow(DONE), ok("z"), Allow(calls[2]), ok("y"), NOTHING]

    assert End("completed", '{"n":1}') == play(turn(State(), TABLE, Rules(), (TASK,)), iter(answers)).end


@pytest.mark.parametrize(
    "plan, end",
    [
        (Plan(inject=(user("more"),)), End("completed", "Yes.")),
        (Plan(stop=Stop("stopped", "enough")), End("stopped", '{"n":1}', detail="enough")),
        (Plan(final_reply="Mine."), End("completed", "Mine.")),
    ],
    ids=["inject", "stop", "final_reply"],
)
def test_the_host_may_want_something_else(plan: Plan, end: End) -> None:
    """At the end the host may go on, stop, or answer itself."""
    answers = [NOTHING, said(DONE), Allow(DONE), ok("z"), plan]
    answers += [NOTHING, said("Yes."), NOTHING] if plan.inject else []

    assert end == play(turn(State(), TABLE, Rules(), (TASK,)), iter(answers)).end


def test_a_turn_that_was_left_after_the_answer_ends_there() -> None:
    """A process that ended between the answer and the end of its turn asks the model nothing when it comes back."""
    state = State()
    left = play(turn(state, TABLE, Rules(), (TASK,)), iter([NOTHING, said(DONE), Allow(DONE), ok("z")]))
    assert Boundary(1, "final") == left.pending

    trace = play(turn(state, TABLE, Rules(), resume=True), iter([NOTHING]))

    assert End("completed", '{"n":1}') == trace.end


def test_an_answer_of_an_earlier_turn_is_none_of_this_one() -> None:
    """A turn without a question, after one that was answered by call, asks the model."""
    state = State()
    play(turn(state, TABLE, Rules(), (TASK,)), iter([NOTHING, said(DONE), Allow(DONE), ok("z"), NOTHING]))

    assert End("completed", "Yes.") == play(turn(state, TABLE, Rules()), iter([NOTHING, said("Yes."), NOTHING])).end


def test_an_interrupt_at_the_end_closes_the_turn() -> None:
    """Stopped where it would end, the turn is interrupted, and its history stays whole."""
    state = State()
    trace = play(
        turn(state, TABLE, Rules(), (TASK,)),
        iter([NOTHING, said(DONE), Allow(DONE), ok("z"), Interrupted("interrupted")]),
    )

    assert trace.end is not None
    assert "interrupted" == trace.end.reason
    assert not state.in_turn
