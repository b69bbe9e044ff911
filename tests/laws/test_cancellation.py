"""P-CXL: a task that is cancelled, at any round of the event loop, closes its turn and then raises CancelledError."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from plait.core.facts import TurnEnd
from plait.kernel.effects import End
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from tests.helpers.hosts import DiskFull, NotedLog, SmallAsyncHost
from tests.helpers.worlds import assert_same_state, call, said

SLOWNESS = pytest.mark.parametrize("hops", [0, 1, 3, -2])
"""Rounds of the event loop that a barrier takes; with a minus, as what cannot be called off."""


def host_of(hops: int = 0, **more: Any) -> SmallAsyncHost:
    """A turn with a round of two, a round with a writer, and an answer, on a store that takes `hops` for a barrier."""
    replies = [said([call("look", "a"), call("look", "b")]), said(call("write", "c")), said("done")]
    return SmallAsyncHost(replies, log=NotedLog(hops=abs(hops), is_barrier=hops < 0), **more)


def check(host: SmallAsyncHost) -> None:
    """Assert that nothing is lost: closed, valid, durable, memory as the log, no task left."""
    assert fault_in(host.state.history) is None
    assert_same_state(host.state, fold(host.log.facts))
    if host.log.facts:
        assert isinstance(host.log.durable[-1], TurnEnd)
        assert not host.state.in_turn
        assert host.log.facts == host.log.durable
    assert {asyncio.current_task()} == asyncio.all_tasks()


async def hops_of_a_turn(hops: int) -> int:
    """Return how many rounds of the event loop a whole turn takes."""
    host, rounds = host_of(hops), 0
    task = asyncio.ensure_future(host.drive())
    while not task.done():
        await asyncio.sleep(0)
        rounds += 1
    assert End("completed", "done") == task.result()
    return rounds


@SLOWNESS
@pytest.mark.parametrize("again", [None, 0, 1, 2, 4])
def test_a_cancel_at_any_round_closes_the_turn(hops: int, again: int | None) -> None:
    """However slow the store and however often it is cancelled: raised, closed, nothing lost, nothing left running."""

    async def main() -> None:
        rounds = await hops_of_a_turn(hops)
        for number in range(rounds):
            host = host_of(hops)
            task = asyncio.ensure_future(host.drive())
            for _ in range(number):
                await asyncio.sleep(0)
            assert task.cancel()
            for _ in range(again or 0):
                await asyncio.sleep(0)
            if again is not None:
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            check(host)

    asyncio.run(main())


@SLOWNESS
def test_the_signal_at_any_round_ends_the_turn(hops: int) -> None:
    """`host.cancel` at any round ends the turn with an `End`, raises nothing, and leaves the task uncancelled."""

    async def main() -> Counter[str]:
        ends: Counter[str] = Counter()
        for number in range(await hops_of_a_turn(hops)):
            host = host_of(hops)

            async def work(host: SmallAsyncHost = host) -> End:
                end = await host.drive()
                task = asyncio.current_task()
                assert task is not None
                assert 0 == task.cancelling()
                await asyncio.sleep(0)  # a cancellation left behind would land here
                return end

            task = asyncio.ensure_future(work())
            for _ in range(number):
                await asyncio.sleep(0)
            host.cancel.cancel("interrupted")
            ends[(await task).reason] += 1
            check(host)
        return ends

    ends = asyncio.run(main())
    assert {"interrupted", "completed"} >= set(ends)
    assert ends["completed"] <= 4 + 2 * abs(hops)  # while only the last barrier was left


@SLOWNESS
@pytest.mark.parametrize("first", ["signal", "cancel"])
@pytest.mark.parametrize("apart", [0, 1, 2])
def test_both_at_once_is_a_cancellation(hops: int, first: str, apart: int) -> None:
    """A foreign cancellation is never taken for our own, whichever comes first: it is raised, with the turn closed."""

    async def main() -> None:
        for number in range(await hops_of_a_turn(hops)):
            host = host_of(hops)
            task = asyncio.ensure_future(host.drive())
            for _ in range(number):
                await asyncio.sleep(0)
            if first == "signal":
                host.cancel.cancel("interrupted")
                for _ in range(apart):
                    await asyncio.sleep(0)
                if task.done():
                    continue
                task.cancel()
            else:
                task.cancel()
                for _ in range(apart):
                    await asyncio.sleep(0)
                host.cancel.cancel("interrupted")
            with pytest.raises(asyncio.CancelledError):
                await task
            check(host)

    asyncio.run(main())


def test_a_signal_from_another_thread() -> None:
    """Given from a thread at random moments, the signal ends the turn and is never a CancelledError."""

    async def main() -> None:
        for number in range(60):
            host = host_of(2)
            thread = threading.Timer(number * 2e-5, host.cancel.cancel, ("interrupted",))
            thread.start()
            end = await host.drive()
            thread.join()
            assert end.reason in ("interrupted", "completed")
            await asyncio.sleep(0)
            check(host)

    asyncio.run(main())


def test_a_tool_that_swallows_the_cancellation() -> None:
    """A tool that answers in spite of it keeps its result; the cancellation is raised after the turn is closed."""

    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
        return "in spite of it"

    async def main() -> None:
        for how in ("cancel", "signal"):
            host = SmallAsyncHost([said(call("write", "a")), said("never")], calls={"a": stubborn})
            task = asyncio.ensure_future(host.drive())
            while not host.ran:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            if how == "cancel":
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                host.cancel.cancel("interrupted")
                assert End("interrupted") == await task
            assert "in spite of it" == host.state.history[-1].tool_results[0].content
            check(host)

    asyncio.run(main())


def test_a_tool_that_cancels_its_own_task() -> None:
    """A tool that cancels the task it runs in is a cancellation like any other."""

    def suicidal() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done for"

    async def main() -> None:
        host = SmallAsyncHost([said(call("write", "a")), said("never")], calls={"a": suicidal})
        task = asyncio.ensure_future(host.drive())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "done for" == host.state.history[-1].tool_results[0].content
        check(host)

    asyncio.run(main())


async def hang() -> Any:
    """Think for ever."""
    await asyncio.sleep(60)


def test_a_timeout_around_a_turn_is_a_timeout() -> None:
    """`asyncio.timeout` and `wait_for` still say that the time is up, and the turn is closed."""

    async def main() -> None:
        host = SmallAsyncHost([hang], log=NotedLog(hops=2))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await host.drive()
        check(host)
        other = SmallAsyncHost([hang], log=NotedLog(hops=2))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other.drive(), 0.01)
        check(other)

    asyncio.run(main())


def test_a_task_group_cancels_its_turns() -> None:
    """When one task of a group fails, the turns of the others are closed, and the group raises what failed."""

    async def fail() -> None:
        await asyncio.sleep(0.005)
        raise RuntimeError("one of us")

    async def main() -> None:
        hosts = [SmallAsyncHost([hang], log=NotedLog(hops=1)) for _ in range(3)]

        async def together() -> None:
            async with asyncio.TaskGroup() as group:
                for host in hosts:
                    group.create_task(host.drive())
                group.create_task(fail())

        with pytest.raises(ExceptionGroup) as raised:
            await together()
        assert ["one of us"] == [str(error) for error in raised.value.exceptions]
        for host in hosts:
            check(host)

    asyncio.run(main())


def test_a_timeout_inside_an_effect_stays_inside() -> None:
    """A host may use `asyncio.timeout` itself: its expiry is no cancellation of the turn."""

    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            return "gave up"
        return "never"

    async def main() -> None:
        host = SmallAsyncHost([said(call("look", "a")), said("done")], calls={"a": impatient})
        assert End("completed", "done") == await host.drive()
        check(host)

    asyncio.run(main())


def nested(inner: list[SmallAsyncHost], parent: list[SmallAsyncHost]) -> SmallAsyncHost:
    """A turn whose tool awaits a turn of its own, in the same task, under a child of the parent's signal."""

    async def sub() -> str:
        host = host_of(1)
        host.cancel = parent[0].cancel.child()
        inner.append(host)
        return (await host.drive()).reason

    host = SmallAsyncHost([said(call("write", "s")), said("done")], calls={"s": sub}, log=NotedLog(hops=1))
    parent.append(host)
    return host


@pytest.mark.parametrize("how", ["cancel", "signal", "child"])
def test_a_turn_inside_a_turn_is_closed_too(how: str) -> None:
    """Cancelled, told through the tree, or told itself: inner and outer turn are closed, and each hears its own."""

    async def main() -> None:
        number = 0
        while True:
            number += 1
            inner: list[SmallAsyncHost] = []
            host = nested(inner, [])
            task = asyncio.ensure_future(host.drive())
            for _ in range(number):
                await asyncio.sleep(0)
            if task.done():
                break
            if how == "cancel":
                task.cancel()
            elif how == "signal":
                host.cancel.cancel("interrupted")
            elif inner:
                inner[0].cancel.cancel("timeout")
            if how == "cancel":
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                end = await task
                assert end.reason in (("interrupted", "completed") if how == "signal" else ("completed",))
            for each in (host, *inner):
                check(each)
        assert number > 20

    asyncio.run(main())


@SLOWNESS
def test_a_failing_barrier_is_raised_even_when_cancelled(hops: int) -> None:
    """A store that fails while the task is cancelled: the failure is raised, and nothing un-durable is shown."""

    async def main() -> None:
        rounds = await hops_of_a_turn(hops)
        raised: Counter[str] = Counter()
        for fail_at in range(1, 7):
            for number in range(1, rounds, 2):
                host = SmallAsyncHost(
                    host_of()._replies, log=NotedLog(hops=abs(hops), is_barrier=hops < 0, fail_at=fail_at)
                )
                task = asyncio.ensure_future(host.drive())
                for _ in range(number):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises((DiskFull, asyncio.CancelledError)) as caught:
                    await task
                raised[caught.type.__name__] += 1
                assert host.log.uncommitted or caught.type is asyncio.CancelledError
                assert len(host.published) == len(host.log.durable)
                assert 0 == host.running
                assert {asyncio.current_task()} == asyncio.all_tasks()
        assert raised["DiskFull"]
        assert raised["CancelledError"]

    asyncio.run(main())


def test_a_closed_event_loop_takes_the_turn_with_it() -> None:
    """A turn whose event loop is gone ends quietly, like a crash: its facts so far can be resumed."""
    host = SmallAsyncHost([hang])
    turning = host.drive()

    loop = asyncio.new_event_loop()
    task = loop.create_task(turning)
    for _ in range(5):
        loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    turning.close()
    host.cancel.cancel("too late")
    with pytest.raises((asyncio.CancelledError, RuntimeError)):
        loop.run_until_complete(task)
    loop.close()
    host.cancel.cancel("later still")

    assert fold(host.log.facts).in_turn
