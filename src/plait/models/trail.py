"""Where a request leaves the one before it: what a line remembers of the last answered one, in digests.

Floor: 2. Owns: the comparison, within a line, with the line before it, and with an earlier process; never: why.

A request that failed was cached by nobody, so the measure is the last request that was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Final, Literal

from plait.core.exchange import ToolSchema
from plait.core.values import dataclass
from plait.wire.codec import codec
from plait.wire.prefix import Prefix, Sent
from plait.wire.profile import WireProfile

Part = Literal["model", "encoding", "tools", "system", "message"]
"""What a request is made of, in the order in which it is compared."""
_DIGEST_BYTES: Final = 6
_ELSEWHERE: Final = frozenset(
    "origin max_tokens_field temperature parallel_tool_calls stream_usage think structured_output".split()
)
"""Fields of a wire's profile that say nothing about the bytes of a message: the model's, the tail's, the answer's."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request differs from the one before it."""

    part: Part
    index: int | None = None
    """Which message, from 0; None for another part."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a request begins with, before its messages."""

    wire: WireProfile
    tools: tuple[ToolSchema, ...]
    system: str

    def sections(self) -> Mapping[str, str]:
        """Return what each part comes to: the model by name, the others as digests that every process agrees on."""
        names = [field.name for field in fields(self.wire) if field.name not in _ELSEWHERE]
        tools = codec(self.wire.wire).head("", self.tools, "", self.wire)
        return {
            "model": self.wire.origin,
            "encoding": _digest(repr([(name, _in_order(getattr(self.wire, name))) for name in names])),
            "tools": _digest(tools),
            "system": _digest(self.system),
        }


@dataclass(frozen=True, slots=True)
class Footprint:
    """The last answered request, for whoever goes on after it."""

    sections: Mapping[str, str]
    digests: tuple[bytes, ...] | None = None
    """Of the head and after each message; None where an earlier process kept the sections alone."""


class Trail:
    """Knows where the next request of a line leaves the last answered one."""

    def __init__(self, prefix: Prefix, head: Head) -> None:
        self.before: Footprint | None = None
        """What was answered before this line was opened."""
        self.place: Place | None = None
        """Where the last step's request left the one before it; None: it extends it, or there was none."""
        self._prefix = prefix
        self._head = head
        self._sections: Mapping[str, str] = {}
        self._answered: Sent | None = None
        self._changed: int | None = None

    @property
    def sections(self) -> Mapping[str, str]:
        """What the parts of the head come to."""
        self._sections = self._sections or self._head.sections()
        return self._sections

    def note(self, differs: int | None) -> None:
        """Take the first message that was replaced since the last request, of whatever purpose."""
        if differs is not None:
            self._changed = differs if self._changed is None else min(self._changed, differs)

    def depart(self, index_of: Callable[[int], int] | None = None) -> None:
        """Compare the step's request that is about to leave.

        Args:
            index_of: says which message of the history stands at a place of the request, where that is not the same.
        """
        self.place = place = self._place()
        if index_of is not None and place is not None and place.index is not None:
            self.place = Place(place.part, index_of(place.index))

    def answered(self, sent: Sent) -> None:
        """Take the step's request that was answered: the next one is compared with it."""
        self._answered, self._changed = sent, None

    def footprint(self) -> Footprint | None:
        """Return the last answered request, None where none was."""
        sent = self._answered
        if sent is None:
            return self.before
        kept = min(sent.upto, len(self._prefix))
        return Footprint(self.sections, self._prefix.digests(kept))

    def _place(self) -> Place | None:
        if self._answered is not None:
            is_same = self._prefix.extends(self._answered)
            return None if is_same else Place("message", min(self._changed or 0, self._answered.upto))
        if self.before is None:
            return None
        part = _first_other(self.before.sections, self.sections)
        if part is not None:
            return Place(part)
        return None if self.before.digests is None else self._other_message(self.before.digests)

    def _other_message(self, digests: Sequence[bytes]) -> Place | None:
        index = self._prefix.first_difference(digests)
        if index is not None:
            return Place("message", max(0, index - 1))
        is_shorter = len(self._prefix) + 1 < len(digests)
        return Place("message", len(self._prefix)) if is_shorter else None


def _first_other(before: Mapping[str, str], after: Mapping[str, str]) -> Part | None:
    parts: tuple[Part, ...] = ("model", "encoding", "tools", "system")
    return next((part for part in parts if before.get(part) != after.get(part)), None)


def _in_order(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def _digest(data: str | bytes) -> str:
    encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()
