"""What a transport makes of limits that no clock knows, and of bodies that unpack to far more than was sent."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from plait.models.http.async_http import AsyncHttpTransport
from plait.models.http.sync_http import SyncTransport
from plait.models.transport import Aborted, Timeouts
from plait.testing import Raw, ScriptServer
from tests.unit.models.http.transports import FETCHERS, request_to


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_limit_beyond_all_clocks_is_none(colour: str) -> None:
    """A limit that no socket can wait for is as good as no limit."""
    for_ever = Timeouts(connect_s=1e300, first_byte_s=1e300, idle_s=1e300, total_s=1e300)
    with ScriptServer(["Hello."]) as server:
        (got,) = FETCHERS[colour]([request_to(server.url)], for_ever)
    assert b"Hello." in got.body


def test_what_is_being_unpacked_can_be_stopped() -> None:
    """A stop in the middle of one packed read is heeded at the next piece, not after all that it unpacks to."""
    bomb = gzip.compress(b": x\n\n" * 10_000_000, 9)

    async def fetch_async(url: str) -> int:
        transport = AsyncHttpTransport()
        stream = await transport.open(request_to(url), Timeouts())
        pieces = 0
        try:
            async for _ in stream:
                pieces += 1
                stream.abort()
        except Aborted:
            return pieces
        finally:
            await stream.aclose()
            await transport.aclose()
        return -1

    with ScriptServer([Raw(bomb, {"Content-Encoding": "gzip"})] * 2) as server:
        stream = SyncTransport().open(request_to(server.url), Timeouts())
        pieces = iter(stream)
        next(pieces)
        stream.abort()
        with pytest.raises(Aborted):
            next(pieces)
        stream.close()
        assert 1 == asyncio.run(fetch_async(server.url))
