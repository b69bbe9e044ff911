"""Virtual time."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from plait.core.cancel import Cancel
from plait.core.clock import Clock
from plait.testing import VirtualClock


def test_it_is_a_clock() -> None:
    """The virtual clock stands where the machine's stands."""
    clock: Clock = VirtualClock(start_ms=5_000)

    assert (5_000, 0.0) == (clock.now_ms(), clock.monotonic_s())


def test_a_long_sleep_takes_no_time() -> None:
    """Ten hours of sleep move the clock by ten hours and the machine by nothing."""
    clock = VirtualClock()
    started = time.monotonic()

    assert clock.sleep(36_000, Cancel()) is False
    assert (36_000.0, (36_000,)) == (clock.monotonic_s(), clock.sleeps)
    assert time.monotonic() - started < 1


def test_a_cancelled_sleep_does_not_begin() -> None:
    """A sleep whose signal was given already returns True and moves nothing."""
    cancel = Cancel()
    cancel.cancel("stop")
    clock = VirtualClock()

    assert clock.sleep(10, cancel) is True
    assert 0.0 == clock.monotonic_s()


def test_tasks_wake_in_the_order_of_their_times() -> None:
    """In an event loop the clock jumps from sleeper to sleeper."""
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def nap(name: str, *seconds: float) -> None:
        for each in seconds:
            await clock.asleep(each)
            woken.append((name, clock.monotonic_s()))

    async def main() -> None:
        await asyncio.gather(nap("slow", 3_600), nap("quick", 60, 60), nap("middle", 90))

    asyncio.run(main())

    assert [("quick", 60), ("middle", 90), ("quick", 120), ("slow", 3_600)] == woken


def test_busy_tasks_hold_the_clock() -> None:
    """Time does not jump while another task still has work to do before it sleeps."""
    clock = VirtualClock()

    async def busy() -> float:
        for _ in range(20):
            await asyncio.sleep(0)
        await clock.asleep(1)
        return clock.monotonic_s()

    async def main() -> list[float]:
        return await asyncio.gather(busy(), busy())

    assert [1.0, 1.0] == asyncio.run(main())


def test_a_cancelled_task_leaves_no_sleeper() -> None:
    """Cancelling a sleeping task takes it off the clock."""
    clock = VirtualClock(autojump=False)

    async def main() -> None:
        task = asyncio.create_task(clock.asleep(10))
        await asyncio.sleep(0)
        assert 1 == clock.sleepers
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert 0 == clock.sleepers


def test_time_moved_by_hand_wakes_who_is_due() -> None:
    """Without autojump only `advance` wakes, and only those whose time has come."""
    clock = VirtualClock(autojump=False)

    async def main() -> tuple[bool, bool]:
        soon, late = asyncio.create_task(clock.asleep(5)), asyncio.create_task(clock.asleep(50))
        await asyncio.sleep(0)
        clock.advance(10)
        await soon
        still = late.done()
        clock.advance(40)
        await late
        return still, late.done()

    assert (False, True) == asyncio.run(main())
    assert 50.0 == clock.monotonic_s()


def test_a_thread_sleeps_until_it_is_woken() -> None:
    """A sleeping thread wakes when the clock is moved past its time, and at once when it is cancelled."""
    clock = VirtualClock(autojump=False)
    cancel = Cancel()
    results: list[tuple[str, bool]] = []
    threads = [
        threading.Thread(target=lambda: results.append(("woken", clock.sleep(5, Cancel())))),
        threading.Thread(target=lambda: results.append(("stopped", clock.sleep(500, cancel)))),
    ]
    for thread in threads:
        thread.start()
    clock.wait_for_sleepers(2)
    clock.advance(5)
    threads[0].join(5)
    cancel.cancel("enough")
    threads[1].join(5)

    assert [("woken", False), ("stopped", True)] == results
    with pytest.raises(TimeoutError, match="1 sleepers, there are 0"):
        clock.wait_for_sleepers(1, 0.01)
