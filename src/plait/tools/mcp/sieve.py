"""Between a server and the protocol: what comes through is a message that somebody here waits for.

Floor: 3. Owns: noise, floods and notifications that nobody asked for; never: answering.

Progress and log notifications go to the server's log and no further. A server may ask plait things (to sample, to
ask the user, for its roots); the protocol's client declines, and one that asks without end is cut off.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

from plait.tools.mcp.lines import TooLong, Unreadable, messages_in
from plait.tools.mcp.log import ServerLog

REQUESTS_MAX: Final = 1_000
"""So many questions a server may ask in the life of one connection."""
_LET_THROUGH: Final = frozenset({"notifications/tools/list_changed", "notifications/cancelled"})
_LISTENING: Final = "notifications/subscriptions/"
_LOG_CHARS_MAX: Final = 1_000
_LIST_VERSION: Final = "2025-11-25"
_FAILED: Final = -32_000


class Flooded(Exception):
    """The server asks without end."""


class Sieve:
    """Decides about each line and each message of one connection."""

    def __init__(self, log: ServerLog, types: Any) -> None:
        self._log = log
        self._types = types
        self._requests = 0
        self.has_passed = False
        """Something of the protocol has come."""

    def messages(self, line: bytes | TooLong) -> Iterator[Any]:
        """Yield the message that a line is or holds; noise goes to the log."""
        if isinstance(line, TooLong):
            self._log.add(f"a line of {line.size_bytes:,} bytes was skipped".encode(), "plait")
            if line.id is not None:
                yield self._error(line.id, f"the answer has {line.size_bytes:,} bytes, which is too much to read")
            return
        for part in itertools.islice(messages_in(line), 4):
            message = self._message(part)
            if message is None:
                continue
            if part is not line and len(part) < len(line.strip()):
                self._log.add(line[: len(line) - len(part)], "stdout")
            if self.lets_through(message):
                yield message
            return
        if line.strip():
            self._log.add(line, "stdout")

    def _message(self, part: bytes) -> Any:
        """Return the message that some bytes are, or None. An answer that cannot be read is an error for whoever waits
        for it: they would wait until their time is up, and not know whether the call was made."""
        adapter = self._types.jsonrpc_message_adapter
        try:
            return adapter.validate_json(part, by_name=False)
        except ValueError as error:
            is_deep = "recursion limit" in str(error)
        again = Unreadable(part)
        if again.text is not None and not is_deep:
            try:
                return adapter.validate_json(again.text, by_name=False)
            except ValueError:
                pass
        if again.id is None:
            return None
        self._log.add(part, "stdout")
        what = "is nested too deeply to be read" if is_deep else "is not what the protocol says"
        return self._error(again.id, f"the answer {what}")

    def lets_through(self, message: Any) -> bool:
        """Say whether a message goes on to the client. Raises `Flooded`."""
        self.has_passed = True
        method = getattr(message, "method", None)
        if method is None:
            self._mend(getattr(message, "result", None))
            return True
        if getattr(message, "id", None) is not None:
            self._requests += 1
            self._log.add(f"it asked: {method}".encode("utf-8", "replace"), "plait")
            if self._requests > REQUESTS_MAX:
                self._log.add(f"it asked more than {REQUESTS_MAX} questions and was cut off".encode(), "plait")
                raise Flooded
            return True
        if method in _LET_THROUGH or method.startswith(_LISTENING):
            return True
        self._log.add(str(getattr(message, "params", ""))[:_LOG_CHARS_MAX].encode("utf-8", "replace"), method)
        return False

    def _mend(self, result: object) -> None:
        """Take what is no tool out of a list of tools: it would cost all the others."""
        if not isinstance(result, dict) or not isinstance(tools := result.get("tools"), list):
            return
        result["tools"] = [tool for tool in tools if self._is_tool(tool)]

    def _is_tool(self, tool: object) -> bool:
        from mcp_types.methods import validate_server_result

        try:
            validate_server_result("tools/list", _LIST_VERSION, {"tools": [tool]})
        except ValueError as error:
            self._log.add(f"a tool that is none was left out: {tool!s:.200}: {error!s:.300}".encode(), "plait")
            return False
        return True

    def _error(self, id: int | str, text: str) -> Any:
        error = self._types.ErrorData(code=_FAILED, message=text)
        return self._types.JSONRPCError(jsonrpc="2.0", id=id, error=error)


class Incoming:
    """The read stream that the client is given: what a source brings, after the sieve.

    `on_end` is called once when nothing more will come.
    """

    def __init__(self, source: AsyncIterator[Any], on_end: Callable[[], None]) -> None:
        self._source = source
        self._on_end = on_end

    async def receive(self) -> Any:
        """Return the next message; raise `anyio.EndOfStream` at the end."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            import anyio

            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Take no more."""
        self._on_end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._source)
        except (StopAsyncIteration, Flooded):
            self._on_end()
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def sifted(stream: Any, sieve: Sieve) -> AsyncIterator[Any]:
    """Yield what of an SDK transport's stream passes the sieve."""
    async for item in stream:
        if isinstance(item, Exception) or sieve.lets_through(item.message):
            yield item
