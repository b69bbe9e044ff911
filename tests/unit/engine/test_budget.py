"""One budget for several agents, and the kernel face's guard of a run."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.cancel import Cancel
from plait.core.errors import LimitReached
from plait.core.exchange import ProviderFailed
from plait.core.facts import MessageAdded, TurnStart
from plait.core.messages import assistant, user
from plait.core.usage import Usage
from plait.engine.agent import Agent
from plait.engine.budget import Budget
from plait.engine.budget_guard import BudgetGuard
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.engine.limits import Limits
from plait.engine.purse import Worst, _Teller
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Options, Setup
from plait.kernel.state import fold
from plait.kernel.tools import Tool
from plait.models.prices import Price, with_cost
from plait.testing import Call, Fail, Say, ScriptedModel

CENT = Decimal("0.01")
USED = {"input": 100, "output": 5, "cost": CENT, "cache_read": 0}
SMALL = Worst(10, 10, CENT)


def look(at: int) -> str:
    """Look somewhere."""
    return f"seen {at}"


TOOLS = [Tool("look", "Look.", look)]


def steps(count: int, usage: Any = USED) -> list[Say]:
    """So many answers that call a tool, and one that does not."""
    asking = [Say(calls=[Call("look", {"at": number}, id=f"c{number}")], usage=usage) for number in range(count)]
    return [*asking, Say("done", usage=usage)]


@pytest.mark.parametrize(
    "most, requests",
    [
        ({"max_steps": 3}, 3),
        ({"max_steps": 4}, 4),
        ({"max_steps": 5}, 4),
        ({"max_cost": "0.029"}, 3),
        ({"max_cost": "0.03"}, 3),
        ({"max_cost": "0.031"}, 4),
        ({"max_input_tokens": 299}, 3),
        ({"max_input_tokens": 300}, 3),
        ({"max_input_tokens": 301}, 4),
        ({"max_tokens": 315}, 3),
        ({"max_tokens": 316}, 4),
        ({"max_cost": 0}, 0),
    ],
)
def test_a_shared_budget_is_exact(most: Any, requests: int) -> None:
    """Two agents spend from one budget: at its limit nothing more is begun by either, below it everything is."""
    budget, results = Budget(**most), []
    made = 0
    for _ in range(2):
        with ScriptedModel(steps(1), allow_unused=True) as model:
            results.append(Agent(model, TOOLS, limits=Limits(budget=budget)).run("go"))
        made += len(model.requests)

    assert (requests, 0) == (made, budget.held)
    assert ("completed" if requests == 4 else "limit") == results[1].status
    if requests < 4:
        assert isinstance(results[1].error, LimitReached)
        assert results[1].error.message.startswith("shared budget exceeded (")
        assert "fewer agents" in results[1].error.hint or "raise the limit" in results[1].error.hint
    assert requests == budget.steps


def test_agents_side_by_side_cannot_spend_the_same_money() -> None:
    """However many run at once, in threads and in an event loop, together they stop at the limit."""
    budget = Budget(max_cost="0.10")
    limits, made = Limits(budget=budget), list[int]()

    def work(_: int = 0) -> None:
        with ScriptedModel(steps(5), allow_unused=True) as model:
            Agent(model, TOOLS, limits=limits).run("go")
        made.append(len(model.requests))

    async def aworks() -> None:
        async def one() -> None:
            with ScriptedModel(steps(5), allow_unused=True) as model:
                await Agent(model, TOOLS, limits=limits).arun("go")
            made.append(len(model.requests))

        await asyncio.gather(*(one() for _ in range(4)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(aworks())
    for thread in threads:
        thread.join(30)

    assert (10, 10, CENT * 10, 0) == (sum(made), budget.steps, budget.used.cost, budget.held)


amounts = st.integers(1, 60)


@given(st.integers(1, 200), st.lists(st.tuples(amounts, amounts), max_size=12))
def test_what_is_set_aside_is_never_more_than_there_is(most: int, asked: list[tuple[int, int]]) -> None:
    """Whatever runs side by side, what is spent stays below the limit but for one request; all is given back, once."""
    budget, held, spent, largest = Budget(max_input_tokens=most), [], 0, 0
    for worst, used in asked:
        used = min(worst, used)
        try:
            ticket = budget._take(Worst(worst, 0, None), lambda: None)
        except Interrupted:
            assert spent >= most
            break
        if ticket is None:
            first, small = held.pop(0)
            budget.settle(first, Usage(small, 0))
            spent, largest = spent + small, max(largest, small)
        else:
            held.append((ticket, used))
        assert sum(ticket.amounts["input tokens"] for ticket, _ in held) <= max(0, most - spent)
    for ticket, used in held:
        budget.settle(ticket, Usage(used, 0))
        budget.settle(ticket, Usage(used, 0))
        spent, largest = spent + used, max(largest, used)

    assert (0, spent) == (budget.held, budget.used.input_tokens)
    assert spent < most + max(largest, 1)


def test_who_needs_more_than_is_left_waits_for_the_others_and_runs_alone() -> None:
    """A large request waits while a small one is under way, is woken when that ends, and then holds everything."""
    budget, cancel = Budget(max_cost="1"), Cancel()
    small = budget.reserve(SMALL, cancel)
    large: list[Any] = []
    waiting = threading.Thread(target=lambda: large.append(budget.reserve(Worst(1, None, None), cancel)))
    waiting.start()
    assert budget.held == 1

    budget.settle(small, Usage(1, 1, cost=CENT))
    waiting.join(30)

    assert (1, Decimal("0.99")) == (budget.held, large[0].amounts["cost"])
    told = Cancel()
    told.cancel("timeout")
    with pytest.raises(Interrupted, match="timeout"):
        budget.reserve(SMALL, told)
    assert [] == budget._waiting


def test_a_task_that_is_cancelled_while_it_waits_holds_nothing() -> None:
    """Waiting in an event loop ends with the task, with a cancel from outside, and with what it waits for."""

    async def main() -> None:
        budget, cancel = Budget(max_steps=1), Cancel()
        ticket = await budget.areserve(SMALL, cancel)
        given_up = asyncio.create_task(budget.areserve(SMALL, cancel))
        told, other = Cancel(), Cancel()
        stopped = asyncio.create_task(budget.areserve(SMALL, told))
        patient = asyncio.create_task(budget.areserve(SMALL, other))
        await asyncio.sleep(0)
        given_up.cancel()
        told.cancel("interrupted")
        with pytest.raises(asyncio.CancelledError):
            await given_up
        with pytest.raises(Interrupted):
            await stopped
        budget.settle(ticket, None)
        assert await patient is not None
        assert (1, 0, []) == (budget.held, budget.steps, budget._waiting)

    asyncio.run(main())


def test_a_request_that_fails_gives_back_what_was_set_aside() -> None:
    """A failure, a crash of the model and an answer alike leave nothing set aside."""
    budget = Budget(max_cost=1)
    limits = Limits(budget=budget)
    failed = ProviderFailed("bad_request", "no", usage=Usage(7, 0, cost=CENT))

    with ScriptedModel([Fail("bad_request")]) as model:
        assert "error" == Agent(model, limits=limits).run("go").status
    with ScriptedModel([]) as model:
        broken: Any = model
        broken.open = lambda setup: _Broken(failed)
        assert "error" == Agent(model, limits=limits).run("go").status
        broken.open = lambda setup: _Broken(RuntimeError("bug"))
        with pytest.raises(RuntimeError, match="bug"):
            Agent(model, limits=limits).run("go")

    assert (0, 1, CENT) == (budget.held, budget.steps, budget.used.cost)


class _Broken:
    """A line on which every request fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def think(self, *_: object) -> None:
        raise self._error

    def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    "usage, said", [({"input": 1, "output": 1}, "nobody says"), ({**USED, "currency": "EUR"}, "EUR")]
)
def test_a_cost_that_nobody_tells_ends_everything(usage: Any, said: str) -> None:
    """With a budget of money one answer of unknown cost is the last one of all who share it."""
    budget = Budget(max_cost=5)
    with ScriptedModel(steps(1, usage)[:1]) as model:
        first = Agent(model, TOOLS, limits=Limits(budget=budget)).run("go")
    with ScriptedModel([]) as model:
        second = Agent(model, TOOLS, limits=Limits(budget=budget)).run("go")

    assert ("cost_unknown", "cost_unknown") == (first.reason, second.reason)
    assert said in str(second.error)


def test_the_worst_case_of_a_request() -> None:
    """Two bytes a token, the dearest of cached and fresh input, and the longest answer there may be."""

    class Priced:
        """A model whose prices are known."""

        name, context_window = "m", 1_000

        def counted(self, usage: Usage) -> Usage:
            """Return it with its cost; what goes into a cache is dearer."""
            return with_cost(usage, Price(Decimal(1), Decimal(10), Decimal(0), Decimal(2)))

    state, asked = fold((TurnStart(), MessageAdded(user("w" * 384)))), Options(max_output_tokens=50)
    model: Any = Priced()
    teller = _Teller(model, Setup(options=asked), Budget())
    longest = _Teller(model, Setup("s" * 5_000), Budget())

    assert Worst(200, 50, Decimal("0.0009")) == teller.worst(Think(state.view()))
    state.apply(MessageAdded(assistant("w" * 84), Usage(1, 1), "end_turn"))
    assert 250 == teller.worst(Think(state.view())).input
    assert Worst(1_000, 0, Decimal("0.002")) == longest.worst(Think(state.view()))
    model.context_window = None
    assert Worst(2_750, None, None) == longest.worst(Think(state.view()))


@pytest.mark.parametrize("most", [{"max_cost": -1}, {"max_cost": "inf"}, {"max_steps": -1}])
def test_a_budget_that_is_none_is_refused(most: Any) -> None:
    """Less than nothing and no end are no budgets."""
    with pytest.raises(ValueError, match="is none"):
        Budget(**most)


@pytest.mark.parametrize(
    "guard, requests, said",
    [
        ({"max_input_tokens": 1}, 1, "100 of 1 input tokens"),
        ({"max_input_tokens": 200}, 3, "300 of 200 input tokens"),
        ({"max_input_tokens": 300}, 4, ""),
        ({"max_cost_usd": 0.02}, 3, "cost 0.03 of 0.02"),
        ({"max_cost_usd": 0.03}, 4, ""),
        ({"max_cost_usd": 0, "max_input_tokens": 1}, 1, "input tokens"),
    ],
)
def test_the_guard_of_a_run(guard: Any, requests: int, said: str) -> None:
    """I2: what is exceeded stops the answer's calls, an answer without calls is returned, sums begin anew each run."""
    made = BudgetGuard(**guard)
    with ScriptedModel(steps(3)[:requests]) as model:
        agent, telemetry, _ = build_runtime(Config(working_dir="."), model=model, budget=made)
        result = agent.run("go")
        telemetry.close()

    assert ("limit" if said else "completed", said in str(result)) == (result.status, True)
    assert (requests * 100, requests * CENT) == (made.total_usage.input_tokens, made.total_cost)
    made.begin()
    assert (0, 0) == (made.total_usage.input_tokens, made.total_cost)


def test_the_guard_takes_prices() -> None:
    """A price that the guard was given counts where nobody else has one; without any, an unknown cost stops the run."""
    known = BudgetGuard(max_cost_usd=1, model="m", prices={"m": Price(Decimal(3), Decimal(15))})
    unknown = BudgetGuard(max_cost_usd=1)
    for guard in (known, unknown):
        guard.add(Usage(1_000_000, 0))

    assert ("budget exceeded (cost 3 of 1)", None) == (known.stop() and known.stop().detail, unknown.exceeded())  # type: ignore[union-attr]
    assert "cost_unknown" == (unknown.stop() and unknown.stop().reason)  # type: ignore[union-attr]
