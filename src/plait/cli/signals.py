"""Ctrl-C, SIGTERM and SIGHUP as one stop signal for whatever the command is doing.

Floor: 7. Owns: the process's handlers while a command runs, and which signal came first; never: what stopping means.

A handler only writes a byte; a thread gives the signal. So no listener runs inside code that a signal interrupted.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

from plait.core.cancel import Cancel

_NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")
_HARD_EXIT_AT: Final = 3
"""The signal of this count ends the process on the spot: the user has said twice before that they mean it."""


class Signals:
    """Gives `cancel` at the first signal, for as long as the `with` block lasts.

    The second signal changes nothing: the turn is already closing. A signal that was ignored when the process
    started (nohup, a background job) stays ignored.
    """

    def __init__(self, cancel: Cancel) -> None:
        self.first: signal.Signals | None = None
        """The signal that came first, or None."""
        self._cancel = cancel
        self._count = 0
        self._before: dict[int, Any] = {}
        self._reader, self._writer = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="plait-signals", daemon=True)

    @property
    def exit_code(self) -> int | None:
        """128 plus the number of the first signal, or None."""
        return None if self.first is None else 128 + self.first

    def __enter__(self) -> Self:
        self._thread.start()
        for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count >= _HARD_EXIT_AT:
            os._exit(128 + number)
        if self.first is None:
            self.first = signal.Signals(number)
            os.write(self._writer, b"!")

    def _listen(self) -> None:
        if os.read(self._reader, 1) and self.first is not None:
            self._cancel.cancel("interrupted" if self.first == signal.SIGINT else "shutdown")
