"""The MCP servers of a session: which it has, and when the model is shown their tools.

Floor: 5. Owns: the safe point at which tools come in, the repository's servers that wait for trust; never: a server.

Tools come in where a turn begins: a server that is slow, that has new tools or has gone away changes nothing in the
middle of one. Most sessions have no servers, and load nothing for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plait.config.places import project_root
from plait.core.cancel import Cancel
from plait.engine.gates import Gates
from plait.engine.limits import Limits
from plait.engine.trusting import vouched
from plait.store.layout import state_home

if TYPE_CHECKING:
    from plait.session.live import Live
    from plait.session.mcp_servers import Attached
    from plait.session.session import Session
    from plait.tools.spill import Spill

FILE_NAME: Final = ".mcp.json"


def attached(schema: Mapping[str, Any], given: Mapping[str, Any], *, spill: Spill, is_kept: bool) -> Attached | None:
    """Return the servers that a spec, the caller and a trusted repository name; None when there are none.

    Nothing is started before the first turn: a session is opened to look at it, too.

    Raises:
        ConfigError: a declaration cannot be used, or the `mcp` package is not installed.
    """
    folder = os.path.abspath(given["workspace"] or os.getcwd())
    own = None if given["trust"] is False else _of_repository(Path(folder), is_vouched_for=given["trust"] is True)
    if own is None and not schema.get("mcp_servers") and not given["mcp_servers"]:
        return None
    from plait.session.mcp_servers import Declared, attach

    is_trusted = own is not None and vouched(folder, given["trust"]).is_trusted
    declared = Declared(own if is_trusted else None, schema.get("mcp_servers"), given["mcp_servers"])
    limits: Limits = given["limits"] or Limits()
    home = state_home(os.environ) if is_kept else None
    servers = declared.servers(folder, os.environ, given["tool_executor"].fence)
    found = attach(servers, home, limits.max_tool_result_tokens, spill)
    if own is not None and not is_trusted:
        path = str(own)
        text = f"the MCP servers of {path!r} are not started: the repository is not trusted (plait trust)"
        found.servers.notice(path, "skipped", text)
    return found


def take_over(session: Session, live: Live, cancel: Cancel) -> None:
    """Bring a session's tools up to what its servers have now, before a turn, and tell of it."""
    if live.mcp is not None:
        from plait.session.mcp_servers import bring_up

        bring_up(session, live, live.mcp, cancel)


def watched(live: Live, gates: Gates | None) -> Gates | None:
    """Return a session's gates, with one for tools of its servers that are not what was agreed to."""
    if live.mcp is None:
        return gates
    from plait.engine.held_tools import HeldToolsGate

    servers, emit = live.mcp.servers, live.hub.emit
    return HeldToolsGate(servers.holding, live.settings.approver, gates, tell=lambda: emit(*servers.take_notices()))


def _of_repository(folder: Path, *, is_vouched_for: bool) -> Path | None:
    """Return the repository's own file of servers, where it has one; a folder's in it on the caller's word only."""
    places = dict.fromkeys((*((folder / FILE_NAME,) if is_vouched_for else ()), project_root(folder) / FILE_NAME))
    return next((place for place in places if place.is_file()), None)
