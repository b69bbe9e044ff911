"""What every named event is: a frozen dataclass that reads like a mapping.

Floor: 1. Owns: reading by attribute, by key, as a dict; never: an event (`events.named`), or markup (`events.render`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar


class NamedEvent(Mapping[str, object]):
    """Something that happened in a session."""

    __slots__: ClassVar[Sequence[str]] = ()
    type: ClassVar[str]
    """The event's name: what handlers subscribe to."""

    def __getitem__(self, key: str) -> object:
        if key == "fmt":
            from plait.events.render import render

            return render(self)
        if key not in self.__slots__:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__slots__)

    def __len__(self) -> int:
        return len(self.__slots__)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedEvent) and other.type != self.type:
            return False
        return dict(self) == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, object]:
        """Return the event with its name under `type`, as `--stream-json` writes it."""
        return {"type": self.type, **self}
