"""The output of a command in bounded memory: its head and its tail kept, all of it spilled to a file on request.

Floor: 2. Owns: what is kept of a stream of bytes; never: reading the stream.
"""

from __future__ import annotations

import os
from typing import Final

from plait.core.values import dataclass
from plait.hands import beneath
from plait.hands.text import BoundedText, from_whole_character, join_ends, until_whole_character

_SPILL: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | beneath.NO_LINK | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """How much of an output is kept, in bytes."""

    head_bytes: int = 64 * 1024
    tail_bytes: int = 64 * 1024
    spill_bytes_max: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Captured:
    """What is left of an output; as text, bytes that are not UTF-8 become U+FFFD."""

    head_bytes: bytes
    """All of it when nothing was dropped."""
    tail_bytes: bytes
    total_bytes: int
    spill_path: str | None = None
    """The file with the whole output; written only when something was dropped."""
    is_spill_whole: bool = True
    """False when the spill ends early: at its size limit, or because the disk was full."""

    @property
    def head(self) -> str:
        """The head as text."""
        return self.head_bytes.decode("utf-8", "replace")

    @property
    def tail(self) -> str:
        """The tail as text; empty when everything is in the head."""
        return self.tail_bytes.decode("utf-8", "replace")

    @property
    def dropped_bytes(self) -> int:
        """How many bytes are neither in the head nor in the tail."""
        return self.total_bytes - len(self.head_bytes) - len(self.tail_bytes)

    @property
    def is_truncated(self) -> bool:
        """True when something was dropped."""
        return self.dropped_bytes > 0

    def bounded(self, hint: str = "") -> BoundedText:
        """Head and tail as one text around the marker."""
        return join_ends(self.head, self.tail, self.dropped_bytes, hint=hint)


class Capture:
    """Takes bytes of any amount; holds at most head + 2 × tail of them. For one thread at a time."""

    def __init__(self, limits: CaptureLimits | None = None, spill_path: str | None = None) -> None:
        """`spill_path` must not exist yet; it is created, readable by its owner only, when memory is not enough."""
        self._limits = limits or CaptureLimits()
        self._spill_path = spill_path
        self._spill_fd = -1
        self._spilled = 0
        self._is_spill_whole = True
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; never raises for what the spill cannot hold."""
        fitted = self.total_bytes <= self._in_memory
        self.total_bytes += len(data)
        if self._spill_path is not None and self.total_bytes > self._in_memory:
            if fitted:
                self._spill(bytes(self._head) + bytes(self._tail))
            self._spill(data)
        room = self._limits.head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._limits.tail_bytes:
            self._tail[:] = data[len(data) - self._limits.tail_bytes :]
            return
        self._tail += data
        if len(self._tail) > 2 * self._limits.tail_bytes:
            del self._tail[: len(self._tail) - self._limits.tail_bytes]

    @property
    def _in_memory(self) -> int:
        return self._limits.head_bytes + self._limits.tail_bytes

    def _spill(self, data: bytes) -> None:
        """Write to the spill file, which ends for good where it cannot go on."""
        if not self._is_spill_whole or self._spill_path is None:
            return
        room = self._limits.spill_bytes_max - self._spilled
        self._is_spill_whole = len(data) <= room
        rest = memoryview(data)[:room]
        try:
            if self._spill_fd < 0:
                self._spill_fd = os.open(self._spill_path, _SPILL, 0o600)
            while rest:
                written = os.write(self._spill_fd, rest)
                self._spilled += written
                rest = rest[written:]
        except OSError:
            self._is_spill_whole = False  # a full disk may not cost the command its result

    def finish(self) -> Captured:
        """Close the spill and return what was kept."""
        is_spilled = self._spill_fd >= 0
        if is_spilled:
            os.close(self._spill_fd)
            self._spill_fd = -1
        if self.total_bytes <= self._in_memory:
            return Captured(bytes(self._head + self._tail), b"", self.total_bytes)
        return Captured(
            until_whole_character(bytes(self._head)),
            from_whole_character(bytes(self._tail[max(0, len(self._tail) - self._limits.tail_bytes) :])),
            self.total_bytes,
            self._spill_path if is_spilled else None,
            self._is_spill_whole,
        )
