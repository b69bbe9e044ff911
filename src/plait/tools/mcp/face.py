"""MCP servers for programs: one client, a list of tools, tools in a registry.

Floor: 3. Owns: what is sync about servers and begun on the spot; never: servers that come late (`servers`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Protocol, Self

from plait.core.errors import MCPError
from plait.core.strict_json import plain
from plait.core.values import dataclass
from plait.kernel.tools import Tool
from plait.tools.mcp.config import ServerConfig, servers_of
from plait.tools.mcp.link import Ended, Link, TimedOut
from plait.tools.mcp.log import ServerLog
from plait.tools.mcp.sdk import need_sdk
from plait.tools.mcp.servers import Servers, ServersOptions
from plait.tools.portal import Portal

_DECLARED: Final = "the MCP servers"


class Registry(Protocol):
    """Where tools are put, such as a `ToolRegistry`."""

    def register(self, tool: Tool) -> None:
        """Take a tool in; raise `ValueError` for a name that is taken."""
        ...

    def spec(self, name: str) -> Tool | None:
        """Return the tool of this name."""
        ...


class MCPClient:
    """Speaks to one server, from any thread; calls may run beside each other.

    A failure is an `MCPError`: a server that cannot be started or has ended, an error that it answers with, no answer
    in time. A tool that reports an error of its own has answered: `isError` is in its result.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ServerConfig,
        *,
        timeout: float | None = None,
        log_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            config: one server, as in `[[mcp_servers]]`: `name`, and `command` with `args`, `env` and `cwd`, or `url`
                with `headers`.
            timeout: seconds for one answer, in place of the configured ones (30).
            log_dir: where what the server writes beside the protocol is kept, as `<name>.log`.

        Raises:
            ConfigError: the configuration cannot be used, or the `mcp` package is not installed.
        """
        need_sdk()
        (self.config,) = servers_of([config], os.environ, source="MCPClient")
        if timeout is not None:
            self.config = replace(self.config, timeout_s=timeout)
        self._log_dir = log_dir
        self._portal = Portal()
        self._link: Link | None = None

    @property
    def server_info(self) -> dict[str, object]:
        """The server's `name` and `version`, as it tells them; empty before `connect`."""
        return {} if self._link is None else self._link.info

    def connect(self) -> None:
        """Start the server and agree on a protocol; raise `MCPError` when that fails."""
        if self._link is not None:
            return
        link = Link(self.config, ServerLog(self._log_dir, self.config.name), lambda: None)
        self._wait(link.open(self.config.timeout_s))
        self._link = link

    def list_tools(self) -> list[dict[str, object]]:
        """Return the server's tools as its own JSON: `name`, `description`, `inputSchema`, `annotations`."""
        return [_json(tool) for tool in self._wait(self._connected().tools())]

    def call_tool(self, name: str, arguments: Mapping[str, object] | None = None) -> dict[str, object]:
        """Call a tool once and return the server's answer as its own JSON: `content`, `isError` and more.

        Cancel: KeyboardInterrupt tells the server that no answer is wanted.
        """
        return _json(self._wait(self._connected().call(name, arguments or {})))

    def close(self) -> None:
        """End the server with all that it started; may be called twice."""
        link, self._link = self._link, None
        if link is not None:
            with suppress(TimeoutError):
                self._portal.submit(link.close()).result(10)
        self._portal.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connected(self) -> Link:
        if self._link is None:
            raise MCPError(f"the MCP server {self.config.name!r} is not connected", hint="call connect() first")
        return self._link

    def _wait(self, work: Any) -> Any:
        future = self._portal.submit(work)
        try:
            return future.result()
        except Ended:
            raise MCPError(f"the MCP server {self.config.name!r} has ended", hint="close and connect again") from None
        except TimedOut:
            raise MCPError(
                f"the MCP server {self.config.name!r} did not answer within {self.config.timeout_s:g} s",
                hint="give it more time with 'timeout'",
            ) from None
        except BaseException:
            future.cancel()
            raise


class MCPTools(list[Tool]):
    """The tools of some servers; leaving its block, or `close`, ends the servers."""

    def __init__(self, servers: Servers, tools: Iterable[Tool]) -> None:
        super().__init__(tools)
        self._servers = servers

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers' names."""
        return tuple(server.config.name for server in self._servers.servers)

    def close(self) -> None:
        """End the servers; calls of their tools are errors from then on."""
        self._servers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def mcp_tools(
    servers: object, *, log_dir: str | os.PathLike[str] | None = None, reserved: Iterable[str] = ()
) -> MCPTools:
    """Start MCP servers and return their tools, each named `mcp__server__tool`.

    All or nothing: when one server cannot be started, those that could are ended. A tool is gated unless its server
    says that it only reads.

    Args:
        servers: a path of a `.mcp.json`, its content, or a list of tables as in `[[mcp_servers]]`.
        log_dir: where each server's log goes.
        reserved: names of other tools, which none of these may have.

    Raises:
        ConfigError: a declaration cannot be used, or the `mcp` package is not installed.
        MCPError: a server cannot be started.
    """
    started = started_servers(servers, ServersOptions(log_dir=log_dir))
    return MCPTools(started, started.tools(tuple(reserved)))


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server whose tools were registered."""

    name: str
    server_info: Mapping[str, object]
    """Its `name` and `version`, as it tells them."""
    end: Callable[[], None]

    def close(self) -> None:
        """End it with all that it started; calls of its tools are errors from then on. May be called twice."""
        self.end()


def register_mcp_servers(
    registry: Registry, servers: object, log_dir: str | os.PathLike[str] | None = None
) -> tuple[RunningServer, ...]:
    """Start MCP servers and put their tools into a registry; return the servers, to be closed by the caller.

    All or nothing, as `mcp_tools`. A tool keeps its own name; where the registry, or another of the servers, has that
    name already it is `mcp__server__tool`. Raises as `mcp_tools`.
    """
    options = ServersOptions(log_dir=log_dir, has_bare_names=True)
    return registered(registry, started_servers(servers, options))


def registered(registry: Registry, started: Servers) -> tuple[RunningServer, ...]:
    """Put the tools of servers that have begun into a registry; see `register_mcp_servers`."""
    wanted = {tool.own_name for server in started.servers for tool in server.listing.tools}
    shown = {tool.name for server in started.servers for tool in server.listing.tools}
    tools = started.tools(tuple(name for name in wanted | shown if registry.spec(name) is not None))
    for tool in tools:
        registry.register(tool)
    return tuple(
        RunningServer(server.config.name, server.info, functools.partial(started.close_one, server))
        for server in started.servers
    )


def started_servers(servers: object, options: ServersOptions, *, portal: Portal | None = None) -> Servers:
    """Return servers that have all begun; raise `MCPError` when one has not, after ending the others."""
    started = Servers(servers_of(servers, os.environ, source=_DECLARED), options, portal=portal)
    try:
        begin_all(started)
    except BaseException:
        started.close()
        raise
    return started


def begin_all(servers: Servers) -> None:
    """Wait until all servers have begun; raise the error of the first that has not."""
    servers.begin()
    for server, beginning in servers.beginnings():
        with suppress(TimeoutError):
            beginning.result(server.config.timeout_s)
        if server.state != "ready":
            raise server.error or MCPError(
                f"the MCP server {server.config.name!r} has not begun within {server.config.timeout_s:g} s",
                hint="give it more time with 'timeout'",
            )


def _json(model: Any) -> dict[str, object]:
    told = plain(model.model_dump(by_alias=True, mode="json", exclude_none=True))
    assert isinstance(told, dict)
    return told
