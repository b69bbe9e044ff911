"""Who watches a turn, and how they are told without being able to break it.

Floor: 4. Owns: subscriptions by event type and the fault of a handler that raised; never: rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from plait.core.events import Delta, Event, Notice
from plait.core.facts import Observation
from plait.kernel.log import AsyncFactLog, FactLog
from plait.kernel.ports import Tell

Handler = Callable[[Event], None]
_KEPT: Final = frozenset({"key_rested"})
"""Events of a model that are decisions, and so stand in the log as well."""


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


def teller(observers: Observers, log: FactLog | AsyncFactLog) -> Tell:
    """Return what a model tells its events to: the observers at once, the log where it was a decision."""

    def tell(type: str, data: Mapping[str, object]) -> None:
        if type in _KEPT:
            log.append((Observation("note", {"event": type, **data}),))
        observers.publish(Notice(type, data))

    return tell
