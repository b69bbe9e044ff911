"""The newer protocol's first question, taken back when an older server leaves it without an answer.

Floor: 3. Owns: how long that question waits; never: what is asked after it.

The `mcp` package asks a server whether it speaks the newer protocol and waits ten seconds for an answer before it goes
on with the older one. Servers that leave unknown requests unanswered would all be that slow; so the answer that they
owe, that there is no such method, is given for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

PROBE_S: Final = 3.0
_METHOD: Final = "server/discover"
_NO_METHOD: Final = -32_601


class Probe:
    """Watches the first exchange of one connection."""

    def __init__(self, types: Any) -> None:
        self._types = types
        self._id: int | str | None = None
        self._is_over = asyncio.Event()
        self._is_settled = False

    def sent(self, message: Any) -> None:
        """Hear of a message to the server; the time begins with the question."""
        if not self._is_settled and getattr(message, "method", None) == _METHOD:
            self._id = message.id
            asyncio.get_running_loop().call_later(PROBE_S, self._is_over.set)

    def came(self) -> None:
        """Hear that the server speaks: it will answer, if only with an error."""
        self._is_settled = True

    async def outlast(self, reading: Awaitable[bytes]) -> bytes | None:
        """Wait for bytes, or until the question is taken back, which is None; the bytes are then waited for again."""
        if self._is_settled:
            return await reading
        over = asyncio.ensure_future(self._is_over.wait())
        work = asyncio.ensure_future(reading)
        try:
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        except asyncio.CancelledError:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            raise
        finally:
            over.cancel()

    def answer(self) -> Any:
        """Return the answer in the server's place."""
        self._is_settled = True
        error = self._types.ErrorData(code=_NO_METHOD, message="there was no answer")
        return self._types.JSONRPCError(jsonrpc="2.0", id=self._id, error=error)
