"""One connection to one server, from its beginning to its end.

Floor: 3. Owns: the client of the `mcp` package and the task that it lives in; never: when a server is begun again.

The client has to be entered and left by one task, so that each connection has a task of its own, which ends when the
server does or when it is told to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from plait._version import __version__
from plait.core.errors import MCPError
from plait.core.redact import redact_secrets
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.http import http_transport
from plait.tools.mcp.log import ServerLog
from plait.tools.mcp.probe import Probe
from plait.tools.mcp.sdk import load_sdk
from plait.tools.mcp.shown import TOOLS_MAX
from plait.tools.mcp.sieve import Sieve
from plait.tools.mcp.stdio import stdio_transport

_PAGES_MAX: Final = 50
_SAID_CHARS_MAX: Final = 300
_CLOSED: Final = -32_000
"""The code with which the package says that a connection has ended."""
_TIMED_OUT: Final = -32_001


class Ended(Exception):
    """The connection ended while an answer was waited for: what became of the call is not known."""


class TimedOut(Exception):
    """No answer came in time; the server was told that none is wanted any more."""


class Link:
    """A connection; every method runs on the event loop that `open` ran on."""

    def __init__(self, config: ServerConfig, log: ServerLog, on_list_changed: Callable[[], None]) -> None:
        self._config = config
        self._log = log
        self._on_list_changed = on_list_changed
        self._client: Any = None
        self._sieve: Any = None
        self._types: Any = None
        self._keeper: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True once nothing more will come from the server."""
        return self._over.is_set()

    @property
    def info(self) -> dict[str, object]:
        """What the server says of itself: `name` and `version`, where it does."""
        found = self._client.server_info
        return {} if found is None else dict(found.model_dump(by_alias=True, mode="json", exclude_none=True))

    @property
    def protocol(self) -> str:
        """The version of the protocol that both speak."""
        return str(self._client.protocol_version)

    async def open(self, timeout_s: float) -> None:
        """Begin the server and agree on a protocol with it.

        Raises `MCPError` when that fails or takes longer. Cancel: the server is ended.
        """
        self._need_sight()
        self._types = await asyncio.to_thread(load_sdk)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A server of the older kind that ends at the newer kind's first question is asked the older one alone.
        for mode in ("auto", "legacy"):
            ready = asyncio.get_running_loop().create_future()
            self._over.clear()
            self._keeper = asyncio.create_task(self._keep(mode, ready))
            try:
                await asyncio.wait({ready}, timeout=timeout_s)
            except asyncio.CancelledError:
                await self.close()
                raise
            if not ready.done():
                await self.close()
                raise MCPError(
                    f"the MCP server {self._config.name!r} did not begin within {timeout_s:g} s{self._said()}",
                    hint="give it more time with 'timeout', or run it by hand to see what it waits for",
                )
            if (error := ready.exception()) is None:
                return
            if not (self._config.kind == "stdio" and _is_end(error)) or self._sieve.has_passed:
                break
            if mode == "auto":
                self._log.forget()
        error = ready.exception()
        assert error is not None
        raise self._failed(error) from error

    async def tools(self) -> list[Any]:
        """Return the tools that the server lists, as the package describes them; no further page than is shown."""
        found: list[Any] = []
        cursor = None
        for _ in range(_PAGES_MAX):
            page = await self._asked(self._client.list_tools(cursor=cursor, cache_mode="bypass"))
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) > TOOLS_MAX:
                break
        return found

    async def call(self, name: str, arguments: Mapping[str, object]) -> Any:
        """Call a tool once and return the package's `CallToolResult`.

        Raises `MCPError` for an error that the server answers with, `TimedOut`, and `Ended`. Cancel: the server is
        told so, and an answer that comes after that is not looked at.
        """
        return await self._asked(self._client.call_tool(name, dict(arguments)))

    async def close(self) -> None:
        """End the connection, and the process when it is one."""
        self._closing.set()
        keeper = self._keeper
        if keeper is None:
            return
        if not keeper.done() and self._client is None:
            keeper.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({keeper})

    async def _asked(self, asking: Any) -> Any:
        """Wait for an answer, but no longer than the server lives."""
        work, over = asyncio.ensure_future(asking), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                # What came just before the end is an answer.
                await asyncio.wait({work}, timeout=0.05)
            if not work.done():
                raise Ended
            return work.result()
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait({work}, timeout=1.0)
            raise
        except Exception as error:  # boundary: whatever the package raises is one of three things
            raise self._translated(error) from error
        finally:
            over.cancel()
            work.cancel()

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, (Ended, MCPError)):
            return error
        code = getattr(error, "code", None)
        if _is_end(error):
            return Ended()
        if code == _TIMED_OUT or isinstance(error, TimeoutError):
            return TimedOut()
        return MCPError(f"the MCP server {self._config.name!r} answered: {_worded(error)}", hint="see its log")

    async def _keep(self, mode: str, ready: asyncio.Future[None]) -> None:
        listening: asyncio.Task[None] | None = None
        try:
            async with self._client_of(mode) as client:
                self._client = client
                listening = asyncio.create_task(self._listen(client))
                ready.set_result(None)
                await self._closing_or_over()
                listening.cancel()
                await asyncio.wait({listening})
        except (Exception, asyncio.CancelledError) as error:  # boundary: whoever waits for the connection hears of it
            if not ready.done():
                ready.set_exception(_innermost(error))
                ready.exception()
        finally:
            self._over.set()
            self._log.close()

    async def _closing_or_over(self) -> None:
        waits = {asyncio.ensure_future(self._closing.wait()), asyncio.ensure_future(self._over.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    @asynccontextmanager
    async def _client_of(self, mode: str) -> AsyncIterator[Any]:
        from mcp.client.client import Client

        async def heard(message: Any) -> None:
            if isinstance(message, self._types.ToolListChangedNotification):
                self._on_list_changed()

        client = Client(
            self._transport(),
            mode=mode,
            read_timeout_seconds=self._config.timeout_s,
            message_handler=heard,
            client_info=self._types.Implementation(name="plait", version=__version__),
            cache=None,
        )
        async with client:
            # It would drop an answer that does not fit the tool's own promise: the call has been made all the same.
            client.session.validate_tool_result = _no_check  # type: ignore[method-assign]
            yield client

    def _need_sight(self) -> None:
        """Raise `MCPError` for a program that its fence hides: inside it would only be no such file."""
        config, fence = self._config, self._config.fence
        if fence is None or config.kind != "stdio":
            return
        path = config.env.get("PATH") or os.environ.get("PATH", os.defpath)
        if hidden := fence.unseen(config.command, path=path, cwd=config.cwd or ""):
            raise MCPError(
                f"the MCP server {config.name!r} cannot be started: {config.command!r} is not visible in the sandbox",
                hint=f"add to the sandbox's read_only_paths: {', '.join(map(repr, hidden))}",
            )

    def _transport(self) -> Any:
        sieve = self._sieve = Sieve(self._log, self._types)
        if self._config.kind == "stdio":
            return stdio_transport(self._config, self._log, sieve, Probe(self._types), self._over.set)
        return http_transport(self._config, sieve, self._over.set)

    async def _listen(self, client: Any) -> None:
        """Hear of changed tools where the newer protocol wants to be asked for that."""
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._on_list_changed()
        except Exception:  # boundary: a server that cannot tell of changes is a server all the same
            return

    def _failed(self, error: BaseException) -> MCPError:
        config = self._config
        if isinstance(error, FileNotFoundError):
            missing = config.cwd if config.cwd and error.filename == config.cwd else config.command
            return MCPError(
                f"the MCP server {config.name!r} cannot be started: there is no {missing!r}",
                hint="install it, or mend its 'command' or 'cwd'",
            )
        if isinstance(error, (OSError, ValueError)) and config.kind == "stdio" and not _is_end(error):
            reason = getattr(error, "strerror", None) or str(error)
            return MCPError(f"the MCP server {config.name!r} cannot be started: {reason}", hint="mend its 'command'")
        what = "ended before it was ready" if _is_end(error) else f"cannot be used: {_worded(error)}"
        where = f"its log is {str(self._log.path)!r}" if self._log.path else "run it by hand to see why"
        return MCPError(f"the MCP server {config.name!r} ({config.place}) {what}{self._said()}", hint=where)

    def _said(self) -> str:
        tail = self._log.tail()
        return f"; it said: {tail}" if tail else ""


async def _no_check(name: str, result: object) -> None:
    """Stand for a check that is not wanted."""


def _is_end(error: BaseException) -> bool:
    """Say whether an error means that the connection has ended."""
    if isinstance(error, (Ended, BrokenPipeError, ConnectionResetError)):
        return True
    return getattr(error, "code", None) == _CLOSED and "closed" in str(error).lower()


def _innermost(error: BaseException) -> BaseException:
    """Return what lies inside groups of errors; a cancellation as the end that it is."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return Ended() if isinstance(error, asyncio.CancelledError) else error


def _worded(error: BaseException) -> str:
    if type(error).__name__ == "ValidationError":
        return "the answer is not what the protocol says"
    text = " ".join(str(error).split()) or type(error).__name__
    return redact_secrets(text)[0][:_SAID_CHARS_MAX]
