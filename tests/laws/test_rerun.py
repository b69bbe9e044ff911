"""What was recorded is what the loop of today would record: a journal proves it, or shows the first difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from plait.core.facts import Fact, MessageAdded, Observation, RoundClosed, ToolEnd, TurnEnd
from plait.core.messages import user
from plait.kernel.effects import Think
from plait.kernel.rerun import Rerun, rerun
from plait.kernel.state import fold
from tests.helpers.programs import Program, ProgramWorld, programs
from tests.helpers.worlds import TASK
from tests.laws.test_positions import EVERYTHING


def fingerprint(ask: Think, seq: int = 0) -> str:
    """A digest that knows everything a request is made of."""
    return repr([message.to_dict() for message in ask.view.messages])


def with_digests(facts: list[Fact]) -> list[Fact]:
    """Add to each answer the digest of the request that it answers, as a model that tells would have."""
    told: list[Fact] = []
    for index, fact in enumerate(facts):
        if isinstance(fact, MessageAdded) and fact.message.role == "assistant" and fact.usage is not None:
            fact = replace(fact, sent=fingerprint(Think(fold(facts[:index]).view())))
        told.append(fact)
    return told


def again(facts: list[Fact], world: ProgramWorld) -> Rerun:
    """Run the facts of a world again."""
    return rerun(facts, world.tools, world.rules, fingerprint)


def played(program: Program) -> ProgramWorld:
    """Play a program to its end."""
    world = ProgramWorld(program)
    world.to_the_end(TASK)
    return world


@given(programs)
def test_a_conversation_comes_out_the_same(program: Program) -> None:
    """Whatever happened in it: the loop records the same facts, and every request is the one that was sent."""
    world = played(program)
    told = again(with_digests(world.facts), world)
    assert told.difference is None
    answers = [fact for fact in world.of_type(MessageAdded) if fact.usage is not None]
    assert (len(answers), len(answers)) == (told.requests, told.proved)
    # What an approver rewrote so that it could not run is not in the log.
    breaks = any(asking.fate == "break" for saying in program.sayings for asking in saying.calls)
    assert breaks or 0 == told.followed


@given(programs, st.data())
def test_a_log_may_end_anywhere(program: Program, data: st.DataObject) -> None:
    """A process that died leaves a log that agrees as far as it goes."""
    world = played(program)
    facts = with_digests(world.facts)
    assert again(facts[: data.draw(st.integers(0, len(facts)))], world).difference is None


def test_a_log_may_end_after_every_fact() -> None:
    """The same for one turn with everything in it, cut everywhere, and with observations between the facts."""
    world = played(EVERYTHING)
    facts = [each for fact in with_digests(world.facts) for each in (fact, Observation("note"))]
    for count in range(len(facts)):
        assert again(facts[:count], world).difference is None


def test_another_request_is_the_first_difference() -> None:
    """A question that would be put differently today is named with its place, before anything that follows from it."""
    world = played(EVERYTHING)
    facts = with_digests(world.facts)
    changed = [user("another") if fact.message == TASK else None for fact in facts if isinstance(fact, MessageAdded)]
    at = next(index for index, fact in enumerate(facts) if isinstance(fact, MessageAdded))
    assert changed[0] is not None
    facts[at] = MessageAdded(changed[0])

    difference = again(facts, world).difference

    assert difference is not None
    assert isinstance(difference.recorded, MessageAdded)
    assert "assistant" == difference.recorded.message.role
    assert difference.ask is not None
    assert ["another"] == [message.content for message in difference.ask.view.messages]
    assert difference.made != difference.recorded.sent


@pytest.mark.parametrize("where", [ToolEnd, RoundClosed, TurnEnd])
def test_another_fact_is_the_first_difference(where: type[Fact]) -> None:
    """Where the loop would record something else than what was, both are told, with the place in the log."""
    world = played(EVERYTHING)
    at = max(index for index, fact in enumerate(world.facts) if isinstance(fact, where))
    facts = [*world.facts[:at], MessageAdded(user("never said", mark="guard")), *world.facts[at + 1 :]]

    difference = again(facts, world).difference

    assert difference is not None
    assert at <= difference.seq <= at + 2


def test_other_rules_are_told() -> None:
    """A limit that is lower today ends the turn where the log goes on."""
    world = played(EVERYTHING)
    told = rerun(world.facts, world.tools, replace(world.rules, max_steps=1), fingerprint)
    assert told.difference is not None
    assert 1 == told.requests
