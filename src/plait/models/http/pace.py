"""The deadlines of one exchange: which phase it is in, and until when.

Floor: 2. Owns: turning `Timeouts` into moments; never: a timer, a socket.
"""

from __future__ import annotations

import time
from math import inf
from typing import Final, Literal

from plait.models.transport import Timeouts

Phase = Literal["connect", "first_byte", "idle", "total"]

_FOREVER_S: Final = 1e9
"""Thirty years: no socket can be told to wait for much longer, and nobody would see the end."""
DRAIN_S: Final = 0.25
"""How long the end of a body may take once all that was wanted has come."""


class Pace:
    """One exchange's deadline; `phase` names the limit that comes first."""

    __slots__ = ("_limits", "_over_at", "phase", "until")

    def __init__(self, limits: Timeouts) -> None:
        self._limits = limits
        self._over_at = _moment(limits.total_s)
        self.phase: Phase = "connect"
        self.until = inf
        """Moment, in `time.monotonic` seconds, at which the phase has taken too long."""
        self._begin("connect", limits.connect_s)

    def wait_for_answer(self) -> None:
        """The request goes out; from here the first byte of the body is awaited."""
        self._begin("first_byte", self._limits.first_byte_s)

    def read(self) -> None:
        """Something came; from here the next read is awaited."""
        self._begin("idle", self._limits.idle_s)

    def look_again(self) -> None:
        """Somebody wants the next read now: what passed since the last one was the reader's time, not the server's."""
        if self.phase == "idle":
            self._begin("idle", self._limits.idle_s)

    def drain(self) -> None:
        """Nothing more is wanted but the end."""
        self._begin("idle", DRAIN_S)

    @property
    def left_s(self) -> float | None:
        """Seconds that are left, None for ever.

        Raises:
            TimeoutError: none are.
        """
        if self.until == inf:
            return None
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @property
    def limit_s(self) -> float | None:
        """The limit of the current phase, as it was configured."""
        seconds: float | None = getattr(self._limits, f"{self.phase}_s")
        return seconds

    def _begin(self, phase: Phase, seconds: float | None) -> None:
        self.phase = phase
        self.until = _moment(seconds)
        if self._over_at < self.until:
            self.phase, self.until = "total", self._over_at


def _moment(seconds: float | None) -> float:
    return inf if seconds is None or seconds > _FOREVER_S else time.monotonic() + seconds
