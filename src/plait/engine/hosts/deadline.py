"""A request that has a deadline of its own: past that it has failed, while its turn goes on.

Floor: 4. Owns: the timer, and telling its end from the turn's; never: a tool's deadline (the hosts).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.kernel.effects import Interrupted

_LATE: Final = "late"
"""Why the request was stopped."""


@contextmanager
def deadline(turn: Cancel, timeout_s: float) -> Iterator[Cancel]:
    """Yield what stops the request.

    Raises:
        ProviderFailed: in place of the `Interrupted` of a request that was stopped by its deadline.
    """
    cancel = turn.child()
    timer = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), cancel.cancel, (_LATE,))
    timer.daemon = True
    timer.start()
    try:
        yield cancel
    except Interrupted as interrupt:
        if cancel.reason != _LATE or turn.reason is not None:
            raise
        told = f"no answer within {timeout_s:g} seconds"
        raise ProviderFailed("timeout", told, usage=interrupt.usage, retryable=False) from None
    finally:
        timer.cancel()
        cancel.detach()
