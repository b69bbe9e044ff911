"""Unpacking gzip as it arrives, in bounded steps.

Floor: 1. Owns: gzip members, one after another; never: what was packed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

MAGIC: Final = b"\x1f\x8b"
_STEP_BYTES: Final = 4096
"""Gzip packs at most about 1,030 to one, so a step never unpacks to more than some 4 MiB."""


class Gunzip:
    """Unpacks gzip; `problem` is a sentence once its bytes are damaged. What follows that is no gzip is left out."""

    def __init__(self) -> None:
        self.problem = ""
        self._inflate = zlib.decompressobj(wbits=31)
        self._between: bytes | None = b""
        """Bytes after a member, while they may be the first of the next one; None once they are not."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to, step by step."""
        for start in range(0, len(data), _STEP_BYTES):
            rest = data[start : start + _STEP_BYTES]
            while rest and not self.problem and self._between is not None:
                if self._inflate.eof:
                    rest = self._begin_next(rest)
                    continue
                yield from self._unpack(rest)
                rest = self._inflate.unused_data

    def _begin_next(self, data: bytes) -> bytes:
        """Return the bytes of the next member, nothing while it is not known whether there is one."""
        start = (self._between or b"") + data
        self._between = start if MAGIC.startswith(start) and start != MAGIC else None
        if not start.startswith(MAGIC):
            return b""
        self._inflate, self._between = zlib.decompressobj(wbits=31), b""
        return start

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        before = self._inflate.copy()
        try:
            plain = self._inflate.decompress(data)
        except zlib.error:
            self._inflate = before
            yield from self._unpack_to_damage(data)
        else:
            yield plain

    def _unpack_to_damage(self, data: bytes) -> Iterator[bytes]:
        # What came before the damage counts, wherever a read happened to end: so it is found byte by byte.
        for position in range(len(data)):
            try:
                yield self._inflate.decompress(data[position : position + 1])
            except zlib.error as error:
                self.problem = f"the body is damaged gzip ({error})"
                return
