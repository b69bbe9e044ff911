"""What a request fails with that its endpoint never answers: a deadline of its own, or a size that is known not to fit.

Floor: 4. Owns: the timer, and telling its end from the turn's; never: a tool's deadline (the hosts), or a size.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.kernel.effects import Interrupted, Think

_LATE: Final = "late"
"""Why the request was stopped."""


def check_size(ask: Think) -> None:
    """Let a request that is known not to fit fail as its endpoint would have it fail; hooks have been asked by then.

    Raises:
        ProviderFailed: it is too large.
    """
    if ask.fault:
        raise ProviderFailed("context_overflow", ask.fault, retryable=False, phase="before")


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
