"""P-POS: where a turn stands follows from its facts alone, so it goes on from any of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from plait.core.codec import decode_fact, encode_fact
from plait.core.facts import Fact, MessageAdded, RoundClosed, ToolEnd, TurnEnd, TurnStart
from plait.kernel.history import fault_in
from tests.helpers.programs import (
    SUSPENDED,
    Asking,
    Program,
    ProgramWorld,
    Saying,
    history_after,
    programs,
    rest_of_inputs,
)
from tests.helpers.worlds import TASK

EVERYTHING = Program(
    (
        Saying(
            "", (Asking("look", "run"), Asking("count", "rewrite"), Asking("write", "ask-yes"), Asking("nope", "run"))
        ),
        Saying("", (Asking("look", "deny"), Asking("look", "defer"), Asking("write", "fail")), failures=("timeout",)),
        Saying("", (Asking("write", "run"),), "length"),
        Saying("", failures=("overloaded", "context_overflow")),
        Saying("half an ", stop="length"),
        Saying("answer"),
    ),
    events=((2, "steer"), (6, "hook"), (3, "compact")),
    together=1,
    busy=1,
)


def is_final(fact: Fact) -> bool:
    """Say whether a fact ends the turn for good."""
    return isinstance(fact, TurnEnd) and fact.reason not in SUSPENDED


def assert_goes_on_from_everywhere(program: Program) -> int:
    """Assert that every prefix of the program's facts leads to the same history; return how many there are."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)
    expected = world.state.history
    assert fault_in(expected) is None
    for cut in range(len(world.facts) + 1):
        assert expected == history_after(world.facts[:cut], program), f"after {cut} of {len(world.facts)} facts"
    return len(world.facts)


@given(programs)
def test_a_turn_goes_on_from_every_prefix(program: Program) -> None:
    """Whatever model, tools, approver and host do: a crash after any fact changes nothing in the end."""
    assert_goes_on_from_everywhere(program)


def test_a_turn_with_everything_goes_on_from_every_prefix() -> None:
    """One turn with questions, denials, late results, cut answers, retries, an overflow and a hook, cut everywhere."""
    assert 40 < assert_goes_on_from_everywhere(EVERYTHING)


@given(programs)
def test_a_second_crash_changes_nothing_either(program: Program) -> None:
    """A turn that is resumed one fact at a time, with a crash after each, comes to the same history."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)
    expected, facts = world.state.history, []
    while not facts or not is_final(facts[-1]):
        impatient = ProgramWorld(program, facts)
        impatient.to_the_end(*rest_of_inputs(facts))
        assert expected == impatient.state.history
        facts = impatient.facts[: len(facts) + 1]
        assert len(facts) < 500


@given(programs)
def test_every_call_has_one_result(program: Program) -> None:
    """No call is run twice, none ends twice, and every round is closed; the history is valid at every request."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)

    assert {1} >= set(world.ran.values())
    ends = Counter(fact.result.call_id for fact in world.of_type(ToolEnd))
    calls = {call.id for message in world.state.history for call in message.tool_calls}
    assert {1} >= set(ends.values())
    assert calls <= set(ends)
    assert len(world.of_type(RoundClosed)) == sum(bool(fact.message.tool_calls) for fact in world.of_type(MessageAdded))


@given(programs)
def test_turns_begin_and_end_in_pairs(program: Program) -> None:
    """Every turn that began has ended, whatever happened in it."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)

    assert not world.state.in_turn
    assert len(world.of_type(TurnStart)) == len(world.of_type(TurnEnd))


@given(programs)
def test_the_facts_of_a_turn_come_back_from_their_text(program: Program) -> None:
    """Everything a turn records can be written and read."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)

    assert world.facts == [decode_fact(*encode_fact(fact)) for fact in world.facts]
