"""Subscriptions to a session's named events, and who hears what in which order.

Floor: 5. Owns: handlers and the order in which they are called; never: an event of its own making.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable
from typing import Final

from plait.core.errors import ConfigError
from plait.core.events import AttemptReset, Committed, Delta, Event, Notice, StreamEnd
from plait.core.usage import Usage
from plait.engine.observers import Observers
from plait.events.named import EVENTS, NOT_YET, EventCallback, NamedEvent
from plait.events.reducer import Reducer, Warmth
from plait.session.kept.capture import Capture

_OF_DELTAS: Final = frozenset(
    {"content_delta", "reasoning_delta", "content_stream_end", "reasoning_stream_end", "attempt_reset"}
)


class Hub:
    """Turns what the loop publishes into named events and calls those who asked for them.

    Handlers of an event's own name come first, in the order in which they came, then the one for all events.
    """

    def __init__(
        self,
        observers: Observers,
        on_event: EventCallback | None = None,
        usage: Callable[[], Usage] = lambda: Usage.ZERO,
        warmth: Callable[[], Warmth] = Warmth,
        *,
        capture: Capture | None = None,
    ) -> None:
        """Hear nothing yet, unless there is a handler for everything.

        Args:
            usage: says what the session has used when somebody begins to listen.
            warmth: says what is known of its cache then.
            capture: gets every event before anybody else.
        """
        self.on_event = on_event
        self.capture = capture
        self._usage = usage
        self._warmth = warmth
        self._reducer = Reducer()
        self._handlers: dict[str, list[EventCallback]] = {}
        self._lock = threading.Lock()
        self._observers = observers
        self._undo: dict[str, Callable[[], None]] = {}
        self._tune()

    def subscribe(self, type: str, handler: EventCallback) -> None:
        """Have `handler` called for every event of this name; raise `ConfigError` for a name that is none."""
        if type not in EVENTS and type not in NOT_YET:
            near = difflib.get_close_matches(type, (*EVENTS, *NOT_YET), n=1)
            raise ConfigError(
                f"no event is called {type!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(EVENTS)}",
            )
        with self._lock:
            self._handlers[type] = [*self._handlers.get(type, ()), handler]
            self._tune()

    def unsubscribe(self, type: str, handler: EventCallback) -> None:
        """Take a handler back; one that is not there is no error."""
        with self._lock:
            handlers = list(self._handlers.get(type, ()))
            if handler in handlers:
                handlers.remove(handler)
                self._handlers[type] = handlers
                self._tune()

    def hear_all(self, handler: EventCallback | None) -> None:
        """Have `handler` called for every event, in the place of the one before; None for nobody."""
        with self._lock:
            self.on_event = handler
            self._tune()

    def handle(self, event: Event) -> None:
        """Take an event of the loop; raise the first exception of a handler after all were called."""
        self.emit(*self._reducer.feed(event))

    def emit(self, *events: NamedEvent) -> None:
        """Call the handlers of these events; raise the first exception of one after all were called."""
        fault: Exception | None = None
        for event in events:
            if self.capture is not None:
                self.capture.add("event", {"event_type": event.type, "data": dict(event)})
            for handler in self._of(event.type):
                try:
                    handler(event.type, event)
                except Exception as error:  # boundary: one handler may not keep the others from hearing
                    fault = fault or error
        if fault is not None:
            raise fault

    def _of(self, type: str) -> list[EventCallback]:
        handlers = self._handlers.get(type, [])
        return handlers if self.on_event is None else [*handlers, self.on_event]

    def _tune(self) -> None:
        """Ask for what somebody hears, and for nothing else: fragments come thousands a second."""
        hears_all = self.on_event is not None or self.capture is not None
        hears_any = hears_all or any(self._handlers.values())
        hears_deltas = hears_all or any(self._handlers.get(name) for name in _OF_DELTAS)
        if hears_any and "facts" not in self._undo:
            self._reducer = Reducer(self._usage(), self._warmth())
        self._ask("facts", hears_any, Committed, StreamEnd, AttemptReset, Notice)
        self._ask("deltas", hears_deltas, Delta)

    def _ask(self, what: str, wanted: bool, *types: type) -> None:
        if wanted and what not in self._undo:
            self._undo[what] = self._observers.add(self.handle, *types)
        elif not wanted and what in self._undo:
            self._undo.pop(what)()
