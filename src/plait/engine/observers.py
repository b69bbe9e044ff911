"""Who watches a turn, and how they are told without being able to break it.

Floor: 4. Owns: subscriptions by event type and the fault of a handler that raised; never: rendering.
"""

from __future__ import annotations

from collections.abc import Callable

from plait.core.events import Delta, Event

Handler = Callable[[Event], None]


class Observers:
    """Calls handlers in the order in which they came.

    A handler that raises does not stop the others, nor the turn in the middle of an effect: its exception is kept
    and raised by the host at the next effect, after the facts so far are safe.
    """

    def __init__(self) -> None:
        self._handlers: list[tuple[Handler, tuple[type, ...] | None]] = []
        self._fault: Exception | None = None
        self.wants_deltas = False
        """True when somebody subscribed to fragments; otherwise none are made."""

    def add(self, handler: Handler, *types: type) -> Callable[[], None]:
        """Subscribe to some event types, or to all; return the undo."""
        entry = (handler, types or None)
        self._handlers.append(entry)
        self._count()

        def undo() -> None:
            if entry in self._handlers:
                self._handlers.remove(entry)
                self._count()

        return undo

    def publish(self, event: Event) -> None:
        """Tell everybody who asked for this type; never raises."""
        for handler, types in tuple(self._handlers):
            if types is not None and not isinstance(event, types):
                continue
            try:
                handler(event)
            except Exception as error:  # boundary: an observer may not break what it observes
                self._fault = self._fault or error

    def raise_fault(self) -> None:
        """Raise what a handler raised, once."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def _count(self) -> None:
        self.wants_deltas = any(types is None or Delta in types for _, types in self._handlers)
