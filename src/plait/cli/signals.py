"""Ctrl-C, SIGTERM and SIGHUP as one stop signal for whatever the command is doing.

Floor: 7. Owns: the process's handlers while a command runs, and which signal came first; never: what stopping means.

A thread is woken by the interpreter's own signal handler and gives the stop signal. So a signal is heard while the
main thread sleeps in a system call, and no listener runs inside code that a signal interrupted.
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

    The second signal changes nothing: the turn is already closing. After a stop signals are ignored, because the
    process has nothing left to do but to end with its exit code. A signal that was ignored when the process started
    (nohup, a background job) stays ignored.

    Until `begun` is set, where it is given, there is nothing to close: the first signal ends the process on the spot,
    also one that waits for a file (a FIFO into which nobody writes).
    """

    def __init__(self, cancel: Cancel, begun: threading.Event | None = None) -> None:
        self.first: signal.Signals | None = None
        """The signal that came first, or None."""
        self._cancel = cancel
        self._begun = begun
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._thread = threading.Thread(target=self._listen, name="plait-signals", daemon=True)

    @property
    def exit_code(self) -> int | None:
        """128 plus the number of the first signal, or None."""
        return None if self.first is None else 128 + self.first

    def __enter__(self) -> Self:
        self._thread.start()
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, _heed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if self.first is None else signal.SIG_IGN)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def _listen(self) -> None:
        count = 0
        while numbers := os.read(self._reader, 64):
            for number in (number for number in numbers if number in self._before):
                count += 1
                if count >= _HARD_EXIT_AT or not (self._begun is None or self._begun.is_set()):
                    os._exit(128 + number)
                if self.first is None:
                    self.first = signal.Signals(number)
                    self._cancel.cancel("interrupted" if number == signal.SIGINT else "shutdown")


def _heed(_number: int, _frame: FrameType | None) -> None:
    """Stand in for the default action: the thread does what there is to do."""
