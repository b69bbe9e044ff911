"""One MCP server for as long as somebody may call it: begun, listed, called, begun again when it has ended.

Floor: 3. Owns: when it is begun again, and what a call comes to whatever the server does; never: the model's names.

A call is sent once. When its server ends or does not answer, what became of it is not known, and that is its result:
nothing here sends it again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Final, Literal

from plait.core.errors import MCPError
from plait.core.messages import ToolResult
from plait.tools.mcp.answers import Bounds, result_of
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.link import Ended, Link, TimedOut
from plait.tools.mcp.log import ServerLog
from plait.tools.mcp.shown import Listing, Shown, listing_of

State = Literal["new", "starting", "ready", "failed", "closed"]

CONNECT_S: Final = 60.0
"""How long a server may take to begin, in the background."""
RESTARTS_MAX: Final = 3
RESTARTS_WITHIN_S: Final = 600.0
_RELIST_PAUSE_S: Final = 0.2
_RELIST_FIRST_S: Final = 0.02


class Server:
    """A server. All coroutines run on one event loop; the attributes may be read in any thread."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        log_dir: str | os.PathLike[str] | None = None,
        on_restarted: Callable[[Server], None] = lambda _: None,
    ) -> None:
        """Begin nothing yet.

        Args:
            on_restarted: called on the loop when the server was begun again after its end.
        """
        self.config = config
        self.state: State = "new"
        self.listing = Listing()
        self.error: MCPError | None = None
        """Why it could not be begun."""
        self.attempts = 0
        self.log = ServerLog(log_dir, config.name)
        self._on_restarted = on_restarted
        self._link: Link | None = None
        self._turn = asyncio.Lock()
        self._restarts: deque[float] = deque()
        self._relisting: asyncio.Task[None] | None = None
        self._is_stale = False
        self._reading: list[Future[None]] = []
        """Done when the list is what the server last said that it is, as far as it can be read; for any thread."""

    @property
    def info(self) -> dict[str, object]:
        """What the server says of itself."""
        return {} if self._link is None else self._link.info

    @property
    def protocol(self) -> str:
        """The protocol version that was agreed on; empty before."""
        return "" if self._link is None else self._link.protocol

    async def begin(self, timeout_s: float | None = None) -> None:
        """Start the server and list its tools; raise `MCPError` when that fails. Cancel: the server is ended."""
        async with self._turn:
            self.state = "starting"
            self.attempts += 1
            try:
                await self._open(timeout_s or max(CONNECT_S, self.config.timeout_s))
            except MCPError as error:
                self.state, self.error = "failed", error
                raise
            except BaseException:
                self.state = "failed"
                raise
            self.state, self.error = "ready", None

    async def call(
        self,
        tool: Shown,
        arguments: Mapping[str, object],
        bounds: Bounds,
        refusal: Callable[[], ToolResult | None] = lambda: None,
    ) -> ToolResult:
        """Call a tool once and return its result, whatever happens. Cancel: the server is told so.

        `refusal` is asked when the server lives and its list is as it last said: a result of its own stands in place of
        the call.
        """
        try:
            link = await self._alive(tool)
            for reading in self.readings():
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(reading)), self.config.timeout_s)
            if (refused := refusal()) is not None:
                return refused
            return result_of(await link.call(tool.own_name, arguments), bounds)
        except Ended:
            what = f"The MCP server {self.config.name!r} ended during the call."
        except (TimedOut, TimeoutError):
            what = f"The MCP server {self.config.name!r} did not answer within {self.config.timeout_s:g} s."
        except MCPError as error:
            text = f"MCP error: {error.message}"
            return ToolResult("", text, is_error=True, data={"ok": False, "error": error.message})
        told = ToolResult("", what, is_error=True, data={"ok": False, "error": what})
        if tool.is_read_only:
            return replace(told, content=f"{what} It may be called again.")
        return replace(
            told,
            content=f"{what} Whether the call took effect is not known: check before repeating it.",
            status="unknown",
        )

    def readings(self) -> tuple[Future[None], ...]:
        """Return what is done once a list that was said to have changed is read; in any thread."""
        return tuple(self._reading)

    async def close(self) -> None:
        """End the server. What still waits for an answer gets its result."""
        self.state = "closed"
        if self._relisting is not None:
            self._relisting.cancel()
        link, self._link = self._link, None
        if link is not None:
            await link.close()
        self.log.close()

    async def _open(self, timeout_s: float) -> None:
        link = Link(self.config, self.log, self._list_changed)
        await link.open(timeout_s)
        if self.state == "closed":
            await link.close()
            raise self._failure("is closed")
        self._link = link
        try:
            self.listing = await self._listed(link)
        except BaseException:
            self._link = None
            await link.close()
            raise

    async def _listed(self, link: Link) -> Listing:
        try:
            return listing_of(self.config.name, await link.tools())
        except Ended:
            raise self._failure("ended while it listed its tools") from None
        except TimedOut:
            raise self._failure(f"did not list its tools within {self.config.timeout_s:g} s") from None

    async def _alive(self, tool: Shown) -> Link:
        """Return a connection that lives; a server that has ended is begun again, a few times."""
        async with self._turn:
            link = self._link
            if link is not None and not link.is_over:
                return link
            if self.state == "closed":
                raise self._failure("is closed")
            now_s = time.monotonic()
            while self._restarts and self._restarts[0] < now_s - RESTARTS_WITHIN_S:
                self._restarts.popleft()
            if len(self._restarts) >= RESTARTS_MAX:
                raise self._failure(f"has ended {RESTARTS_MAX + 1} times and is not begun again for some minutes")
            self._restarts.append(now_s)
            if link is not None:
                await link.close()
            await self._open(self.config.timeout_s)
            self._on_restarted(self)
            if all(shown.own_name != tool.own_name for shown in self.listing.tools):
                raise self._failure(f"has no tool {tool.own_name!r} any more")
            assert self._link is not None
            return self._link

    def _list_changed(self) -> None:
        """List again soon; however often a server says so, not more than a few times a second."""
        self._is_stale = True
        if self.state == "closed":
            return
        if not self._reading:
            self._reading.append(Future())
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.get_running_loop().create_task(self._relist())

    async def _relist(self) -> None:
        try:
            await asyncio.sleep(_RELIST_FIRST_S)
            while self._is_stale and (link := self._link) is not None and not link.is_over:
                self._is_stale = False
                self.listing = await self._listed(link)
                self._have_read()
                await asyncio.sleep(_RELIST_PAUSE_S)
        except MCPError:
            return  # the tools stay as they were; a call will say what is wrong
        finally:
            self._have_read()

    def _have_read(self) -> None:
        while self._reading:
            self._reading.pop().set_result(None)

    def _failure(self, what: str) -> MCPError:
        tail = self.log.tail()
        said = f"; it said: {tail}" if tail else ""
        return MCPError(f"the MCP server {self.config.name!r} {what}{said}", hint="see its log")
