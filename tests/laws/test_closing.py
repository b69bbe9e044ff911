"""Wherever a turn is interrupted, and whatever goes wrong in it, it is closed, and another one can follow."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from plait.core.facts import ToolEnd, TurnEnd
from plait.core.messages import ToolResult, assistant, user
from plait.kernel.effects import Interrupted, Outcome
from plait.kernel.history import fault_in
from plait.kernel.scripted import Answer
from tests.helpers.programs import Program, ProgramWorld, programs
from tests.helpers.worlds import TASK, call, failed, said


class CutWorld(ProgramWorld):
    """A program's world in which one effect, counted from the first, is answered with an exception."""

    def __init__(self, program: Program, cut_at: int, problem: Exception) -> None:
        super().__init__(program)
        self._left = cut_at
        self._problem = problem
        self.was_cut = False

    def _answer(self) -> Answer:
        self._left -= 1
        if self._left != 0:
            return super()._answer()
        self.was_cut = True
        self._running.clear()
        return self._problem


def interrupts() -> list[Interrupted]:
    """Ways to be interrupted: bare, with half an answer, with results of calls that run and of calls that do not."""
    known = tuple(Outcome.of(ToolResult(f"s{step}c0", "just in time")) for step in range(3))
    return [
        Interrupted("interrupted"),
        Interrupted("timeout", assistant("half an ans")),
        Interrupted("shutdown", None, (*known, *known, Outcome("s0c1", "deferred", None, "later"))),
    ]


def assert_closed(world: CutWorld) -> None:
    """Assert that the turn is over and that another one can follow."""
    assert not world.state.in_turn
    assert world.state.round is None
    assert fault_in(world.state.history) is None
    ends = Counter(fact.result.call_id for fact in world.of_type(ToolEnd))
    assert {1} >= set(ends.values())
    world.script([said(call("look", "s0c0")), said("well")])
    world._left = -1
    world._plans, world._verdicts, world._results = {}, {}, {}
    assert "well" == (world.turn(user("go on")).end or failed()).reply  # type: ignore[union-attr]


@given(programs, st.integers(0, 2))
def test_an_interrupt_at_any_effect_closes_the_turn(program: Program, how: int) -> None:
    """At each effect of each program: the reason is told, known results are kept, and the conversation goes on."""
    for cut_at in range(1, 60):
        problem = interrupts()[how]
        world = CutWorld(program, cut_at, problem)
        end = world.turn(TASK).end
        if not world.was_cut:
            return
        assert end is not None
        assert problem.reason == end.reason
        assert TurnEnd(problem.reason) == world.facts[-1]
        assert_closed(world)


@given(programs)
def test_a_failure_at_any_request_closes_the_turn(program: Program) -> None:
    """A model that refuses at any request, also one for a summary, ends the turn with an error and nothing else."""
    for cut_at in range(1, 60):
        world = CutWorld(program, cut_at, failed("auth"))
        try:
            end = world.turn(TASK).end
        except type(failed()):
            continue  # not at a request: no driver lets it in there
        if not world.was_cut:
            return
        assert end is not None
        if world.state.round is None:
            assert_closed(world)


@pytest.mark.parametrize("half", ["", "  ", "half"])
def test_half_an_answer_is_kept_when_it_has_words(half: str) -> None:
    """What was said before the interrupt stays, marked; silence leaves nothing."""
    world = ProgramWorld(Program(()))
    world.script([Interrupted("interrupted", assistant(half))])
    world.turn(TASK)

    assert (2 if half else 1) == len(world.state.history)
    assert (not half) or world.state.history[-1].marked("interrupted")
