"""The interpreter without a world."""

from __future__ import annotations

from plait.core.facts import MessageAdded, TurnEnd, TurnStart
from plait.kernel.effects import NOTHING, Act, Allow, Boundary, End, Interrupted, Record, Think
from plait.kernel.loop import turn
from plait.kernel.rules import Rules
from plait.kernel.scripted import play
from plait.kernel.state import State
from tests.helpers.worlds import TABLE, TASK, call, said


def test_a_trace_holds_everything() -> None:
    """Effects in order, facts in order, and the end."""
    trace = play(turn(State(), TABLE, Rules(), (TASK,)), iter([NOTHING, said("hi"), NOTHING]))

    assert [Record, Boundary, Think, Record, Boundary, Record] == [type(effect) for effect in trace.effects]
    assert [TurnStart(), MessageAdded(TASK)] == trace.facts[:2]
    assert TurnEnd("completed") == trace.facts[-1]
    assert (End("completed", "hi"), None) == (trace.end, trace.pending)


def test_answers_may_run_out() -> None:
    """A loop without an answer is dropped where it stands, and the trace says what it waited for."""
    looked = call("look", "a")
    trace = play(turn(State(), TABLE, Rules(), (TASK,)), iter([NOTHING, said(looked), Allow(looked)]))

    assert trace.end is None
    assert isinstance(trace.effects[-2], Act)
    assert trace.effects[-1] == trace.pending


def test_an_exception_is_thrown_in() -> None:
    """An answer that is an exception enters the loop at the effect."""
    trace = play(turn(State(), TABLE, Rules(), (TASK,)), iter([Interrupted("timeout")]))

    assert End("timeout") == trace.end
    assert TurnEnd("timeout") == trace.facts[-1]


def test_a_turn_can_be_played_again() -> None:
    """The same answers give the same effects, facts and end."""
    answers = [NOTHING, said(call("look", "a")), NOTHING]

    assert play(turn(State(), TABLE, Rules(), (TASK,)), iter(answers[:2])) == play(
        turn(State(), TABLE, Rules(), (TASK,)), iter(answers[:2])
    )
