"""Who watches a turn, and how they are told without being able to break it.

Floor: 4. Owns: subscriptions by event type and the fault of a handler that raised; never: rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from plait.core.events import Delta, Event, Notice, Piece
from plait.core.facts import Observation
from plait.kernel.log import AsyncFactLog, FactLog
from plait.kernel.ports import Tell

Handler = Callable[[Event], None]
_Entry = tuple[Handler, tuple[type, ...] | None, Callable[[str], None] | None]
"""Who is told, of which types, and who it is that only reads the words, if it does."""
_KEPT: Final = frozenset({"key_rested"})
"""Events of a model that are decisions, and so stand in the log as well."""


class Observers:
    """Calls handlers in the order in which they came.

    A handler that raises does not stop the others, nor the turn in the middle of an effect: its exception is kept
    and raised by the host at the next effect, after the facts so far are safe.
    """

    def __init__(self) -> None:
        self._handlers: tuple[_Entry, ...] = ()
        self._fault: Exception | None = None
        self.wants_deltas = False
        """True when somebody subscribed to fragments; otherwise none are made."""
        self._readers: tuple[Callable[[str], None], ...] | None = ()
        """Those who hear the words, while nobody hears more of a fragment; else None."""

    def add(self, handler: Handler, *types: type) -> Callable[[], None]:
        """Subscribe to some event types, or to all; return the undo."""
        return self._add((handler, types or None, None))

    def add_text(self, reader: Callable[[str], None]) -> Callable[[], None]:
        """Subscribe to the words of answers, piece by piece; return the undo."""

        def handle(event: Event) -> None:
            if isinstance(event, Delta) and event.kind == "content":
                reader(event.text)

        return self._add((handle, (Delta,), reader))

    def publish(self, event: Event) -> None:
        """Tell everybody who asked for this type; never raises."""
        for handler, types, _ in self._handlers:
            if types is not None and not isinstance(event, types):
                continue
            try:
                handler(event)
            except Exception as error:  # boundary: an observer may not break what it observes
                self._fault = self._fault or error

    def publish_pieces(self, pieces: Sequence[Piece], step: int) -> None:
        """Tell of fragments, each as a `Delta` where somebody hears more than words; never raises."""
        for kind, text in pieces:
            readers = self._readers
            if readers is None:
                self.publish(Delta(kind, text, step))
            elif kind == "content":
                for reader in readers:
                    try:
                        reader(text)
                    except Exception as error:  # boundary: as above
                        self._fault = self._fault or error

    def raise_fault(self) -> None:
        """Raise what a handler raised, once."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def _add(self, entry: _Entry) -> Callable[[], None]:
        self._handlers = (*self._handlers, entry)
        self._count()

        def undo() -> None:
            self._handlers = tuple(each for each in self._handlers if each is not entry)
            self._count()

        return undo

    def _count(self) -> None:
        hearing = [reader for _, types, reader in self._handlers if types is None or Delta in types]
        self.wants_deltas = bool(hearing)
        readers = tuple(reader for reader in hearing if reader is not None)
        self._readers = readers if len(readers) == len(hearing) else None


def teller(observers: Observers, log: FactLog | AsyncFactLog) -> Tell:
    """Return what a model tells its events to: the observers at once, the log where it was a decision."""

    def tell(type: str, data: Mapping[str, object]) -> None:
        if type in _KEPT:
            log.append((Observation("note", {"event": type, **data}),))
        observers.publish(Notice(type, data))

    return tell
