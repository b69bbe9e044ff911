"""The log a driver writes facts to: its contract in both colours, and the one that lives in memory.

Floor: 1. Owns: append, barrier, hand-over of what is safe; never: a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from plait.core.facts import Entry, Fact


class FactLog(Protocol):
    """Where facts go. `append` orders them, `commit` makes them durable, `take_committed` hands them on."""

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in, in their final order; never blocks, raises only when the log is poisoned."""
        ...

    def commit(self) -> None:
        """Make everything appended durable; raise `JournalError` and be poisoned when that fails."""
        ...

    def take_committed(self) -> Sequence[Entry]:
        """Return what became durable since the last call, once each."""
        ...


class AsyncFactLog(Protocol):
    """The same, where a barrier may have to be awaited."""

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in, in their final order; never blocks, raises only when the log is poisoned."""
        ...

    def commit(self) -> Awaitable[None] | None:
        """Make everything appended durable; None when there is nothing to wait for."""
        ...

    def take_committed(self) -> Sequence[Entry]:
        """Return what became durable since the last call, once each."""
        ...


class Barrier(asyncio.Future[None]):
    """A barrier under way, which nobody can call off: who waits for it hears of a cancellation once it is made.

    A driver may await this as it is. Any other awaitable it has to shield, at the price of one more round of the loop.
    """

    def cancel(self, msg: object = None) -> bool:
        """Refuse."""
        return False


class MemoryLog:
    """Keeps facts in a list; serves both colours, because its barrier has nothing to wait for."""

    def __init__(self, now_ms: Callable[[], int], *, run_id: str = "") -> None:
        self.entries: list[Entry] = []
        self._now_ms = now_ms
        self._run_id = run_id
        self._committed = 0
        self._taken = 0

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in."""
        at_ms = self._now_ms()
        seq = len(self.entries)
        for fact in facts:
            seq += 1
            self.entries.append(Entry(seq, at_ms, self._run_id, fact))

    def commit(self) -> None:
        """Call everything safe."""
        self._committed = len(self.entries)

    def take_committed(self) -> Sequence[Entry]:
        """Return what was committed since the last call."""
        if self._taken == self._committed:
            return ()
        fresh = self.entries[self._taken : self._committed]
        self._taken = self._committed
        return fresh

    @property
    def taken(self) -> int:
        """How many facts were handed on."""
        return self._taken

    @property
    def uncommitted(self) -> int:
        """How many facts the barrier has not reached."""
        return len(self.entries) - self._committed
