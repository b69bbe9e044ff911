"""Time as a port, so that no test has to sleep.

Floor: 0. Owns: the protocol and the system's own clock; never: a decision about how long to wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from plait.core.cancel import Cancel


class Clock(Protocol):
    """Where time comes from and how one waits."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never go back."""
        ...

    def sleep(self, seconds: float, cancel: Cancel) -> bool:
        """Wait in this thread; return at once, with True, when `cancel` is given."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Wait in this task; cancelled like any await."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float, cancel: Cancel) -> bool:
        """Wait in this thread; return at once, with True, when `cancel` is given."""
        return cancel.wait(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait in this task; cancelled like any await."""
        await asyncio.sleep(seconds)
