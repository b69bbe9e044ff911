"""The MCP servers of one session or agent: begun together, none of them in the way of a turn.

Floor: 3. Owns: how long a turn waits for them, the names of their tools, what is told of them; never: one server.

Servers live on a loop of their own, so that sync and async callers, and callers on any loop, share one connection.
What changes meanwhile is taken over when `tools` is asked for, which is between turns, and is told then.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import field
from typing import Any, Final

from plait.core.cancel import Cancel
from plait.core.errors import MCPError
from plait.core.messages import ToolResult
from plait.core.values import dataclass
from plait.events.named import McpServer
from plait.kernel.tools import Tool, ToolContext
from plait.tools.mcp.agreed import News
from plait.tools.mcp.answers import Bounds
from plait.tools.mcp.changes import change_between
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.holding import Holding
from plait.tools.mcp.naming import names_of
from plait.tools.mcp.pins import Pins
from plait.tools.mcp.sdk import need_sdk
from plait.tools.mcp.server import Server
from plait.tools.mcp.shown import Listing, Shown
from plait.tools.portal import Portal

ATTEMPTS_MAX: Final = 3
"""How often a server that fails is tried, once before each turn."""
CLOSE_S: Final = 10.0
_REASONS_MAX: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersOptions:
    """How the servers of one session behave."""

    log_dir: str | os.PathLike[str] | None = None
    """Where each server's log goes; None keeps none."""
    pins_dir: str | os.PathLike[str] | None = None
    """Where it is kept which tools of each server were agreed to; None keeps it for these servers' life alone."""
    bounds: Bounds = field(default_factory=Bounds)
    has_bare_names: bool = False
    """Tools keep their own names where nobody else has them."""
    check: Callable[[dict[str, Any]], object] | None = None
    """Raises `ValueError` for a schema that is none, whose tool is not shown; or returns what checks arguments."""


class Servers:
    """Some servers. Safe in any thread."""

    def __init__(
        self, configs: Sequence[ServerConfig], options: ServersOptions | None = None, *, portal: Portal | None = None
    ) -> None:
        """Begin nothing yet. Raises `ConfigError` when there are servers and the `mcp` package is not installed."""
        if configs:
            need_sdk()
        self.options = options = options or ServersOptions()
        self._portal, self._owns_portal = portal or Portal(), portal is None
        self.holding = Holding(configs, None if options.pins_dir is None else Pins(options.pins_dir), self._agreed)
        self._notices: deque[McpServer] = deque()
        self.servers = tuple(
            Server(config, log_dir=options.log_dir, on_restarted=self._restarted) for config in configs
        )
        self._lock = threading.Lock()
        self._beginning: dict[str, Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """What begins them, on the loop: a future from another thread is done before its task is."""
        self._begun_s: dict[str, float] = {}
        self._told_late: set[str] = set()
        self._taken: dict[str, Listing] = {}
        self._tools: tuple[Tool, ...] = ()
        self._key: object = None
        self._gated: set[tuple[str, str]] = set()
        """Tools that were asked for, by their server's name and their own."""
        self._is_closed = False

    def begin(self) -> None:
        """Start every server that was not started, in the background; those that failed too, a few times."""
        with self._lock:
            for server in self.servers:
                running = self._beginning.get(server.config.name)
                is_to_begin = running is None or (running.done() and server.state == "failed")
                if is_to_begin and not self._is_closed and server.attempts < ATTEMPTS_MAX:
                    self._begun_s.setdefault(server.config.name, time.monotonic())
                    self._beginning[server.config.name] = self._portal.submit(self._begin(server))

    def beginnings(self) -> list[tuple[Server, Future[None]]]:
        """Return what is being started, or was."""
        return [(server, self._beginning[server.config.name]) for server in self.servers]

    def settle(self, cancel: Cancel | None = None) -> None:
        """Wait until each server has begun, has failed, or has had its time. Cancel: no longer waits."""
        self.begin()
        stopped: Future[None] = Future()
        undo = None if cancel is None else cancel.on_cancel(lambda: _resolve(stopped))
        try:
            while (left := self._awaited()) and not stopped.done():
                waits, left_s = left
                futures.wait([*waits, stopped], timeout=left_s, return_when=futures.FIRST_COMPLETED)
        finally:
            if undo is not None:
                undo()
        self._tell_late()

    async def asettle(self) -> None:
        """Do what `settle` does, on any loop."""
        self.begin()
        while left := self._awaited():
            waits, left_s = left
            wrapped = [asyncio.shield(asyncio.wrap_future(wait)) for wait in waits]
            await asyncio.wait(wrapped, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        self._tell_late()

    def tools(self, reserved: Collection[str] = ()) -> tuple[Tool, ...]:
        """Return the tools of all servers that are there, in the order of their declaration; `reserved` names are
        somebody else's. The same object as long as nothing has changed. What has changed is a notice."""
        with self._lock:
            ready = [(server, server.listing) for server in self.servers if server.state == "ready"]
            tools = self._taken_over(ready, reserved)
            self._tell_news(ready)
            return tools

    def _taken_over(self, ready: Sequence[tuple[Server, Listing]], reserved: Collection[str]) -> tuple[Tool, ...]:
        present = [(server, self.holding.shown(server, listing)) for server, listing in ready]
        key = (tuple((server.config.name, listing.digest) for server, listing in present), frozenset(reserved))
        if key == self._key:
            return self._tools
        self._key = key
        names = names_of(present, reserved, self.options.check, has_bare_names=self.options.has_bare_names)
        by_name = {server.config.name: server for server, _ in present}
        self.holding.name({name: (by_name[server], own) for (server, own), name in names.items() if name})
        made: list[Tool] = []
        for server, listing in present:
            shown = [(tool, names[server.config.name, tool.own_name]) for tool in listing.tools]
            own = [self._tool(server, tool, name) for tool, name in shown if name]
            made += own
            self._tell(server, listing, [tool.name for tool in own], [tool for tool, name in shown if not name])
        self._tools = tuple(made)
        return self._tools

    def take_notices(self) -> list[McpServer]:
        """Return what is to be told, once."""
        taken: list[McpServer] = []
        with suppress(IndexError):
            while True:
                taken.append(self._notices.popleft())
        return taken

    def notice(self, server: str, state: str, text: str, tools: Iterable[str] = ()) -> None:
        """Have something told."""
        self._notices.append(McpServer(server, state, text, tuple(tools)))

    def close(self) -> None:
        """End every server with all that it started; may be called twice. On the servers' own loop it does not wait."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if not self._beginning:
            return
        ending = self._portal.submit(self._end())
        if self._portal.is_here:
            return
        with suppress(futures.TimeoutError):
            ending.result(CLOSE_S)
        if self._owns_portal:
            self._portal.close()

    def close_one(self, server: Server) -> None:
        """End one server; after the last one the loop ends too."""
        if not self._is_closed and server.state != "closed":
            with suppress(futures.TimeoutError):
                self._portal.submit(server.close()).result(CLOSE_S)
        if all(each.state == "closed" for each in self.servers):
            self.close()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.gather(*(server.close() for server in self.servers), return_exceptions=True)

    async def _begin(self, server: Server) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await server.begin()
        except MCPError as error:
            if server.attempts == 1:
                self.notice(server.config.name, "failed", f"{error.message}; {error.hint}")

    def _awaited(self) -> tuple[list[Future[None]], float] | None:
        """Return what is still waited for and how long; None when that is nothing."""
        now_s = time.monotonic()
        left = {
            server.config.name: self._begun_s[server.config.name] + server.config.wait_s - now_s
            for server in self.servers
            if (beginning := self._beginning.get(server.config.name)) is not None and not beginning.done()
        }
        waits = {name: left_s for name, left_s in left.items() if left_s > 0}
        return ([self._beginning[name] for name in waits], min(waits.values())) if waits else None

    def _tell_late(self) -> None:
        for server in self.servers:
            name = server.config.name
            beginning = self._beginning.get(name)
            if beginning is not None and not beginning.done() and name not in self._told_late:
                self._told_late.add(name)
                text = f"the MCP server {name!r} has not begun within {server.config.wait_s:g} s"
                self.notice(name, "late", f"{text}; its tools come with a later turn")

    def _tool(self, server: Server, shown: Shown, name: str) -> Tool:
        bounds, portal, check = self.options.bounds, self._portal, self.options.check

        async def call(*, plait_call: ToolContext | None = None, **arguments: Any) -> Any:
            if self._is_closed:
                return ToolResult("", f"MCP error: the MCP server {server.config.name!r} is closed", is_error=True)
            of = "" if plait_call is None else plait_call.call_id

            def refusal() -> ToolResult | None:
                return self.holding.refusal(server, shown, of, arguments, check)

            return await portal.run(server.call(shown, arguments, bounds, refusal))

        call.__name__ = call.__qualname__ = name
        key = (server.config.name, shown.own_name)
        if server.config.always_ask or not shown.is_read_only:
            self._gated.add(key)
        # Once gated, always gated: a tool that says later that it only reads is not believed.
        is_gated = key in self._gated
        return Tool(
            name,
            shown.description,
            call,
            shown.parameters,
            mutates=is_gated,
            requires_approval=is_gated,
            parallel_safe=not is_gated,
            category="mcp",
        )

    def _tell(self, server: Server, listing: Listing, names: Sequence[str], refused: Sequence[Shown]) -> None:
        name = server.config.name
        before = self._taken.get(name)
        self._taken[name] = listing
        if before is None:
            late = " now" if name in self._told_late else ""
            self.notice(name, "ready", f"the MCP server {name!r} is{late} connected: {_counted(names)}", names)
        elif change := change_between(before.digests, listing.digests):
            self.notice(name, "changed", f"the MCP server {name!r} has other tools now: {change.words}", names)
        else:
            return
        clashes = (
            f"{tool.own_name!r} has no valid schema, or {tool.name!r} is another tool's name" for tool in refused
        )
        reasons = [*listing.refused, *clashes]
        if reasons:
            text = f"tools of the MCP server {name!r} are not shown: {'; '.join(reasons[:_REASONS_MAX])}"
            self.notice(name, "refused", text)

    def _tell_news(self, ready: Iterable[tuple[Server, Listing]]) -> None:
        for server, listing in ready:
            if news := self.holding.fresh(server, listing):
                name = server.config.name
                told = "\n".join(f"{each.words}\n{each.diff}" for each in news)
                text = f"tools of the MCP server {name!r} are not used until you agree to them:\n{told}"
                self.notice(name, "held", text, [each.now.name for each in news])

    def _agreed(self, news: News, is_kept: bool) -> None:
        for_now = "" if is_kept else ", for this session"
        text = f"the tool {news.now.own_name!r} of the MCP server {news.server!r} is used as it is now{for_now}"
        self.notice(news.server, "agreed", text, [news.now.name])

    def _restarted(self, server: Server) -> None:
        name = server.config.name
        self.notice(name, "restarted", f"the MCP server {name!r} had ended and was begun again")


def _resolve(future: Future[None]) -> None:
    with suppress(futures.InvalidStateError):
        future.set_result(None)


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} tools" if len(names) != 1 else "1 tool"
