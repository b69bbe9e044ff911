"""The body of an answer as a whole, up to a bound, in both colours side by side.

Floor: 2. Owns: how much is read; never: what it says.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from plait.core.exchange import ProviderFailed
from plait.models.transport import AsyncStream, Stream

_ERROR_BYTES_MAX: Final = 65_536
"""How much of an error's body is read."""


def whole_body(stream: Stream, bytes_max: int) -> bytes | None:
    """Read a body to its end, and close its stream; None for one that is larger.

    Raises:
        ProviderFailed: it breaks off.
    """
    body = bytearray()
    try:
        for piece in stream:
            body += piece
            if len(body) > bytes_max:
                return None
    finally:
        stream.close()
    return bytes(body)


async def awhole_body(stream: AsyncStream, bytes_max: int) -> bytes | None:
    """The same in an event loop."""
    body = bytearray()
    try:
        async for piece in stream:
            body += piece
            if len(body) > bytes_max:
                return None
    finally:
        await stream.aclose()
    return bytes(body)


def error_body(stream: Stream) -> bytes:
    """Read why a request was refused; a body that breaks off says what it said. The stream stays open."""
    body = bytearray()
    with suppress(ProviderFailed):
        for piece in stream:
            body += piece
            if len(body) >= _ERROR_BYTES_MAX:
                break
    return bytes(body)


async def aerror_body(stream: AsyncStream) -> bytes:
    """The same in an event loop."""
    body = bytearray()
    with suppress(ProviderFailed):
        async for piece in stream:
            body += piece
            if len(body) >= _ERROR_BYTES_MAX:
                break
    return bytes(body)
