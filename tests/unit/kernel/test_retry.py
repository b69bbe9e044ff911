"""When a request fails: wait and ask again, make room and ask again, or give up with a closed turn."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from plait.core.exchange import ProviderFailed
from plait.core.facts import MessageAdded, Reset, RetryScheduled, TurnEnd, TurnStart
from plait.core.messages import assistant, user
from plait.core.usage import Usage
from plait.kernel.effects import NOTHING, Interrupted, Wait
from plait.kernel.loop import turn
from plait.kernel.rules import Guards, Retry, Rules, Shrinking
from plait.kernel.scripted import play
from plait.kernel.state import fold
from tests.helpers.worlds import TABLE, TASK, World, call, failed, look_at, said


def test_a_transient_failure_is_tried_again() -> None:
    """The wait doubles, is jittered by the seed, is recorded before it is slept, and ends with the answer."""
    rules = Rules(retry=Retry(seed=7))
    world = World([failed(), failed("timeout"), failed("protocol"), said("done")], rules=rules)

    assert "completed" == world.run().reason
    scheduled = world.of_type(RetryScheduled)
    assert [(1, "overloaded"), (2, "timeout"), (3, "protocol")] == [(fact.attempt, fact.kind) for fact in scheduled]
    assert [fact.delay_ms / 1000 for fact in scheduled] == world.waits
    assert [1, 2, 3, 4] == [ask.attempt for ask in world.thinks]
    for number, fact in enumerate(scheduled):
        assert 250 * 2**number <= fact.delay_ms <= 500 * 2**number


def test_the_same_seed_waits_the_same() -> None:
    """Delays can be repeated, and two conversations do not retry in step."""

    def delays(seed: int) -> list[float | None]:
        return [Retry(seed=seed).delay_s(failed(), attempt) for attempt in range(1, 6)]

    assert delays(1) == delays(1)
    assert delays(1) != delays(2)


@given(st.integers(1, 10**9), st.integers(0, 10**6))
def test_a_delay_stays_between_half_and_the_cap(attempt: int, seed: int) -> None:
    """However often it failed, the wait is neither endless nor nothing, and computing it does not fail."""
    retry = Retry(attempts_max=10**10, seed=seed)
    full_s = min(60.0, 0.5 * 2.0 ** min(attempt - 1, 60))

    delay_s = retry.delay_s(failed(), attempt)

    assert delay_s is not None
    assert full_s / 2 <= delay_s <= full_s


@pytest.mark.parametrize(
    "stated_s, waited_s", [(0.0, 0.0), (7.25, 7.25), (600.0, 600.0), (601.0, None), (-3.0, 0.0), (float("nan"), None)]
)
def test_a_stated_wait_is_honoured(stated_s: float, waited_s: float | None) -> None:
    """A provider's own wait is taken as it is, up to the longest that is honoured; a longer one is surfaced."""
    assert waited_s == Retry().delay_s(failed("rate_limit", retry_after_s=stated_s), 1)


def test_attempts_have_a_limit() -> None:
    """After the last attempt the turn is closed with the failure; the history has nothing of it."""
    world = World([failed(message=f"no {number}") for number in range(6)])

    end = world.run()

    assert ("error", "no 5; gave up after 6 requests") == (end.reason, end.detail)
    assert [end.detail] == [fact.detail for fact in world.of_type(TurnEnd)]
    assert isinstance(end.error, ProviderFailed)
    assert 6 == len(world.thinks)
    assert ["user: Do the task."] == world.history


@pytest.mark.parametrize(
    "stated_s, words", [(700.0, "12 min"), (7_500.0, "2 h 5 min"), (1e12, "without end"), (float("nan"), "without end")]
)
def test_a_wait_that_is_too_long_is_told_with_its_time(stated_s: float, words: str) -> None:
    """A wait beyond what is honoured ends the turn at once; how long it is stands in the fact and on the failure."""
    world = World([failed("rate_limit", "slow down", retry_after_s=stated_s)])

    end = world.run()

    assert f"slow down; it asks to wait {words}, and no more than 10 min are waited" == end.detail
    assert [end.detail] == [fact.detail for fact in world.of_type(TurnEnd)]
    assert ([], 1) == (world.waits, len(world.thinks))


def test_a_seed_of_ones_own_is_kept() -> None:
    """A conversation gives its seed to rules that have none, and only to those."""
    assert (5, 7) == (Retry().of(5).seed, Retry(seed=7).of(5).seed)


@pytest.mark.parametrize("kind", ["auth", "quota", "bad_request", "model_not_found", "cache_proof"])
def test_a_lasting_failure_is_not_tried_again(kind: str) -> None:
    """Where asking again cannot help, one attempt is made."""
    world = World([failed(kind)])

    assert "error" == world.run().reason
    assert 1 == len(world.thinks)
    assert [] == world.waits


def test_an_answer_starts_the_count_anew() -> None:
    """Failures before one answer do not shorten the patience with the next."""
    replies = [*[failed()] * 5, said(call("look", "a")), *[failed()] * 5, said("done")]
    world = World(replies)

    assert "completed" == world.run().reason
    assert [1, 2, 3, 4, 5] * 2 == [fact.attempt for fact in world.of_type(RetryScheduled)]


def test_failed_attempts_are_paid_for() -> None:
    """The usage of the turn is that of all its requests, the one that ended it included."""
    spent = Usage(input=100, cost=Decimal(1))
    world = World([failed(usage=spent), said(call("look", "a")), failed("auth", usage=spent)])

    world.run()

    assert 210 == world.state.turn_usage.input
    assert [TurnEnd("error", "no", spent)] == world.of_type(TurnEnd)


def test_text_of_a_failed_attempt_is_gone() -> None:
    """What a broken stream had said is neither in the answer nor in a later request."""
    world = World([failed("protocol", partial=assistant("Once up")), said("done")])

    world.run()

    assert ["user: Do the task.", "assistant: done"] == world.history


def test_an_interrupted_wait_ends_the_turn() -> None:
    """Waiting for the next attempt can be interrupted."""

    class Impatient(World):
        def _wait(self) -> object:
            return Interrupted("interrupted")

    world = Impatient([failed()])

    assert "interrupted" == world.run().reason
    assert ["user: Do the task."] == world.history


def test_a_resumed_wait_is_waited() -> None:
    """A process that died while it waited is followed by one that waits and asks with the next number."""
    world = World([failed(), said("done")])
    world.turn(TASK, answers=[NOTHING, failed()])
    assert 1 == len(world.of_type(RetryScheduled))

    world.script([said("done")])
    assert "completed" == world.turn(resume=True).end.reason  # type: ignore[union-attr]
    assert [2] == [ask.attempt for ask in world.thinks]
    assert 1 == len(world.waits)


@pytest.mark.parametrize("waited_ms, left_ms", [(0, 400), (150, 250), (400, 0), (10**9, 0)])
def test_what_was_waited_before_is_not_waited_again(waited_ms: int, left_ms: int) -> None:
    """Of a wait that a log tells of only the rest is waited, and the next one is waited whole again."""
    state = fold((TurnStart(), MessageAdded(TASK), RetryScheduled(1, 400, "overloaded")))
    state.waited_ms = waited_ms
    rules = Rules(retry=Retry(seed=1))

    loop = turn(state, TABLE, rules, resume=True)
    trace = play(loop, iter([NOTHING, (), failed(), (), said("done"), NOTHING]))

    waits = [effect.timeout_s for effect in trace.effects if isinstance(effect, Wait)]
    assert [left_ms / 1000, rules.retry.delay_s(failed(), 2)] == [waits[0], pytest.approx(waits[1], abs=1e-3)]


def long_history(world: World, rounds: int = 6) -> World:
    """Give a world an earlier turn with many rounds."""
    ids = [f"h{number}" for number in range(rounds)]
    replies = [*[said(look_at(each)) for each in ids], said("earlier answer")]
    earlier = World(replies, results=dict.fromkeys(ids, "x" * 400))
    earlier.run(user("An earlier task."))
    world.facts = list(earlier.facts)
    return world


def test_an_overflow_is_made_to_fit() -> None:
    """A request that does not fit is summarised and made again, inside the turn; the task stays word for word."""
    world = long_history(World([failed("context_overflow"), said("SUMMARY"), said("done")]))

    assert "completed" == world.run().reason
    assert ["step", "compaction", "step"] == [ask.purpose for ask in world.thinks]
    assert [1, 1, 1] == [ask.attempt for ask in world.thinks]
    assert "summary: SUMMARY" == world.history[0]
    assert "user: Do the task." in world.history
    assert [] == world.waits


def test_an_overflow_shrinks_further_each_time() -> None:
    """When it still does not fit, less is kept: down to the last exchange, and at most as often as the rules say."""
    replies = [item for number in range(3) for item in (failed("context_overflow"), said(f"S{number}"))]
    world = long_history(World([*replies, failed("context_overflow")]))

    end = world.run()

    assert "error" == end.reason
    resets = world.of_type(Reset)
    kept = [len(request) for request, ask in zip(world.requests, world.thinks, strict=True) if ask.purpose == "step"]
    assert 3 == len(resets) == len(set(kept)) - 1
    assert kept == sorted(kept, reverse=True)
    assert "user: Do the task." in world.history


def test_a_long_single_turn_can_be_made_to_fit() -> None:
    """Steps of one turn are summarised like turns are."""
    ids = [f"c{number}" for number in range(6)]
    steps = [said(look_at(each)) for each in ids]
    world = World([*steps, failed("context_overflow"), said("S"), said("done")], results=dict.fromkeys(ids, "y" * 300))

    assert "completed" == world.run().reason
    assert ["user: Do the task.", "summary: S"] == world.history[:2]


def test_what_cannot_shrink_is_an_error() -> None:
    """With nothing older to give up, an overflow ends the turn and is not tried again."""
    world = World([failed("context_overflow")])

    assert "error" == world.run().reason
    assert ["step"] == [ask.purpose for ask in world.thinks]


def test_after_making_room_nobody_waits() -> None:
    """A wait that an earlier failure asked for is not repeated after the history was shortened."""
    world = long_history(World([failed(), failed("context_overflow"), said("S"), said("done")]))

    assert "completed" == world.run().reason
    assert 1 == len(world.waits)


def test_rules_can_forbid_making_room() -> None:
    """Without tries to shrink, an overflow is surfaced at once."""
    world = long_history(World([failed("context_overflow")], rules=Rules(shrinking=Shrinking(tries_max=0))))

    assert "error" == world.run().reason


def test_defaults_are_the_documented_ones() -> None:
    """Six attempts, half a second doubling to a minute, ten minutes of a stated wait; told at four, ended at eight."""
    assert (6, 0.5, 60.0, 600.0) == (
        Retry().attempts_max,
        Retry().base_s,
        Retry().cap_s,
        Retry().stated_wait_max_s,
    )
    assert (3, 6, 1, 3) == (
        Guards().repeats_told,
        Guards().repeats_max,
        Guards().tellings_max,
        Guards().nudges_max,
    )
    assert 25 == Rules().max_steps
