"""A client's own limit of requests a minute.

Floor: 2. Owns: when the next request may leave; never: the waiting itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

WINDOW_S: Final = 60.0


class Place(NamedTuple):
    """When a request may leave."""

    at_s: float
    """By the limiter's clock."""
    wait_s: float
    """Seconds from when it was taken."""


class RateLimiter:
    """At most `per_minute` requests in any sixty seconds; belongs to one model object, safe in any thread."""

    def __init__(self, per_minute: int, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        if per_minute < 1:
            raise ValueError(f"max_rpm is {per_minute}, and must be at least 1")
        self._per_minute = per_minute
        self._places: deque[float] = deque()
        """When requests leave that count now or later, in order."""
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take the next place and return how many seconds it is away; nothing is waited for here."""
        return self.take_place().wait_s

    def take_place(self) -> Place:
        """Take the next place."""
        with self._lock:
            now = self._monotonic_s()
            while self._places and self._places[0] + WINDOW_S <= now:
                self._places.popleft()
            is_full = len(self._places) >= self._per_minute
            at = max(now, self._places[-self._per_minute] + WINDOW_S) if is_full else now
            self._places.append(at)
            return Place(at, at - now)

    def give_back(self, place: Place) -> None:
        """Free a place whose request will not leave: whoever comes next does not wait for it."""
        with self._lock, suppress(ValueError):
            self._places.remove(place.at_s)
