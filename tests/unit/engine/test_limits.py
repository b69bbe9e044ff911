"""Limits of turns and sessions, exact at their boundaries."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from plait.core.errors import AgentSpecInvalidError, LimitReached
from plait.core.facts import MessageAdded, Reset, ToolStart, TurnEnd, TurnStart
from plait.core.messages import ToolCall, assistant
from plait.core.usage import Usage
from plait.engine.agent import Agent
from plait.engine.approval import AutoApprover
from plait.engine.limits import Limits, SessionLimits, check, refusal_of_call, spent
from plait.engine.spec import default_specification
from plait.engine.spec_limits import limits_of_spec
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.state import fold
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Fail, Say, ScriptedModel
from plait.testing.clock import VirtualClock

CENT = Decimal("0.01")
USED = {"input": 100, "output": 5, "cost": CENT, "cache_read": 0}
SPEC = default_specification("m", "http://127.0.0.1:1/v1")


def steps(count: int, usage: Any = USED) -> list[Say]:
    """So many answers that call a tool, and one that does not."""
    asking = [Say(calls=[Call("look", {"at": number}, id=f"c{number}")], usage=usage) for number in range(count)]
    return [*asking, Say("done", usage=usage)]


def look(at: int) -> str:
    """Look somewhere."""
    return f"seen {at}"


@pytest.mark.parametrize(
    "name, value, requests, is_stopped",
    [
        ("max_steps", 2, 2, True),
        ("max_steps", 3, 3, False),
        ("max_steps", 4, 3, False),
        ("max_input_tokens", 199, 2, True),
        ("max_input_tokens", 200, 2, True),
        ("max_input_tokens", 201, 3, False),
        ("max_cost", CENT * 2 - Decimal("1e-12"), 2, True),
        ("max_cost", CENT * 2, 2, True),
        ("max_cost", CENT * 2 + Decimal("1e-12"), 3, False),
        ("max_cost", Decimal(0), 0, True),
        ("max_wall_s", 19.0, 2, True),
        ("max_wall_s", 20.0, 2, True),
        ("max_wall_s", 21.0, 3, False),
    ],
)
def test_a_limit_is_exact(name: str, value: Any, requests: int, is_stopped: bool) -> None:
    """Below the limit the next request is made, at it and above none is; a turn that has its answer is completed."""
    clock = VirtualClock()
    made: list[int] = []

    def slow(at: int) -> str:
        """Look somewhere."""
        clock.advance(10)
        made.append(at)
        return f"seen {at}"

    with ScriptedModel(steps(2)[:requests]) as model:
        result = Agent(model, [Tool("look", "Look.", slow)], limits=Limits(**{name: value}), clock=clock).run("go")

    assert ("limit" if is_stopped else "completed", requests) == (result.status, len(model.requests))
    if is_stopped:
        assert isinstance(result.error, LimitReached)
        assert str(result).startswith(("Stopped: budget exceeded (", "Stopped: reached max iterations ("))
        if name in ("max_input_tokens", "max_cost"):
            # What the last answer asked for is not begun once everything is spent.
            assert list(range(max(0, requests - 1))) == made


@pytest.mark.parametrize("is_overflow", [False, True])
@pytest.mark.parametrize("value, is_stopped", [(899, True), (900, True), (901, False)])
def test_a_summary_counts_before_the_next_request(value: int, is_overflow: bool, is_stopped: bool) -> None:
    """What a summary used is used: at the limit the step that it was made for is not asked, whoever wanted it made."""
    bulky = Tool("look", "Look.", lambda at: f"{at}: " + "x" * 4_000, parameters={"type": "object"})
    looks = steps(4)[:4]
    failure = [Fail("context_overflow")] if is_overflow else []
    notes, done = Say("Notes.", usage={**USED, "input": 500}), Say("done", usage=USED)
    shrinking = Shrinking(trigger_tokens=0 if is_overflow else 4_000, keep_last_units=1)
    with ScriptedModel([*looks, *failure, notes, *([] if is_stopped else [done])]) as model:
        limits, rules = Limits(max_input_tokens=value), Rules(shrinking=shrinking)
        result = Agent(model, [bulky], limits=limits, rules=rules).run("go")

    assert ("limit" if is_stopped else "completed") == result.status
    assert 900 == result.usage.input_tokens - (0 if is_stopped else 100)


@pytest.mark.parametrize("value, requests", [(3, 3), (4, 4), (5, 5)])
def test_a_session_has_limits_of_its_own(value: int, requests: int) -> None:
    """What all turns spent together counts, in the turn in which it is reached and in every later one."""
    per: list[tuple[Limits, str]] = [
        (Limits(max_steps=None, session=SessionLimits(max_steps=value)), "steps"),
        (Limits(max_steps=None, session=SessionLimits(max_input_tokens=value * 100)), "input tokens"),
        (Limits(max_steps=None, session=SessionLimits(max_cost=value * CENT)), "cost"),
    ]
    for limits, word in per:
        with (
            ScriptedModel([*steps(1), *steps(2)][:requests]) as model,
            init_session(SPEC, limits=limits, tools=[Tool("look", "Look.", look)], durable=False) as session,
        ):
            first = run_turn(model, "m", session, "one")
            second = run_turn(model, "m", session, "two")
            third = run_turn(model, "m", session, "three") if value < 5 else None

        assert ("completed", requests) == (first.status, len(model.requests)), word
        assert ("limit" if value < 5 else "completed") == second.status
        if third is not None:
            assert "limit" == third.status
            assert isinstance(third.error, LimitReached)
            assert third.error.message.startswith("budget of the session exceeded (")
            assert word in third.error.message


def test_a_session_counts_anew_when_it_is_cleared() -> None:
    """A cleared session has its limits before it again."""
    answer = MessageAdded(assistant("x"), Usage(100, 5, cost=CENT))
    limits = Limits(max_steps=None, session=SessionLimits(max_steps=2, max_input_tokens=200, max_wall_s=9))
    state = fold((TurnStart(), answer, TurnEnd("completed"), TurnStart(), answer))

    assert check(state, limits, 1.0) is not None
    assert check(state, limits, 1.0, 8.0) is not None
    state.apply(Reset(0, 2, (), "clear"))
    assert check(state, limits, 1.0) is None
    assert "9 of 9 seconds" in str(check(state, limits, 1.0, 8.0))
    state.apply(answer)
    state.apply(TurnEnd("completed"))
    state.apply(TurnStart())
    assert 1 == state.steps_before
    assert check(state, limits, 1.0) is None


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("most, ran", [(3, 3), (4, 4), (5, 4)])
def test_so_many_calls_are_run_and_no_more(most: int, ran: int, is_async: bool) -> None:
    """X90: calls up to the limit run, side by side or not; one more is answered unrun, and ends the turn."""
    made: list[int] = []

    def note(at: int) -> str:
        """Look somewhere."""
        made.append(at)
        return f"seen {at}"

    calls = [Call("look", {"at": number}, id=f"c{number}") for number in range(4)]
    script = [Say(calls=[calls[0]]), Say(calls=calls[1:]), "done"]
    with ScriptedModel(script if most > 3 else script[:2]) as model:
        tool = Tool("look", "Look.", note, parallel_safe=True)
        agent = Agent(model, [tool], limits=Limits(max_tool_calls=most))
        result = asyncio.run(agent.arun("go")) if is_async else agent.run("go")

    assert (ran, list(range(ran))) == (len(made), sorted(made))
    if most == 3:
        told = [each.content for message in result.messages for each in message.tool_results]
        assert "Not run: budget exceeded (3 of 3 tool calls)." == told[-1]
        assert ("limit", "Stopped: budget exceeded (3 of 3 tool calls)") == (result.status, str(result))
    else:
        assert "completed" == result.status


def test_a_call_that_was_denied_is_not_counted() -> None:
    """What the approver refuses has not been run; what a resumed turn has started before is counted."""
    with ScriptedModel(
        [Say(calls=[Call("act", id="a"), Call("act", id="b")]), Say(calls=[Call("look", {"at": 1})]), "x"]
    ) as model:
        tools = [Tool("look", "Look.", look), Tool("act", "Act.", lambda: "", mutates=True)]
        agent = Agent(model, tools, approver=AutoApprover(ask_default=False), limits=Limits(max_tool_calls=1))
        assert "completed" == agent.run("go").status

    asked = assistant(calls=[ToolCall("c0", "look"), ToolCall("c1", "look")])
    state = fold((TurnStart(), MessageAdded(asked), ToolStart("c0")))
    assert (1, None) == (state.calls, refusal_of_call(state, Limits(max_tool_calls=2), {"c0", "old"}))
    assert refusal_of_call(state, Limits(max_tool_calls=2), {"c0", "c1"}) is not None
    assert refusal_of_call(state, Limits(max_tool_calls=1), set()) is not None


def test_calls_of_the_last_step_are_run() -> None:
    """A limit of steps is one of answers: what the last of them asks for is done."""
    state = fold((TurnStart(), MessageAdded(assistant("x"), Usage(1, 1))))
    limits = Limits(session=SessionLimits(max_steps=1))

    assert spent(state, limits, 0.0) is None
    assert check(state, limits, 0.0) is not None


@pytest.mark.parametrize(
    "usage, said",
    [
        ({"input": 100, "output": 5, "cache_read": 0}, "nobody says what the last answer cost"),
        ({"input": 100, "output": 5, "cost": CENT, "currency": "EUR"}, "the cost is told in EUR"),
    ],
)
def test_a_cost_that_is_not_known_is_not_taken_for_none(usage: Any, said: str) -> None:
    """With a limit of money the turn ends after the first answer of unknown cost, and says why and what to do."""
    with ScriptedModel(steps(2, usage)[:1]) as model:
        limited = Agent(model, [Tool("look", "Look.", look)], limits=Limits(max_cost=Decimal(5), currency="USD"))
        result = limited.run("go")

    assert ("limit", "cost_unknown", 1) == (result.status, result.reason, len(model.requests))
    assert isinstance(result.error, LimitReached)
    assert said in result.error.message
    assert "prices.json" in result.error.hint


def test_without_a_limit_of_money_no_cost_is_needed() -> None:
    """Whoever sets no limit of money is not stopped for want of a price."""
    with ScriptedModel(steps(2, {"input": 1, "output": 1})) as model:
        assert "completed" == Agent(model, [Tool("look", "Look.", look)]).run("go").status


def test_a_spec_has_limits() -> None:
    """A spec's limits are those of its sessions, turn and session alike; given ones take their place."""
    told = {"max_steps": 1, "max_cost_usd": 0.1, "max_wall_seconds": 9, "max_tool_result_tokens": 0}
    spec = SPEC | {"limits": {**told, "session": {"max_input_tokens": 7}}}
    tools = [Tool("look", "Look.", look)]

    with ScriptedModel(steps(1)[:1]) as model, init_session(spec, tools=tools, durable=False) as session:
        assert "reached max iterations (1 step)" in str(run_turn(model, "m", session, "go").error)
    with (
        ScriptedModel(steps(1)) as model,
        init_session(spec, tools=tools, durable=False, limits=Limits()) as session,
    ):
        assert "completed" == run_turn(model, "m", session, "go").status

    assert Limits(
        max_steps=1,
        max_tool_result_tokens=0,
        max_cost=Decimal("0.1"),
        max_wall_s=9,
        currency="USD",
        session=SessionLimits(max_input_tokens=7),
    ) == limits_of_spec(spec, Limits())
    assert Limits() == limits_of_spec(SPEC, Limits())


@pytest.mark.parametrize(
    "limits, said",
    [
        ({"max_step": 1}, "did you mean 'max_steps'"),
        ({"zzz": 1}, "the limits are: max_steps,"),
        ({"max_steps": 0}, "a whole number from 1"),
        ({"max_steps": True}, "a whole number from 1"),
        ({"max_cost_usd": -1}, "a number from 0"),
        ({"max_cost_usd": "1"}, "a number from 0"),
        ({"max_tool_result_tokens": -1}, "a whole number from 0"),
        ({"session": 5}, "an object of limits"),
        ({"session": {"session": {}}}, "'limits.session.session'"),
        ({"session": {"max_steps": 0}}, "'limits.session.max_steps' = 0"),
    ],
)
def test_a_limit_that_is_none_is_told_with_its_place(limits: Any, said: str) -> None:
    """A misspelt limit, or one that cannot be, is refused before anything begins."""
    with pytest.raises(AgentSpecInvalidError) as caught:
        init_session(SPEC | {"limits": limits}, durable=False)

    assert said in f"{caught.value.message}; {caught.value.hint}"


@pytest.mark.parametrize("kind", [Limits, SessionLimits])
def test_a_limit_that_is_no_number_is_refused(kind: Any) -> None:
    """Not a number, less than nothing and no end are told at once."""
    for value in (Decimal(-1), Decimal("NaN"), Decimal("Infinity")):
        with pytest.raises((ValueError, ArithmeticError)):
            kind(max_cost=value)
    with pytest.raises(ValueError, match="max_input_tokens must be at least 1"):
        kind(max_input_tokens=0)
