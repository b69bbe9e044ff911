"""A client's own limit of requests a minute.

Floor: 2. Owns: when the next request may leave; never: the waiting itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 60.0


class RateLimiter:
    """At most `per_minute` requests in any sixty seconds; belongs to one model object, safe in any thread."""

    def __init__(self, per_minute: int, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        if per_minute < 1:
            raise ValueError(f"max_rpm is {per_minute}, and must be at least 1")
        self._leaves_at: deque[float] = deque(maxlen=per_minute)
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take the next place and return how many seconds it is away; nothing is waited for here."""
        with self._lock:
            now = self._monotonic_s()
            is_full = len(self._leaves_at) == self._leaves_at.maxlen
            at = max(now, self._leaves_at[0] + WINDOW_S) if is_full else now
            self._leaves_at.append(at)
            return at - now
