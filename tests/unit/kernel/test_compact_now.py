"""Making room because somebody asked, between turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.facts import Reset
from plait.core.messages import Message, Text, user
from plait.core.usage import Usage
from plait.kernel.compact import compact_now
from plait.kernel.effects import End, Interrupted
from plait.kernel.history import fault_in
from plait.kernel.scripted import Trace, play
from plait.kernel.spans import kept_of, select_turns
from plait.kernel.state import State, fold
from tests.helpers.worlds import SPENT, World, failed, look_at, said, texts
from tests.unit.kernel.test_compact import histories

LONG = "x" * 300


@given(histories, st.integers(0, 4))
def test_what_goes_never_parts_a_round(made: tuple[list[Message], int], keep: int) -> None:
    """What is left is a valid history that is no longer than before, and the last task is in it unless all goes."""
    history, _ = made
    tasks = [message for message in history if message.role == "user"]

    span = select_turns(history, keep)

    if span is None:
        return
    after = [*history[: span.start], Message("summary", (Text("S"),)), *kept_of(history, span), *history[span.end :]]
    assert fault_in(after) is None
    assert len(after) <= len(history)
    if keep == 0:
        assert ["summary"] == [message.role for message in after]
    elif tasks:
        assert tasks[-1] in after


def world_of(turns: int) -> World:
    """A world in which some turns with a long result each are over."""
    ids = [f"c{number}" for number in range(turns)]
    replies = [each for one in ids for each in (said(look_at(one)), said(f"answer {one}"))]
    world = World(replies, results=dict.fromkeys(ids, LONG))
    for number in range(turns):
        world.run(user(f"task {number}"))
    return world


def asked(state: State, keep: int, *answers: Any) -> Trace:
    """Compact a state with these answers to its requests."""
    return play(compact_now(state, keep), iter(answers))


def test_the_last_turns_stay() -> None:
    """A summary takes the place of what was before them, what it took is counted, and a fold comes to the same."""
    world = world_of(3)
    used = world.state.usage

    trace = asked(world.state, 1, said(" NOTES "))

    assert End("completed") == trace.end
    assert ["summary: NOTES", "user: task 2", "assistant: c2", "tool: c2", "assistant: answer c2"] == texts(
        world.state.history
    )
    assert used + SPENT == world.state.usage
    assert world.state.history == fold([*world.facts, *trace.facts]).history


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_a_summary_that_is_longer_is_only_paid_for(keep: int) -> None:
    """The history stays, the tokens count, and the fact says that nothing was replaced."""
    world = world_of(3)
    before, used = list(world.state.history), world.state.usage

    trace = asked(world.state, keep, said(LONG * 10))

    assert trace.end is not None
    assert "compaction_skipped" == trace.end.reason
    assert before == world.state.history
    assert used + SPENT == world.state.usage
    assert [True] == [isinstance(fact, Reset) and fact.is_skipped for fact in trace.facts]


def test_a_failure_is_paid_for() -> None:
    """What a failed request used counts; nothing else changes, and the error is the end's."""
    world = world_of(3)
    before, used = list(world.state.history), world.state.usage
    failure = failed("auth", usage=Usage(input=7, output=0))

    trace = asked(world.state, 1, failure)

    assert trace.end is not None
    assert ("error", failure) == (trace.end.reason, trace.end.error)
    assert before == world.state.history
    assert (used.input or 0) + 7 == world.state.usage.input


def test_an_interrupt_changes_nothing() -> None:
    """Half a summary is none."""
    world = world_of(3)
    before = list(world.state.history)

    trace = asked(world.state, 1, Interrupted("timeout", Message("assistant", (Text("half"),))))

    assert End("timeout") == trace.end
    assert before == world.state.history
    assert [] == trace.facts


def test_all_that_does_not_fit_is_listed() -> None:
    """The whole is tried, then what goes, then a list stands in; where all goes, the second try would be the first."""
    for keep, tries in ((1, 2), (0, 1)):
        world = world_of(3)
        trace = asked(world.state, keep, *[failed("context_overflow")] * tries)
        assert End("completed") == trace.end
        assert "Asked: task 0" in world.state.history[0].content
