"""How a summary is asked for: again where it failed for the moment, and never for more than the window has room for."""

from __future__ import annotations

from typing import Any

import pytest

from plait.core.facts import (
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
from plait.kernel.budget import Room
from plait.kernel.compact import UNPREPARED, compact_now
from plait.kernel.effects import Boundary, Interrupted, Plan, Wait
from plait.kernel.gauge import units_of
from plait.kernel.rerun import rerun
from plait.kernel.rules import Retry, Rules, Shrinking
from plait.kernel.scripted import Trace, play
from plait.kernel.state import State, fold
from tests.helpers.worlds import SPENT, TABLE, World, failed, look_at, said
from tests.unit.kernel.test_compact import COMPACT, busy_world

RULES = Rules(retry=Retry(attempts_max=4, seed=1))
BUSY = [failed("rate_limit", retry_after_s=7.0), failed("unavailable"), failed("timeout")]


def retries(facts: list[Any]) -> list[RetryScheduled]:
    """Return the retries among facts."""
    return [fact for fact in facts if isinstance(fact, RetryScheduled)]


def assert_replays(world: World) -> None:
    """Assert that the loop, run again on the log, does what it did."""
    told = rerun(world.facts, TABLE, world.rules, lambda ask, at: "")
    assert (None, 0) == (told.difference, told.followed)


@pytest.mark.parametrize("plans", [{(1, "step"): COMPACT}, {}], ids=["threshold", "overflow"])
def test_what_passes_is_waited_for(plans: Any) -> None:
    """The same request is made again after the usual waits, each is in the log, and the step's tries are its own."""
    world = busy_world(rules=RULES)
    first = [] if plans else [failed("context_overflow")]
    after = [failed("overloaded"), said("done")]
    world.script([*first, *BUSY, said("NOTES"), *after], plans=plans)

    assert "completed" == world.run().reason
    scheduled = retries(world.facts)
    assert ["compaction", "compaction", "compaction", ""] == [fact.purpose for fact in scheduled]
    assert [1, 2, 3, 1] == [fact.attempt for fact in scheduled]
    assert 7.0 == world.waits[0]
    assert [fact.delay_ms / 1000 for fact in scheduled] == world.waits
    asked = [ask for ask in world.thinks if ask.purpose == "compaction"]
    assert [1, 2, 3, 4] == [ask.attempt for ask in asked]
    assert 1 == len({(ask.view.length, ask.view.extra) for ask in asked})
    assert "summary: NOTES" == world.history[0]
    assert_replays(world)


def test_patience_ends_in_a_list() -> None:
    """After so many requests a list of what went stands in, what they used is counted, and the step is asked for."""
    used = Usage(input=5, output=0)
    world = busy_world(rules=RULES)
    world.script([failed("overloaded", usage=used) for _ in range(4)] + [said("done")], plans={(1, "step"): COMPACT})

    assert "completed" == world.run().reason
    assert world.history[0].startswith("summary: Earlier: 1 user")
    assert 3 == len(retries(world.facts))
    assert (0, None, 1) == (world.state.attempts, world.state.retry, world.thinks[-1].attempt)
    assert used + used + used + used + SPENT == world.state.turn_usage
    assert_replays(world)


@pytest.mark.parametrize("failure", [failed("auth"), failed("rate_limit", retry_after_s=3_600.0)])
def test_what_does_not_pass_is_not_waited_for(failure: Any) -> None:
    """A refusal, and a wait beyond what is waited, end in the list at once."""
    world = busy_world(rules=RULES).script([failure, said("done")], plans={(1, "step"): COMPACT})

    assert "completed" == world.run().reason
    assert ([], []) == (retries(world.facts), world.waits)
    assert world.history[0].startswith("summary: Earlier: ")


@pytest.mark.parametrize("at", ["waiting", "asking"])
def test_stopped_while_it_tries(at: str) -> None:
    """Interrupted between two tries, or in one, the turn ends with the history as it was."""
    world = busy_world(rules=RULES)
    before = list(world.state.history)
    stopped = Interrupted("interrupted")
    tail: list[Any] = [stopped] if at == "waiting" else [(), stopped]
    trace = world.turn(user("Go on."), answers=[COMPACT, failed("overloaded"), *tail])

    assert trace.end is not None
    assert "interrupted" == trace.end.reason
    assert [*before, user("Go on.")] == world.state.history
    assert isinstance(world.facts[-1], TurnEnd)
    assert_replays(world)


def test_a_process_that_died_between_two_tries_counts_on() -> None:
    """What is left of the wait is waited, and the tries before are not forgotten; the history stays valid."""
    world = busy_world(rules=RULES)
    trace = world.turn(user("Go on."), answers=[COMPACT, BUSY[0], (), failed("overloaded")])
    assert trace.end is None
    world.waits.clear()
    world.script([said("NOTES"), said("done")], plans={(1, "step"): COMPACT})

    trace = world.turn(resume=True)

    assert trace.end is not None
    assert "completed" == trace.end.reason
    assert [3, 1] == [ask.attempt for ask in world.thinks]
    (wait,) = world.waits
    assert retries(world.facts)[-1].delay_ms / 1000 == wait


def test_a_summary_that_nobody_wants_any_more_is_not_waited_for() -> None:
    """Where the host of the process that goes on does not want the summary, the step is asked for at once."""
    world = busy_world(rules=RULES)
    world.turn(user("Go on."), answers=[COMPACT, BUSY[0]])
    world.waits.clear()
    world.script([said("done")])

    world.turn(resume=True)

    assert ([], [("step", 1)]) == (world.waits, [(ask.purpose, ask.attempt) for ask in world.thinks])


def test_a_summary_of_no_use_leaves_no_wait_behind() -> None:
    """After tries for a summary that gained nothing the state is as if none had failed."""
    world = busy_world(rules=RULES)
    world.script([failed("overloaded"), said("N" * 5_000), said("done")], plans={(1, "step"): COMPACT})
    world.run()

    assert (0, None, 1) == (world.state.attempts, world.state.retry, world.thinks[-1].attempt)
    skipped = next(at for at, fact in enumerate(world.facts) if isinstance(fact, Reset) and fact.is_skipped)
    assert fold(world.facts[: skipped + 1]).retry is None
    assert 1 == len(world.waits)
    assert_replays(world)


def test_a_host_is_asked_once_more_after_an_overflow() -> None:
    """What was to be done at the boundary is known to be about what is left, and another summary is not made there."""
    world = busy_world()
    seen: list[bool] = []

    def plan(state: State, at: Boundary) -> Plan:
        seen.append(at.shrunk)
        return COMPACT if at.shrunk else Plan()

    world.script([failed("context_overflow"), said("NOTES"), said("done")], plans=plan)

    assert "completed" == world.run().reason
    assert [False, True, False] == seen
    assert ["step", "compaction", "step"] == [ask.purpose for ask in world.thinks]


def test_a_summary_that_somebody_asks_for_waits_as_well() -> None:
    """Between turns the same holds, each time anew; stopped while it waits, nothing has changed."""
    state = busy_world().state
    before = list(state.history)

    def asked(*answers: Any) -> Trace:
        return play(compact_now(state, 0, RULES), iter(answers))

    for _ in range(2):
        given_up = asked(failed("overloaded"), (), failed("overloaded"), (), failed("overloaded"), (), failed())
        assert given_up.end is not None
        assert ("error", before) == (given_up.end.reason, state.history)
        assert [1, 2, 3] == [fact.attempt for fact in retries([*given_up.facts])]
    stopped = asked(failed("overloaded"), Interrupted("interrupted"))
    assert stopped.end is not None
    assert ("interrupted", before) == (stopped.end.reason, state.history)
    done = asked(failed("overloaded"), (), said("NOTES"))
    assert done.end is not None
    assert "completed" == done.end.reason
    assert [Wait, Wait] == [type(each) for each in [*stopped.effects, *done.effects] if isinstance(each, Wait)]


def roomy(window: int, size: int, *, summary: int | None = 4_000) -> World:
    """A world in a turn of six equal steps, the last request of which had `size` tokens, four units each."""
    history: list[Message] = [user("the task")]
    facts: list[Fact] = [TurnStart(), MessageAdded(history[0])]
    for number in range(6):
        answer, result = assistant(calls=[look_at(f"c{number}")]), ToolResult(f"c{number}", "x" * 2_000)
        history += [answer, Message("tool", (result,))]
    system = "s" * (4 * size - units_of(history[:-2]))
    for at in range(1, len(history), 2):
        used = Usage(input=(len(system) + units_of(history[:at])) // 4, output=0)
        (result,) = history[at + 1].tool_results
        facts += [MessageAdded(history[at], used, "tool_calls"), ToolStart(result.call_id), ToolEnd(result)]
        facts.append(RoundClosed(at))
    room = Room(window, reserve=window // 4, system=system)
    rules = Rules(room=room, shrinking=Shrinking(summary_tokens_max=summary))
    world = World([said("NOTES"), said("done")], rules=rules, plans={(7, "step"): COMPACT})
    world.record(*facts)
    return world


def asked_first(world: World) -> tuple[int, int | None]:
    """Return how many messages the first request for a summary shows, and what its answer may have."""
    world.turn(resume=True)
    ask = next(ask for ask in world.thinks if ask.purpose == "compaction")
    return ask.view.length, ask.output_max


def test_a_summary_may_have_what_the_window_leaves() -> None:
    """Its limit is what was wished, less where the window leaves less: then the request still fits, with the answer."""
    assert (13, 4_000) == asked_first(roomy(16_000, 8_000))

    length, most = asked_first(roomy(16_000, 12_000))
    assert 13 == length
    assert most is not None
    assert 2_500 < most < 16_000 - 12_000 - 500


def test_where_no_limit_is_wished_one_is_set_when_it_is_close() -> None:
    """Without a limit of its own a summary has one only where the window leaves less than an answer's reserve."""
    assert (13, None) == asked_first(roomy(16_000, 8_000, summary=None))
    assert 4_000 > (asked_first(roomy(16_000, 12_000, summary=None))[1] or 10_000)


def test_where_too_little_is_left_only_what_goes_is_shown() -> None:
    """A window that leaves no room for a summary of the whole has room for one of what goes; that is told as ever."""
    world = roomy(16_000, 15_000)

    length, most = asked_first(world)

    assert length < 13
    assert most is not None
    assert 1_000 <= most <= 4_000
    assert "NOTES" == next(message.content for message in world.state.history if message.role == "summary")


def test_what_is_known_not_to_fit_is_not_asked() -> None:
    """After a change to a small model nothing is sent that would only be refused: a list of what went stands in."""
    rules = Rules(room=Room(3_000, reserve=750), shrinking=Shrinking(1, summary_tokens_max=750))
    world = World([said("done")], rules=rules)
    for number in range(12):
        question = MessageAdded(user(f"Look at {number}: " + "x" * 40_000))
        world.record(TurnStart(), question, MessageAdded(assistant("ok"), None, "end_turn"), TurnEnd("completed"))

    end = world.run(user("And now?"))

    assert "completed" == end.reason
    assert ["step"] == [ask.purpose for ask in world.thinks]
    (reset,) = world.of_type(Reset)
    assert reset.messages[0].content.startswith("Earlier: ")
    (note,) = [fact for fact in world.of_type(Observation) if fact.data["event"] == UNPREPARED]
    assert "tokens, and the window 3,000" in str(note.data["reason"])


def overflowed(steps: int, limit: int | None, *, is_told: bool = True) -> World:
    """A world in which a request of many steps is refused, at an endpoint of whose window nobody knew."""
    rules = Rules(max_steps=None, shrinking=Shrinking(keep_last_units=2, summary_tokens_max=4_000))
    refusal = failed("context_overflow", tokens=(None, limit))
    world = World([failed("overloaded"), refusal, said("NOTES"), said("done")], rules=rules)
    history: list[Message] = [user("the task")]
    facts: list[Fact] = [TurnStart(), MessageAdded(history[0])]
    for number in range(steps):
        result = ToolResult(f"c{number}", f"{number} " + "x" * 2_000)
        history += [assistant(calls=[look_at(f"c{number}")]), Message("tool", (result,))]
        used = Usage(input=units_of(history[: 2 * number + 1]) // 4, output=0)
        facts.append(MessageAdded(history[-2], used if is_told else Usage(output=1), "tool_calls"))
        facts += [ToolStart(result.call_id), ToolEnd(result)]
        facts.append(RoundClosed(2 * number + 1))
    world.record(*facts)
    return world


def test_a_refusal_says_how_much_may_be_shown() -> None:
    """Where an endpoint names its window, so much goes that its summary can be written; the rest stays as it was."""
    world = overflowed(20, 10_400)

    world.turn(resume=True)

    ask = next(ask for ask in world.thinks if ask.purpose == "compaction")
    (reset,) = world.of_type(Reset)
    assert (1, ask.view.length) == (reset.start, reset.end)
    assert "tool" != world.state.history[2].role
    assert ask.output_max is not None
    assert 1_500 > ask.output_max >= 10_400 // 16
    assert ask.output_max + units_of(world.requests[2]) / 4 < 10_400
    assert "NOTES" == reset.messages[0].content
    assert 2 < sum(message.role == "tool" for message in world.state.history) < 6
    assert_replays(world)


def test_what_is_far_too_large_is_listed_beyond_what_may_be_shown() -> None:
    """Where making room for the next request takes more than that, the notes are followed by a list of the rest."""
    world = overflowed(60, 10_400, is_told=False)

    world.turn(resume=True)

    ask = next(ask for ask in world.thinks if ask.purpose == "compaction")
    (reset,) = world.of_type(Reset)
    assert ask.view.length < reset.end
    assert reset.messages[0].content.startswith("NOTES\nEarlier: 0 user and ")
    assert 2 == sum(message.role == "tool" for message in world.state.history)
    assert_replays(world)


def test_what_was_answered_last_has_fitted() -> None:
    """Where a refusal names no number, the window is taken to be what the last answered request had."""
    world = overflowed(30, None)
    fitted = world.of_type(MessageAdded)[-1].usage.input

    world.turn(resume=True)

    ask = next(ask for ask in world.thinks if ask.purpose == "compaction")
    assert ask.output_max is not None
    assert 1_000 <= ask.output_max < fitted - units_of(world.requests[2]) // 4
    assert_replays(world)


def test_a_refusal_says_how_far_estimates_are_off() -> None:
    """An endpoint that reports nothing has still counted what it refused: what is shown is as much smaller."""
    shown = []
    for requested in (11_000, 22_000):
        world = overflowed(20, None, is_told=False)
        refusal = failed("context_overflow", tokens=(requested, 10_400))
        world.script([refusal, said("NOTES"), said("done")]).turn(resume=True)
        shown.append(next(units_of(world.requests[at]) // 4 for at, ask in enumerate(world.thinks) if at == 1))

    assert 9_000 < shown[0] < 10_400
    assert shown[1] < 5_200


def test_a_window_that_cannot_be_is_not_believed() -> None:
    """With a number that larger requests were answered beyond, all that goes is shown, as ever."""
    world = overflowed(20, 10)

    world.turn(resume=True)

    ask = next(ask for ask in world.thinks if ask.purpose == "compaction")
    assert (37, 4_000) == (ask.view.length, ask.output_max)
    assert_replays(world)


def test_without_any_number_a_part_of_what_was_refused_is_shown() -> None:
    """An endpoint that neither reports what it answers nor says what it refuses is shown less than it refused."""
    world = overflowed(20, None, is_told=False)
    world.script([failed("context_overflow"), said("NOTES"), said("done")]).turn(resume=True)

    whole, part = (units_of(request) // 4 for request in world.requests[:2])
    assert part < whole * 7 // 8
    assert "NOTES" == world.of_type(Reset)[0].messages[0].content.partition("\n")[0]
