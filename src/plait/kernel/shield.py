"""Where Ctrl-C may land: at an effect, never inside the loop or the log.

Floor: 1. Owns: the process's SIGINT handler while a sync turn runs in the main thread; never: what a Ctrl-C means.

Python raises KeyboardInterrupt at any bytecode, inside a generator's frame too, which kills it. So the driver takes
the handler over, raises only while an effect is under way, and remembers a Ctrl-C that comes at any other time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Shield:
    """Holds Ctrl-C back unless `armed`; setting `armed` to False holds it back again."""

    def __init__(self) -> None:
        self.armed = False
        self.pending = False

    def _handle(self, _signum: int, _frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt
        self.pending = True

    def arm(self) -> None:
        """Let Ctrl-C land from here on; one that was held back until now lands at once.

        In this order, because a signal between a look and the arming would wait for the whole effect.
        """
        self.armed = True
        self.check()

    def check(self) -> None:
        """Raise a Ctrl-C that was held back."""
        if self.pending:
            self.armed = self.pending = False
            raise KeyboardInterrupt


@contextmanager
def shielded() -> Iterator[tuple[Shield, bool]]:
    """Take SIGINT over for a turn; yield the shield and whether this turn owns it.

    A nested turn shares the outer one's. Only the main thread gets signals, and a handler that somebody else
    installed is theirs: in both cases the shield is there and does nothing. A Ctrl-C that was held back to the very
    end is for the caller to raise, with `check`, when the handler is back in its place.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Shield(), False
        return
    before = signal.getsignal(signal.SIGINT)
    outer = getattr(before, "__self__", None)
    if isinstance(outer, Shield):
        with _shared(outer):
            yield outer, False
    elif before is signal.default_int_handler:
        shield = Shield()
        signal.signal(signal.SIGINT, shield._handle)
        try:
            yield shield, True
        finally:
            # Unless somebody took it over meanwhile, and means to keep it.
            if signal.getsignal(signal.SIGINT) == shield._handle:
                signal.signal(signal.SIGINT, before)
    else:
        yield Shield(), False


@contextmanager
def _shared(outer: Shield) -> Iterator[None]:
    """Disarm the outer turn's shield while an inner turn decides for itself when to arm it."""
    armed, outer.armed = outer.armed, False
    yield
    # Not after an exception: a Ctrl-C on its way out must reach the outer turn before the next one may land.
    outer.armed = armed
