"""Unpacking gzip as it arrives, in bounded steps.

Floor: 1. Owns: one gzip member; never: what was packed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

MAGIC: Final = b"\x1f\x8b"
_STEP_BYTES: Final = 4096
"""Gzip packs at most about 1,030 to one, so a step never unpacks to more than some 4 MiB."""


class Gunzip:
    """Unpacks one gzip member; `problem` is a sentence once its bytes are damaged."""

    def __init__(self) -> None:
        self.problem = ""
        self._inflate = zlib.decompressobj(wbits=31)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to, step by step."""
        for start in range(0, len(data), _STEP_BYTES):
            if self.problem or self._inflate.eof:
                return
            step = data[start : start + _STEP_BYTES]
            before = self._inflate.copy()
            try:
                plain = self._inflate.decompress(step)
            except zlib.error:
                self._inflate = before
                yield from self._unpack_to_damage(step)
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
