"""The system's clock."""

from __future__ import annotations

import asyncio
import time

from plait.core.cancel import Cancel
from plait.core.clock import SystemClock


def test_the_clock_tells_the_time() -> None:
    """Wall time is milliseconds since 1970; monotonic time does not go back."""
    clock = SystemClock()
    before = time.time() * 1000

    assert before - 1 <= clock.now_ms() <= time.time() * 1000 + 1
    assert clock.monotonic_s() <= clock.monotonic_s()


def test_a_sleep_ends_at_the_signal() -> None:
    """A thread's sleep is the length asked for, or ends at once when the signal is there."""
    cancel = Cancel()
    clock = SystemClock()

    assert not clock.sleep(0.001, cancel)
    cancel.cancel("x")
    assert clock.sleep(3600, cancel)


def test_a_task_sleeps() -> None:
    """A task's sleep gives way and is cancelled like any await."""

    async def main() -> None:
        clock = SystemClock()
        await clock.asleep(0)
        sleeper = asyncio.ensure_future(clock.asleep(3600))
        await asyncio.sleep(0)
        sleeper.cancel()
        assert isinstance((await asyncio.gather(sleeper, return_exceptions=True))[0], asyncio.CancelledError)

    asyncio.run(main())
