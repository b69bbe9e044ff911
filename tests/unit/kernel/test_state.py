"""Where a conversation stands: a fold of its facts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.core.facts import (
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
from plait.core.messages import Message, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.kernel.state import FoldError, State, fold, record
from tests.helpers.strategies import facts
from tests.helpers.worlds import SPENT, World, assert_same_state, call, said

ROUND = (TurnStart(), MessageAdded(user("go")), MessageAdded(assistant(calls=[call("look", "a"), call("write", "b")])))


@pytest.mark.parametrize(
    "before, fact",
    [
        ((TurnStart(),), TurnStart()),
        ((), TurnEnd("completed")),
        (ROUND, MessageAdded(user("no"))),
        (ROUND, Reset(0, 0, (), "clear")),
        (ROUND, RoundClosed(1)),
        (ROUND, ToolStart("z")),
        (ROUND, ToolEnd(ToolResult("z"))),
        (ROUND, Asked("z", "q")),
        (ROUND, Decided("z", True)),
        ((*ROUND, ToolStart("a")), ToolStart("a")),
        ((*ROUND, ToolEnd(ToolResult("a"))), ToolStart("a")),
        ((*ROUND, ToolEnd(ToolResult("a"))), ToolEnd(ToolResult("a"))),
        ((*ROUND, ToolEnd(ToolResult("a"))), Asked("a", "q")),
        ((*ROUND, ToolEnd(ToolResult("a"))), RoundClosed(1)),
        ((*ROUND, ToolEnd(ToolResult("a")), ToolEnd(ToolResult("b"))), RoundClosed(0)),
        ((), ToolStart("a")),
        ((), ToolEnd(ToolResult("a"))),
        ((), RoundClosed(0)),
        ((MessageAdded(user("a")),), Reset(0, 2, (), "x")),
        ((MessageAdded(user("a")),), Reset(1, 0, (), "x")),
    ],
)
def test_a_fact_that_does_not_fit_changes_nothing(before: tuple[Fact, ...], fact: Fact) -> None:
    """A log that is not whole is refused at the fact that shows it, and the state stays as it was."""
    state = fold(before)

    with pytest.raises(FoldError):
        state.apply(fact)
    assert_same_state(state, fold(before))


@given(st.lists(facts, max_size=8))
def test_folding_arbitrary_facts_fits_or_is_refused(arbitrary: list[Fact]) -> None:
    """No sequence of facts makes the fold fail in any other way, and each refusal changes nothing."""
    state, taken = State(), []
    for fact in arbitrary:
        try:
            state.apply(fact)
        except FoldError:
            continue
        taken.append(fact)
    assert_same_state(state, fold(taken))


def test_a_round_stands_in_the_state() -> None:
    """What is asked, decided, started and ended of the open round follows from its facts."""
    facts_of_it = (Asked("b", "q"), ToolStart("a", '{"x":1}'))
    state = fold((*ROUND, *facts_of_it))

    round_ = state.round
    assert round_ is not None
    assert (1, False) == (round_.of, round_.cut)
    assert (["a"], ["b"]) == (list(round_.started), list(round_.asked))
    assert (call("look", "a", '{"x":1}'),) == round_.lost
    assert not state.is_answered

    for fact in (Decided("b", False, "no"), ToolEnd(ToolResult("b", "no", status="denied")), ToolEnd(ToolResult("a"))):
        state.apply(fact)
    assert ((), {}) == (round_.lost, round_.asked)
    state.apply(RoundClosed(1))
    assert state.round is None
    assert Message("tool", (ToolResult("a"), ToolResult("b", "no", status="denied"))) == state.history[-1]


def test_a_deferred_call_is_not_lost() -> None:
    """A started call whose result somebody will bring is neither resolved nor run."""
    state = fold((*ROUND, ToolStart("a"), Asked("a", "later")))

    assert state.round is not None
    assert () == state.round.lost


def test_the_epoch_moves_with_sent_messages() -> None:
    """Appending keeps the epoch; replacing moves it, and leaves views of before alone."""
    state = fold([MessageAdded(user("a")), MessageAdded(user("b"))])
    view = state.view()
    state.apply(MessageAdded(user("c")))
    assert (0, 2, 0) == (view.epoch, view.length, state.epoch)

    state.apply(Reset(0, 3, (user("z"),), "clear"))
    assert (1, ["z"]) == (state.epoch, [message.content for message in state.history])
    assert ["a", "b"] == [message.content for message in view.messages]


@pytest.mark.parametrize(
    "start, end, count, began", [(0, 1, 1, 2), (0, 2, 1, 1), (0, 3, 1, 0), (1, 3, 2, 1), (2, 3, 1, 2), (3, 3, 2, 2)]
)
def test_the_turns_place_moves_with_replacements(start: int, end: int, count: int, began: int) -> None:
    """What is replaced before the turn moves its beginning; what is replaced in it does not go past it."""
    state = fold([MessageAdded(user("a")), MessageAdded(user("b")), TurnStart(), MessageAdded(user("c"))])

    state.apply(Reset(start, end, tuple(user("z") for _ in range(count)), "reduce"))

    assert began == state.turn_began


def test_counters_belong_to_a_turn() -> None:
    """A new turn counts steps, warnings and spending anew; a resumed one goes on counting; the total goes on always."""
    world = World([said(call("look", "a")), said("done")])
    world.run()
    spent = world.state.usage
    assert (2, SPENT + SPENT) == (world.state.steps, world.state.turn_usage)

    world.state.apply(TurnStart(resumed=True))
    assert (2, spent) == (world.state.steps, world.state.turn_usage)
    world.state.apply(TurnEnd("completed"))
    world.state.apply(TurnStart())
    assert (0, Usage.ZERO, spent) == (world.state.steps, world.state.turn_usage, world.state.usage)


def test_all_spending_counts() -> None:
    """Answers, failed attempts, summaries and the failure that ended a turn add up; observations do not."""
    state = fold(
        [
            TurnStart(),
            MessageAdded(assistant("a"), SPENT),
            RetryScheduled(1, 0, "timeout", usage=SPENT),
            Reset(0, 0, (), "compaction", SPENT),
            Observation("x_metrics", {"input": 1000}),
            TurnEnd("error", usage=SPENT),
        ]
    )

    assert (40, 40) == (state.usage.input, state.turn_usage.input)
    assert state.last_usage is None


def test_a_scheduled_retry_is_forgotten_when_it_is_moot() -> None:
    """An answer, a shorter history, a new turn: each ends the wait."""
    scheduled = (TurnStart(), RetryScheduled(2, 500, "timeout"))
    for after in (MessageAdded(assistant("a")), Reset(0, 0, (), "reduce"), TurnEnd("interrupted")):
        state = fold(scheduled)
        assert (2, 500) == (state.attempts, state.retry and state.retry.delay_ms)
        state.apply(after)
        assert state.retry is None


def test_memory_never_knows_what_the_log_does_not() -> None:
    """A fact is handed to the log before the state takes it in."""
    state = State()
    recording = record(state, MessageAdded(user("a")))

    assert (MessageAdded(user("a")),) == next(recording).facts
    assert [] == state.history
    assert None is next(recording, None)
    assert [user("a")] == state.history


def test_whose_word_was_last() -> None:
    """Answered is a turn whose last message is the model's whole answer: not a pause, not a half one, not an older."""
    began = (MessageAdded(assistant("old")), TurnStart())

    assert not fold(began).is_answered
    assert fold((*began, MessageAdded(assistant("a")))).is_answered
    assert not fold((*began, MessageAdded(assistant("a"), stop="pause"))).is_answered
    assert not fold((*began, MessageAdded(user("a")))).is_answered
    assert not fold((*began, MessageAdded(assistant("a")), TurnEnd("completed"))).is_answered
