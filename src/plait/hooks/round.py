"""All hooks of one moment at once: started together, waited for together, none of them longer than its time.

Floor: 3. Owns: the threads of hooks that somebody waits for; never: what they said.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from plait.core.cancel import Cancel
from plait.core.error_words import words_of
from plait.hooks.decision import RawHookResult
from plait.hooks.entry import HookEntry
from plait.hooks.runners import GRACE_S, STOPPED, Ground, run_hook, timed_out

_AT_ONCE_MAX: Final = 8
_LOOK_UP_S: Final = 0.1
_TO_STOP_S: Final = 3.0
"""Beyond its own time, how long a command may take to be killed with all it started."""


class Round:
    """One moment's hooks. `run` is called once."""

    def __init__(
        self, entries: Sequence[HookEntry], payload: Mapping[str, Any], ground: Ground, cancel: Cancel | None
    ) -> None:
        self._entries = entries
        self._payload = payload
        self._ground = ground
        self._cancel = Cancel() if cancel is None else cancel.child()
        self._bell: SimpleQueue[tuple[int, RawHookResult] | None] = SimpleQueue()
        self._waiting = deque(range(len(entries)))
        self._due: dict[int, float] = {}
        """Which hooks run, and when each is given up, by the machine's clock."""
        self._ended: dict[int, RawHookResult] = {}
        self._threads: list[threading.Thread] = []
        self._is_told = False
        """It is known that the turn was stopped."""

    def run(self, on_begin: Callable[[HookEntry], object]) -> list[RawHookResult]:
        """Run them, at most eight at a time, and return how each ended, in the order of the entries.

        Cancel: commands are stopped with all that they started, functions are given up. Ctrl-C in the main thread does
        the same before it is raised.
        """
        undo = self._cancel.on_cancel(lambda: self._bell.put(None))
        try:
            while self._waiting or self._due:
                self._fill(on_begin)
                if self._due:
                    self._take_next()
        except BaseException:
            self._stop()
            raise
        finally:
            undo()
            self._cancel.detach()
        return [self._ended[index] for index in range(len(self._entries))]

    def _fill(self, on_begin: Callable[[HookEntry], object]) -> None:
        while self._waiting and len(self._due) < _AT_ONCE_MAX:
            index = self._waiting.popleft()
            entry = self._entries[index]
            on_begin(entry)
            slack_s = 0.0 if entry.fn is not None else GRACE_S + _TO_STOP_S
            self._due[index] = time.monotonic() + entry.limit_s + slack_s
            thread = threading.Thread(
                target=contextvars.copy_context().run, args=(self._work, index), name="plait-hook", daemon=True
            )
            if entry.fn is None:
                self._threads.append(thread)
            try:
                thread.start()
            except RuntimeError as error:
                self._give_up(index, f"it could not be started: {error}")

    def _work(self, index: int) -> None:
        try:
            raw = run_hook(self._entries[index], self._payload, self._ground, self._cancel)
        except BaseException as error:  # boundary: somebody waits for this thread's answer, whatever it is
            raw = RawHookResult(None, failure=words_of(error))
        self._bell.put((index, raw))

    def _take_next(self) -> None:
        """Wait a moment for an end, or give up what is late or was told to stop."""
        now_s = time.monotonic()
        with suppress(Empty):
            # In short waits: not every interrupt wakes one that waits on.
            patience_s = min(_LOOK_UP_S, max(0.0, min(self._due.values()) - now_s))
            rung = self._bell.get(timeout=patience_s)
            if rung is not None and self._due.pop(rung[0], None) is not None:
                self._ended[rung[0]] = rung[1]
        if self._cancel.reason is not None and not self._is_told:
            self._hurry()
        for index, due_s in list(self._due.items()):
            if time.monotonic() >= due_s:
                late = STOPPED if self._is_told else timed_out(self._entries[index].limit_s)
                self._give_up(index, late)

    def _hurry(self) -> None:
        """The turn was stopped: what has not begun does not, functions are given up, commands are being killed."""
        self._is_told = True
        for index in self._waiting:
            self._ended[index] = RawHookResult(None, failure=STOPPED)
        self._waiting.clear()
        for index, due_s in list(self._due.items()):
            if self._entries[index].fn is not None:
                self._give_up(index, STOPPED)
            else:
                self._due[index] = min(due_s, time.monotonic() + GRACE_S + _TO_STOP_S)

    def _give_up(self, index: int, why: str) -> None:
        del self._due[index]
        self._ended[index] = RawHookResult(None, failure=why)

    def _stop(self) -> None:
        """Stop what runs and wait until it is dead; further interrupts ask for nothing new."""
        self._cancel.cancel("interrupted")
        until_s = time.monotonic() + GRACE_S + _TO_STOP_S
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < until_s:
            with suppress(KeyboardInterrupt):
                time.sleep(_LOOK_UP_S / 10)
