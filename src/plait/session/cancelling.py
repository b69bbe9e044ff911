"""Stopping a turn: from another thread, or at a deadline.

Floor: 5. Owns: the token a host holds, and the timer of a turn; never: what stopping means (`core.cancel`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from plait.core.cancel import Cancel


class CancelToken:
    """Stops a turn from any thread. A token that was given stays given, for every turn it is handed to."""

    def __init__(self) -> None:
        self._cancel = Cancel()

    @property
    def cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._cancel.reason is not None

    def cancel(self, reason: str = "cancelled") -> None:
        """End the turn: the request is dropped, running tools are stopped with all they started.

        The history stays valid and the turn's result has the status `interrupted`.
        """
        self._cancel.cancel(reason)


def signal_of(token: CancelToken | Cancel | None) -> Cancel | None:
    """Return the stop signal that a token gives."""
    return token._cancel if isinstance(token, CancelToken) else token


@contextmanager
def turn_signal(token: CancelToken | Cancel | None, timeout_s: float | None) -> Iterator[Cancel]:
    """Yield the stop signal of one turn: given with the token, or after so many seconds.

    Raises `ValueError` for a negative time.
    """
    if timeout_s is not None and timeout_s < 0:
        raise ValueError(f"a turn cannot end after {timeout_s} seconds")
    parent = signal_of(token)
    cancel = Cancel() if parent is None else parent.child()
    timer: threading.Timer | None = None
    if timeout_s is not None:
        timer = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), cancel.cancel, ("timeout",))
        timer.daemon = True
        timer.start()
    try:
        yield cancel
    finally:
        cancel.detach()
        if timer is not None:
            timer.cancel()
