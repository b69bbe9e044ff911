"""What hooks leave behind for others: news for the observers, texts for the model, each until its moment comes.

Floor: 5. Owns: keeping them across threads; never: what they say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from plait.core.events import Event, Notice
from plait.hooks.decision import HookDecision
from plait.hooks.entry import HookEntry


class News:
    """Events of hooks, told in the turn's own thread, in which observers expect them."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._waiting: SimpleQueue[Notice] = SimpleQueue()
        self._thread = threading.get_ident()

    def here(self) -> None:
        """Take this thread for the turn's."""
        self._thread = threading.get_ident()

    def say(self, event: str, **data: object) -> None:
        """Have an event told at the next moment for it."""
        self._waiting.put(Notice(event, data))

    def begins(self, entry: HookEntry) -> None:
        """Say that a hook begins, at once where that can be."""
        self.say("hook_status", text=entry.status_message, source=entry.source)
        if threading.get_ident() == self._thread:
            self.tell()

    def note(self, entry: HookEntry, said: HookDecision) -> None:
        """Say what a hook has for the user, and what is wrong with it."""
        for error in said.errors:
            self.say("hook_warning", text=f"{entry.event} hook {entry.name!r}: {error}")
        for message in said.messages:
            self.say("hook_warning", text=message)

    def tell(self) -> None:
        """Tell what waits."""
        while True:
            try:
                notice = self._waiting.get_nowait()
            except Empty:
                return
            self._publish(notice)


class Contexts:
    """Texts for the model: those that go with the result of a call, and those that go with whatever comes next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_calls: dict[str, list[str]] = {}
        self._next: list[str] = []

    def queue(self, texts: Iterable[str]) -> None:
        """Keep texts for the next prompt or result."""
        with self._lock:
            self._next += texts

    def keep(self, call_id: str, texts: Iterable[str]) -> None:
        """Keep texts for the result of a call."""
        with self._lock:
            self._of_calls.setdefault(call_id, []).extend(texts)

    def take(self, call_id: str = "") -> list[str]:
        """Return what goes with the result of a call, and with whatever comes next."""
        with self._lock:
            taken = [*self._of_calls.pop(call_id, ()), *self._next]
            self._next = []
            return taken

    def settle(self) -> None:
        """Keep what was meant for results that never came for what comes next."""
        with self._lock:
            self._next += [text for texts in self._of_calls.values() for text in texts]
            self._of_calls = {}
