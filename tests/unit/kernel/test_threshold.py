"""When history is summarised before a request: at one size, and not again and again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from plait.core.exchange import Reply
from plait.core.facts import MessageAdded, Observation, Reset
from plait.core.messages import Message, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.kernel.budget import Room, estimate
from plait.kernel.effects import Boundary, Compact, Plan, Replace, Think
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.state import PATIENCE_MAX, PATIENCE_MIN, State
from plait.kernel.threshold import TRIGGER_TOKENS, is_due, trigger_of
from tests.helpers.worlds import SPENT, TASK, World, failed, look_at, said

COMPACT = Plan(compact=Compact())


def rules_of(trigger: int | None, room: Room | None = None, *, keep: int = 1) -> Rules:
    shrinking = Shrinking(keep_last_turns=keep, kept_tokens_max=1_000, trigger_tokens=trigger)
    return Rules(max_steps=None, shrinking=shrinking, room=room)


@pytest.mark.parametrize(
    "trigger, room, expected",
    [
        (None, None, TRIGGER_TOKENS),
        (None, Room(16_000, reserve=4_000), 12_000),
        (None, Room(16_000, reserve=500), 15_000),
        (None, Room(400_000, reserve=4_000), TRIGGER_TOKENS),
        (None, Room(None, usual=32_000, reserve=2_000), 30_000),
        (None, Room(100, reserve=200), 1),
        (7, Room(16_000, reserve=4_000), 7),
        (0, Room(16_000), 0),
    ],
)
def test_the_size_is_what_was_said_or_what_the_window_leaves(
    trigger: int | None, room: Room | None, expected: int
) -> None:
    """A number that was given counts; else a hundred thousand, or the window without the answer's room and a spare."""
    assert expected == trigger_of(rules_of(trigger, room))


def steps(world_steps: int, tokens: int, answer: str = "notes") -> World:
    """A world whose tools bring so many tokens a step, and whose provider counts four characters as one."""
    results = {f"c{number}": "x" * (4 * tokens) for number in range(world_steps)}

    def reply(state: State, ask: Think) -> Reply:
        size = estimate(state, Room(None)).tokens
        if ask.purpose == "compaction":
            return Reply(assistant(answer), "end_turn", Usage(size, 5))
        message = assistant(calls=[look_at(f"c{state.steps}")]) if state.steps < world_steps else assistant("done")
        return Reply(message, "tool_calls" if message.tool_calls else "end_turn", Usage(size, 5))

    return World(reply, results=results)


def play(world: World, rules: Rules) -> tuple[list[int], list[int]]:
    """Play a turn as a host does; return the sizes of the requests, and at which steps history was summarised."""
    sizes: list[int] = []

    def plan(state: State, at: Boundary) -> Plan:
        if at.phase == "step" and not at.shrunk and is_due(state, rules):
            return COMPACT
        if at.phase == "step":
            sizes.append(estimate(state, Room(None)).tokens)
        return Plan()

    world.rules, world._plans = rules, plan
    assert "completed" == world.run().reason
    summarised, answers = [], 0
    for fact in world.facts:
        answers += isinstance(fact, MessageAdded) and fact.message.role == "assistant"
        if isinstance(fact, Reset):
            summarised.append(answers)
    return sizes, summarised


def test_the_threshold_does_not_climb() -> None:
    """In one turn with one question no request passes the size by more than a step, however often it was met."""
    world = steps(200, 500)

    sizes, summarised = play(world, rules_of(10_000))

    assert 8 <= len(summarised) <= 13
    assert max(sizes) < 10_500
    assert all(TASK in request for request in world.requests)
    assert 1 == sum(message.role == "summary" for message in world.state.history)


def test_what_fills_up_at_once_is_not_summarised_at_every_step() -> None:
    """Where each step is as large as the threshold, more and more answers come between two summaries."""
    _, summarised = play(steps(200, 12_000), rules_of(10_000))

    gaps = [after - before for before, after in pairwise(summarised)]
    assert gaps == sorted(gaps)
    assert (PATIENCE_MIN, 2 * PATIENCE_MIN, PATIENCE_MAX) == (gaps[0], gaps[1], gaps[-1])
    assert len(summarised) <= 8


def test_what_gains_nothing_is_not_tried_at_every_step() -> None:
    """A summary that is longer than what it stands for is not applied, and is not asked for again at once."""
    world = steps(40, 500, answer="N" * 1_000_000)

    _, summarised = play(world, rules_of(3_000))

    assert all(fact.is_skipped for fact in world.of_type(Reset))
    assert 2 <= len(summarised) <= 5


def test_a_model_that_writes_none_is_not_asked_at_every_step() -> None:
    """A try that cost nothing and came to nothing is recorded, too: it is what the next one waits for."""
    world = World([failed("auth"), said("done")], plans={(1, "step"): COMPACT})
    world.rules = Rules(shrinking=Shrinking(keep_last_units=1))
    world.record(Reset(0, 0, (user("a"), assistant("b"), user("c"), assistant("d")), "restored"))
    world.run(user("e"))

    (_, skipped) = world.of_type(Reset)
    assert ("compaction_skipped", None, 1) == (skipped.why, skipped.usage, world.state.since_shrink)
    assert ["compaction_preparation_skipped"] == [note.data["event"] for note in world.of_type(Observation)]


def test_a_report_counts_whatever_the_text_looks_like() -> None:
    """What the provider says of the last request meets the threshold, even if nobody would have guessed it."""
    state = State()
    state.history = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    state.gauge.note(3, Usage(1_200, 1))

    assert is_due(state, rules_of(1_200))
    assert not is_due(state, rules_of(1_300))
    assert not is_due(state, rules_of(0))
    state.history = state.history[:1]
    assert not is_due(state, rules_of(1_200))


@given(st.integers(0, 3_000), st.integers(1, 4_000), st.booleans())
def test_the_quick_answer_is_the_exact_one(words: int, trigger: int, has_report: bool) -> None:
    """That most histories are far from the threshold is seen without counting them; it is never wrong."""
    state = State()
    state.history = [user("t"), assistant("w" * words), user("x"), assistant("y" * words), user("z" * words)]
    if has_report:
        state.gauge.note(3, Usage(10 + words // 4, 1))

    size = estimate(state, Room(None)).tokens
    newest = state.gauge.newest
    assert is_due(state, rules_of(trigger)) == (size >= trigger or (newest is not None and newest.input >= trigger))


def test_the_host_is_asked_once_more_after_a_summary() -> None:
    """What else is to be done at a boundary is about what is left; a summary is made once a step at most."""
    ids = [f"h{number}" for number in range(4)]
    world = World([*[said(look_at(each)) for each in ids], said("one")], results=dict.fromkeys(ids, "x" * 300))
    world.run()
    seen: list[tuple[bool, int]] = []

    def plan(state: State, at: Boundary) -> Plan:
        if at.phase == "final":
            return Plan()
        seen.append((at.shrunk, len(state.history)))
        length = len(state.history)
        return Plan(compact=Compact(), replace=Replace(length, length, (), "nothing") if at.shrunk else None)

    world.script([said("NOTES"), said("two")], plans=plan)
    world.run()

    assert [(False, 11), (True, 7)] == seen
    assert ["compaction", "step"] == [ask.purpose for ask in world.thinks]
    assert ["compaction", "nothing"] == [fact.why for fact in world.of_type(Reset)]


def test_a_cut_summary_has_the_list_beside_it() -> None:
    """What was cut off has not come to its end: what is known without a model stands behind it."""
    rounds = [part for number in range(6) for part in (assistant(calls=[look_at(f"c{number}")]), _result(number))]
    world = World([said("half a", "length"), said("done")], plans={(1, "step"): COMPACT})
    world.record(Reset(0, 0, (user("first"), *rounds), "restored", SPENT))

    world.run()

    (summary,) = (message for message in world.state.history if message.role == "summary")
    assert summary.content.startswith("half a\nEarlier: 1 user and 3 assistant messages.")


def test_the_whole_is_asked_about_first_and_then_what_goes() -> None:
    """Where the request for a summary does not fit, what is kept is left out of it; both are paid for, and told."""
    rounds = [part for number in range(6) for part in (assistant(calls=[look_at(f"c{number}")]), _result(number))]
    overflow = failed("context_overflow", usage=SPENT)
    world = World([overflow, said("short"), said("done")], plans={(1, "step"): COMPACT})
    world.record(Reset(0, 0, (user("first"), *rounds), "restored"))

    world.run()

    reset = world.of_type(Reset)[-1]
    assert (SPENT + SPENT, [1, 2]) == (reset.usage, [ask.attempt for ask in world.thinks[:2]])
    assert len(world.requests[0]) > len(world.requests[1])
    (note,) = world.of_type(Observation)
    assert {"event": "compaction_retry", "keep": len(world.requests[0]) - len(world.requests[1])} == note.data


def _result(number: int) -> Message:
    return Message("tool", (ToolResult(f"c{number}", "y" * 300),))
