"""Bodies that a server packed although nobody asked it to.

Floor: 2. Owns: `Content-Encoding`; never: what was packed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from plait.models.failures import encoding_failure
from plait.wire.gunzip import Gunzip

Unpack = Callable[[bytes], Iterator[bytes]]


def unpacker(encoding: str, url: str) -> Unpack | None:
    """Return what unpacks pieces of a body, in bounded steps; None where nothing is packed.

    Raises:
        ProviderFailed: the encoding is not known, at once; the bytes are damaged, where they are.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ("gzip", "x-gzip"):
        raise encoding_failure(url, f"{encoding!r}")
    gunzip = Gunzip()

    def unpack(data: bytes) -> Iterator[bytes]:
        for plain in gunzip.feed(data):
            if plain:
                yield plain
        if gunzip.problem:
            raise encoding_failure(url, gunzip.problem)

    return unpack
