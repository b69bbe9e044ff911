"""plait's tools as an MCP server, for any host that speaks the protocol over a pipe.

Floor: 6. Owns: which tools are published, one call from its arguments to its answer; never: the pipe (`mcp_streams`).

What changes something or runs code is published only when its user said so: there is nobody here who could be asked.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from plait._version import __version__
from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.ids import new_id
from plait.core.messages import ToolCall, ToolResult
from plait.core.strict_json import JsonInvalid, dump
from plait.engine.calls import PASSED_ON, Finishing, failure_of, keywords, result_of
from plait.engine.hosts.base_host import GRACE_S
from plait.engine.threads import Threads
from plait.engine.validation import compile_schema
from plait.kernel.tools import Tool, ToolTable
from plait.serve.mcp_streams import Pipe
from plait.session.defaults import LIBRARY
from plait.tools.aliases import patch_tool
from plait.tools.extra_specs import FILE_INFO
from plait.tools.mcp.sdk import load_sdk, need_sdk
from plait.tools.toolbox import Toolbox

CALLS_MAX: Final = 16
"""Calls that run at once; others wait for their turn."""
WAITING_MAX: Final = 200
"""Calls that may wait; more are refused."""
_INVALID_PARAMS: Final = -32_602
_INSTRUCTIONS: Final = "Tools for the files of one folder. Paths are relative to it; nothing outside it is reached."


def published(toolbox: Toolbox, names: Sequence[str] = (), *, allows_changes: bool = False) -> list[Tool]:
    """Return the tools that a host gets: those that only read, all where changes are allowed, or the named ones.

    Raises:
        ConfigError: a name is no tool's.
    """
    known = [*toolbox.tools(), FILE_INFO.tool(toolbox.file_info), patch_tool(toolbox)]
    if not names:
        return [tool for tool in known if allows_changes or not tool.gated]
    by_name = {tool.name: tool for tool in known}
    if unknown := [name for name in names if name not in by_name]:
        raise ConfigError(f"there is no tool {unknown[0]!r}", hint=f"the tools are {', '.join(by_name)}")
    return [by_name[name] for name in dict.fromkeys(names)]


class ToolServer:
    """Serves one toolbox to one host, over one pipe."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Take the tools that a host gets; raise `ValueError` for two of one name."""
        self._table = ToolTable(tools, compile=compile_schema)
        self._finishing = Finishing()
        self._threads = Threads()
        self._room = asyncio.Semaphore(CALLS_MAX)
        self._alone = asyncio.Lock()
        self._waiting = 0
        self._types: Any = None

    async def serve(self, pipe: Pipe) -> None:
        """Answer until the host closes the pipe. Cancel: calls are stopped, their processes too."""
        self._types = load_sdk()
        from mcp.server import Server

        server: Any = Server(
            "plait",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        incoming, outgoing = pipe.streams(self._types)
        await server.run(incoming, outgoing, server.create_initialization_options())

    async def _list(self, _context: Any, _params: Any) -> Any:
        types = self._types
        return types.ListToolsResult(tools=[self._described(tool) for tool in self._table])

    def _described(self, tool: Tool) -> Any:
        types = self._types
        hints = types.ToolAnnotations(
            read_only_hint=not tool.gated, destructive_hint=tool.mutates, open_world_hint=tool.runs_code
        )
        return types.Tool(
            name=tool.name, description=tool.description, input_schema=tool.resolved_parameters, annotations=hints
        )

    async def _call(self, _context: Any, params: Any) -> Any:
        tool = self._table.get(params.name)
        if tool is None:
            from mcp.shared.exceptions import MCPError

            raise MCPError(code=_INVALID_PARAMS, message=f"Unknown tool {params.name!r}")
        try:
            call = ToolCall(new_id("c"), params.name, dump(params.arguments or {}))
        except JsonInvalid as error:
            return self._answer(ToolResult("", f"Invalid arguments: {error}.", is_error=True))
        if self._waiting >= WAITING_MAX:
            return self._answer(ToolResult("", "Not run: too many calls wait already.", is_error=True))
        self._waiting += 1
        try:
            return self._answer(self._table.check(call) or await self._in_turn(call, tool))
        finally:
            self._waiting -= 1

    async def _in_turn(self, call: ToolCall, tool: Tool) -> ToolResult:
        """Run calls that only read side by side, every other one alone."""
        if tool.parallel_safe:
            async with self._room:
                return await self._run(call, tool)
        async with self._alone:
            return await self._run(call, tool)

    async def _run(self, call: ToolCall, tool: Tool) -> ToolResult:
        """Run a call in a thread. Cancel: the tool is told to stop and waited for, a moment."""
        import anyio

        cancel = Cancel()
        thread = self._threads.arun(lambda: tool.fn(**keywords(tool, call, self._finishing, cancel)))
        try:
            value = await asyncio.shield(thread)
            if inspect.isawaitable(value):
                value = await value
        except asyncio.CancelledError:
            cancel.cancel("interrupted")
            with anyio.CancelScope(shield=True):
                await asyncio.wait({thread}, timeout=GRACE_S)
            raise
        except PASSED_ON:
            raise
        except BaseException as error:  # boundary: a tool's failure is its result, `exit()` in it too
            return failure_of(call, error, self._finishing)
        return result_of(call, value, self._finishing)

    def _answer(self, result: ToolResult) -> Any:
        types = self._types
        content: list[Any] = [types.TextContent(type="text", text=result.content)] if result.content else []
        content += [
            types.ImageContent(type="image", data=image.data, mime_type=image.media_type)
            for image in result.images
            if image.kind == "base64"
        ]
        return types.CallToolResult(content=content, is_error=result.is_error)


def serve_tools(
    workspace: str | os.PathLike[str],
    names: Sequence[str] = (),
    *,
    allows_changes: bool = False,
    cancel: Cancel | None = None,
) -> None:
    """Serve a folder's tools over this process's standard input and output, until the host closes them.

    Meanwhile what anything else prints goes to standard error. What the tools left running ends with it.
    Cancel: ends it as the host does.

    Raises:
        ConfigError: a name is no tool's, the folder cannot be opened, or the `mcp` package is not installed.
    """
    need_sdk()
    options = replace(LIBRARY.options(), policy="inside_only")
    toolbox = Toolbox(workspace, options)
    try:
        tools = published(toolbox, names, allows_changes=allows_changes)
        with Pipe() as pipe:
            asyncio.run(_until_closed(tools, pipe, cancel or Cancel()))
    finally:
        toolbox.close()


async def _until_closed(tools: Sequence[Tool], pipe: Pipe, cancel: Cancel) -> None:
    loop, serving = asyncio.get_running_loop(), asyncio.ensure_future(ToolServer(tools).serve(pipe))
    undo = cancel.on_cancel(lambda: _stop(loop, serving))
    try:
        with suppress(asyncio.CancelledError):
            await serving
    finally:
        undo()


def _stop(loop: asyncio.AbstractEventLoop, serving: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop has ended by itself
        loop.call_soon_threadsafe(serving.cancel)
