"""Waiting for our own limit of requests a minute, in both colours side by side.

Floor: 2. Owns: the wait, its announcement and its end; never: when a request may leave (`limiter`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from plait.core.cancel import Cancel
from plait.kernel.effects import Interrupted
from plait.kernel.ports import Tell
from plait.models.limiter import RateLimiter


def wait_for_place(limiter: RateLimiter, cancel: Cancel, tell: Tell) -> None:
    """Wait in this thread until the limit lets the next request go; raise `Interrupted` when `cancel` is given."""
    with _place(limiter, tell) as wait_s:
        if wait_s and cancel.wait(wait_s):
            raise Interrupted(cancel.reason or "interrupted")


async def await_place(limiter: RateLimiter, cancel: Cancel, tell: Tell) -> None:
    """Wait in this task until the limit lets the next request go; raise `Interrupted` when `cancel` is given."""
    with _place(limiter, tell) as wait_s:
        if wait_s:
            await _sleep(wait_s, cancel)


@contextmanager
def _place(limiter: RateLimiter, tell: Tell) -> Iterator[float]:
    """Take the next place and tell of a wait for it; a wait that is broken off gives the place back."""
    place = limiter.take_place()
    try:
        if place.wait_s:
            resume_at = (datetime.now(UTC) + timedelta(seconds=place.wait_s)).isoformat(timespec="milliseconds")
            tell("rate_limit_wait", {"delay": round(place.wait_s, 3), "resume_at": resume_at, "source": "max_rpm"})
        yield place.wait_s
    except BaseException:
        limiter.give_back(place)
        raise


async def _sleep(wait_s: float, cancel: Cancel) -> None:
    import asyncio  # a thread's conversations do without

    loop = asyncio.get_running_loop()
    told = asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it
            loop.call_soon_threadsafe(told.set)

    undo = cancel.on_cancel(wake)
    try:
        async with asyncio.timeout(wait_s):
            await told.wait()
    except TimeoutError:
        return
    finally:
        undo()
    raise Interrupted(cancel.reason or "interrupted")
