"""The pipe to a host: nothing on standard output but messages, and no line from it that could do harm.

Floor: 6. Owns: the two descriptors and the bytes on them; never: a message's meaning.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from plait.tools.mcp.lines import Lines, TooLong
from plait.tools.mcp.sieve import Incoming

LINE_BYTES_MAX: Final = 8 << 20
_READ_BYTES: Final = 1 << 16
_AHEAD: Final = 16
_PARSE_ERROR: Final = -32_700
_INVALID_REQUEST: Final = -32_600


class Pipe:
    """Takes standard input and output for messages while its block lasts.

    Meanwhile the process's own standard input is empty and its standard output goes to standard error: what a tool
    prints, and what a child writes or reads, does not touch the protocol.
    """

    def __init__(self) -> None:
        self._reading = self._writing = -1

    def __enter__(self) -> Self:
        sys.stdout.flush()
        self._reading, self._writing = os.dup(0), os.dup(1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        # The descriptors themselves stay: a thread may still be in a call on one of them.
        os.dup2(self._writing, 1)

    def streams(self, types: Any) -> tuple[Incoming, Outgoing]:
        """Return the two streams that the package's server takes; on a running loop."""
        outgoing = Outgoing(self._writing)
        source = _Source(self._reading, asyncio.get_running_loop())
        return Incoming(_messages(source, outgoing, types), lambda: None), outgoing


class _Source:
    """Reads lines in a thread of its own, a few ahead of who takes them."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._loop = loop
        self._lines: asyncio.Queue[bytes | TooLong | None] = asyncio.Queue(_AHEAD)
        threading.Thread(target=self._read, name="plait-mcp-in", daemon=True).start()

    async def take(self) -> bytes | TooLong | None:
        """Return the next line, or None at the end."""
        return await self._lines.get()

    def _read(self) -> None:
        lines = Lines(LINE_BYTES_MAX)
        try:
            while data := os.read(self._fd, _READ_BYTES):
                for line in lines.feed(data):
                    self._give(line)
            for line in lines.close():
                self._give(line)
            self._give(None)
        except (OSError, RuntimeError):
            with suppress(RuntimeError):  # nobody takes lines any more
                self._give(None)

    def _give(self, line: bytes | TooLong | None) -> None:
        asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()


async def _messages(source: _Source, outgoing: Outgoing, types: Any) -> AsyncIterator[Any]:
    """Yield the messages of a host; a line that is none is answered with an error."""
    from mcp.shared.message import SessionMessage

    while (line := await source.take()) is not None:
        if isinstance(line, TooLong):
            what = f"a message may have {LINE_BYTES_MAX:,} bytes, not {line.size_bytes:,}"
            await outgoing.refuse(types, line.id, _INVALID_REQUEST, what)
            continue
        if not line.strip():
            continue
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            await outgoing.refuse(types, None, _PARSE_ERROR, "a line is one JSON-RPC message")
            continue
        yield SessionMessage(message)


class Outgoing:
    """Writes messages in a thread of its own, in their order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._work: queue.SimpleQueue[tuple[bytes, asyncio.AbstractEventLoop, asyncio.Future[None]]]
        self._work = queue.SimpleQueue()
        threading.Thread(target=self._write, name="plait-mcp-out", daemon=True).start()

    async def send(self, item: Any) -> None:
        """Write a message; raise `anyio.BrokenResourceError` when nobody reads it."""
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace") + b"\n"
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._work.put((data, loop, done))
        try:
            await done
        except OSError as error:
            import anyio

            raise anyio.BrokenResourceError from error

    async def refuse(self, types: Any, id: int | str | None, code: int, what: str) -> None:
        """Answer what is no message."""
        from mcp.shared.message import SessionMessage

        error = types.JSONRPCError(jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=what))
        await self.send(SessionMessage(error))

    async def aclose(self) -> None:
        """Nothing: the pipe is its owner's."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _write(self) -> None:
        while True:
            data, loop, done = self._work.get()
            fault: OSError | None = None
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError as error:
                fault = error
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(_settle, done, fault)


def _settle(done: asyncio.Future[None], fault: OSError | None) -> None:
    if done.done():
        return
    if fault is None:
        done.set_result(None)
    else:
        done.set_exception(fault)
