"""The MCP servers of a session: which it has, and when the model is shown their tools.

Floor: 5. Owns: the safe point at which tools come in, the repository's servers that wait for trust; never: a server.

Tools come in where a turn begins: a server that is slow, that has new tools or has gone away changes nothing in the
middle of one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plait.config.places import project_root
from plait.core.cancel import Cancel
from plait.engine.validation import compile_schema
from plait.kernel.tools import Tool, ToolTable
from plait.session import prompt
from plait.session.defaults import BENCH
from plait.store.layout import state_home
from plait.tools.mcp.answers import Bounds
from plait.tools.mcp.config import FILE_NAME, ServerConfig, merged, servers_in, servers_of, with_folder
from plait.tools.mcp.servers import Servers, ServersOptions
from plait.tools.spec import build_tool_spec, schema_entry

if TYPE_CHECKING:
    from plait.session.session import Live, Session
    from plait.tools.spill import Spill

LOGS: Final = "mcp-logs"


@dataclass
class Attached:
    """A session's servers, and which of their tools it has."""

    servers: Servers
    tools: tuple[Tool, ...] = ()


def attached(schema: Mapping[str, Any], given: Mapping[str, Any], *, spill: Spill, is_kept: bool) -> Attached | None:
    """Begin the servers that a spec, the caller and a trusted repository name; None when there are none.

    Raises:
        ConfigError: a declaration cannot be used, or the `mcp` package is not installed.
    """
    folder = os.path.abspath(given["workspace"] or os.getcwd())
    own, skipped = _of_repository(Path(folder), given["trust"])
    named = servers_of(schema.get("mcp_servers"), os.environ, source="'mcp_servers' of the agent spec")
    asked = servers_of(given["mcp_servers"], os.environ)
    configs = with_folder(merged(own, named, asked), folder)
    if not configs and not skipped:
        return None
    home = state_home(os.environ) if is_kept else None
    limits = given["limits"]
    chars_max = 32_000 if limits is None else limits.max_tool_result_tokens * 4
    options = ServersOptions(
        log_dir=None if home is None else home / LOGS,
        pins_dir=home,
        bounds=Bounds(chars_max, spill),
        check=compile_schema,
    )
    servers = Servers(configs, options, portal=BENCH.portal)
    for path in skipped:
        servers.notice(path, "skipped", f"the MCP servers of {path!r} are not started: the repository is not trusted")
    servers.begin()
    return Attached(servers)


def take_over(session: Session, live: Live, cancel: Cancel) -> None:
    """Bring a session's tools up to what its servers have now, before a turn, and tell of it."""
    if (mine := live.mcp) is None:
        return
    mine.servers.settle(cancel)
    terms = live.conversation.terms
    own = [tool for tool in terms.tools if not any(tool is known for known in mine.tools)]
    found = mine.servers.tools(tuple(tool.name for tool in own))
    if found is not mine.tools:
        table = ToolTable([*own, *found], compile=compile_schema, deferral=terms.tools.deferral)
        _tell_keys(session, live, table, mine.tools, found)
        setup = replace(terms.setup, tools=table.schemas)
        live.conversation.change(live.conversation.model, replace(terms, tools=table, setup=setup))
        mine.tools = found
    live.hub.emit(*mine.servers.take_notices())


def _tell_keys(session: Session, live: Live, table: ToolTable, before: Sequence[Tool], now: Sequence[Tool]) -> None:
    """Put the tools into a session's keys; and into its prompt, where the model is told of tools in words."""
    session["tools"] = [schema_entry(tool) for tool in table if tool.alias_of is None]
    dispatch = session["tool_dispatch"]
    for tool in before:
        dispatch.pop(tool.name, None)
    for name, entry in build_tool_spec(now)[1].items():
        dispatch[name] = {"python_function": name, "param_map": dict(entry["param_map"])}
    if session["structured"] or not session["messages"]:
        return
    settings, first = live.settings, session["messages"][0]
    schemas = live.conversation.terms.tools.schemas
    if first.get("content") == prompt.compose(settings.supplement, schemas, bare=settings.bare, structured=False):
        first["content"] = prompt.compose(settings.supplement, table.schemas, bare=settings.bare, structured=False)


def _of_repository(folder: Path, trust: bool | None) -> tuple[tuple[ServerConfig, ...], tuple[str, ...]]:
    """Return the servers of the repository's own file, where the caller vouches for it, or the file that is skipped."""
    places = dict.fromkeys((folder / FILE_NAME, project_root(folder) / FILE_NAME))
    path = next((place for place in places if place.is_file()), None)
    if path is None or trust is False:
        return (), ()
    if trust is None:
        return (), (str(path),)
    return servers_in(path, os.environ), ()
