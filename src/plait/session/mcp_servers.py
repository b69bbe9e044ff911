"""A session's MCP servers at work: begun, waited for, their tools put into its table and its keys.

Floor: 5. Owns: what the servers of one session have in common; never: which servers it has (`mcp`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plait.core.cancel import Cancel
from plait.core.values import dataclass
from plait.engine.calls import CHARS_PER_TOKEN
from plait.engine.validation import compile_schema
from plait.kernel.tools import Tool, ToolTable
from plait.session import prompt
from plait.session.defaults import BENCH
from plait.tools.mcp.answers import Bounds
from plait.tools.mcp.config import ServerConfig, merged, servers_in, servers_of, with_folder
from plait.tools.mcp.servers import Servers, ServersOptions
from plait.tools.spec import build_tool_spec, schema_entry

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence
    from plait.session.live import Live
    from plait.session.session import Session
    from plait.tools.spill import Spill

LOGS: Final = "mcp-logs"


@dataclass
class Attached:
    """A session's servers, and which of their tools it has."""

    servers: Servers
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """Where servers are declared, from the weakest place to the strongest."""

    repository: Path | None
    """A file that the caller vouches for."""
    spec: object
    asked: object

    def servers(self, folder: str, environ: Mapping[str, str], fence: Fence | None = None) -> tuple[ServerConfig, ...]:
        """Return the servers, their programs behind `fence`; raise `ConfigError` for one that cannot be used."""
        own = () if self.repository is None else servers_in(self.repository, environ)
        named = servers_of(self.spec, environ, source="'mcp_servers' of the agent spec")
        found = with_folder(merged(own, named, servers_of(self.asked, environ)), folder)
        return tuple(replace(server, fence=fence) for server in found)


def attach(configs: Sequence[ServerConfig], home: Path | None, result_tokens_max: int, spill: Spill) -> Attached:
    """Take servers, which begin with the first turn; `home` is where their logs and their tools' digests are kept.

    Raises `ConfigError` when the `mcp` package is not installed.
    """
    options = ServersOptions(
        log_dir=None if home is None else home / LOGS,
        pins_dir=home,
        bounds=Bounds(result_tokens_max * CHARS_PER_TOKEN, spill),
        check=compile_schema,
    )
    return Attached(Servers(configs, options, portal=BENCH.portal))


def bring_up(session: Session, live: Live, mine: Attached, cancel: Cancel) -> None:
    """Bring a session's tools up to what its servers have now, before a turn, and tell of it."""
    mine.servers.settle(cancel)
    terms = live.conversation.terms
    own = [tool for tool in terms.tools if not any(tool is known for known in mine.tools)]
    found = mine.servers.tools(tuple(tool.name for tool in own))
    if found is not mine.tools:
        table = terms.tools.of([*own, *found])
        _tell_keys(session, live, table, mine.tools, found)
        setup = replace(terms.setup, tools=table.schemas)
        live.conversation.change(live.conversation.model, replace(terms, tools=table, setup=setup))
        mine.tools = found
    live.hub.emit(*mine.servers.take_notices())


def _tell_keys(session: Session, live: Live, table: ToolTable, before: Sequence[Tool], now: Sequence[Tool]) -> None:
    """Put the tools into a session's keys; and into its prompt, where the model is told of tools in words."""
    session["tools"] = [schema_entry(tool) for tool in table if tool.alias_of is None and table.permits(tool)]
    dispatch = session["tool_dispatch"]
    for tool in before:
        dispatch.pop(tool.name, None)
    for name, entry in build_tool_spec(now)[1].items():
        dispatch[name] = {"python_function": name, "param_map": dict(entry["param_map"])}
    if session["structured"] or not session["messages"]:
        return
    first = session["messages"][0]
    told = prompt.told_anew(first.get("content"), live.conversation.terms.tools.schemas, table.schemas)
    first["content"] = first.get("content") if told is None else told
