"""A clock that does not wait: hours of retries and timeouts in milliseconds.

Floor: testing. Owns: virtual time, who sleeps until when; never: the machine's clock.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from plait.core.cancel import Cancel

_SETTLE_HOPS: Final = 50
"""How often the event loop goes round, with nobody else falling asleep, before it counts as idle."""
_START_MS: Final = 1_700_000_000_000


class VirtualClock:
    """A `Clock` whose time moves only when somebody sleeps or `advance` is called.

    With `autojump` (the default) a sleeper wakes at once, at its own time: in a thread each sleep moves the clock to
    its end; in an event loop the clock jumps to the next sleeper when every task is asleep or waiting, so sleepers
    wake in the order of their times. Tasks that wait for a real thread or socket count as waiting: use
    `autojump=False` and `advance` where that matters.
    """

    def __init__(self, *, start_ms: int = _START_MS, autojump: bool = True) -> None:
        self._start_ms = start_ms
        self._autojump = autojump
        self._elapsed_s = 0.0
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, Callable[[], None]]] = []
        self._sleeps: list[float] = []
        self._jumper: asyncio.Task[None] | None = None

    @property
    def sleeps(self) -> tuple[float, ...]:
        """How long each sleep was meant to be, in seconds, in the order in which they began."""
        with self._changed:
            return tuple(self._sleeps)

    @property
    def sleepers(self) -> int:
        """How many sleep now."""
        with self._changed:
            return len(self._sleepers)

    def now_ms(self) -> int:
        """Return virtual wall time in milliseconds since 1970, UTC."""
        with self._changed:
            return self._start_ms + round(self._elapsed_s * 1_000)

    def monotonic_s(self) -> float:
        """Return virtual seconds since the clock was made."""
        with self._changed:
            return self._elapsed_s

    def advance(self, seconds: float) -> None:
        """Move time on and wake whoever slept until then, in the order of their times; from any thread."""
        with self._changed:
            target_s = self._elapsed_s + seconds
        self._move_to(target_s)

    def wait_for_sleepers(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait, in real time, until so many sleep.

        Raises:
            TimeoutError: they did not fall asleep in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._sleepers) >= count, timeout_s):
                raise TimeoutError(f"waited {timeout_s} s for {count} sleepers, there are {len(self._sleepers)}")

    def sleep(self, seconds: float, cancel: Cancel) -> bool:
        """Sleep in this thread; return at once, with True, when `cancel` is given."""
        if cancel.reason is not None:
            return True
        if self._autojump:
            with self._changed:
                self._sleeps.append(seconds)
                target_s = self._elapsed_s + seconds
            self._move_to(target_s)
            return False
        woken = threading.Event()
        entry = self._fall_asleep(seconds, woken.set)
        undo = cancel.on_cancel(woken.set)
        woken.wait()
        undo()
        return self._forget(entry)

    async def asleep(self, seconds: float) -> None:
        """Sleep in this task; cancelled like any await."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake_here() -> None:
            if not woken.done():
                woken.set_result(None)

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody sleeps in it
                loop.call_soon_threadsafe(wake_here)

        entry = self._fall_asleep(seconds, wake)
        if self._autojump:
            self._start_jumping()
        try:
            await woken
        finally:
            self._forget(entry)

    def _fall_asleep(self, seconds: float, wake: Callable[[], None]) -> tuple[float, int, Callable[[], None]]:
        with self._changed:
            entry = (self._elapsed_s + seconds, next(self._order), wake)
            self._sleeps.append(seconds)
            heapq.heappush(self._sleepers, entry)
            self._changed.notify_all()
        return entry

    def _forget(self, entry: tuple[float, int, Callable[[], None]]) -> bool:
        """Take a sleeper out; True when it was still asleep, which means that it was cancelled."""
        with self._changed:
            if entry not in self._sleepers:
                return False
            self._sleepers.remove(entry)
            heapq.heapify(self._sleepers)
            return True

    def _move_to(self, target_s: float) -> None:
        while True:
            with self._changed:
                if not self._sleepers or self._sleepers[0][0] > target_s:
                    self._elapsed_s = max(self._elapsed_s, target_s)
                    return
                until_s, _, wake = heapq.heappop(self._sleepers)
                self._elapsed_s = max(self._elapsed_s, until_s)
            wake()

    def _start_jumping(self) -> None:
        if self._jumper is None or self._jumper.done():
            self._jumper = asyncio.create_task(self._jump(), name="plait-virtual-clock")

    async def _jump(self) -> None:
        while True:
            begun = len(self._sleeps)
            for _ in range(_SETTLE_HOPS):
                await asyncio.sleep(0)
            with self._changed:
                if not self._sleepers:
                    return
                settled = begun == len(self._sleeps)
                until_s = self._sleepers[0][0]
            if settled:
                self._move_to(until_s)
