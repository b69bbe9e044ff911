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
from plait.engine.limits import Limits
from plait.store.layout import state_home

if TYPE_CHECKING:
    from plait.session.mcp_servers import Attached
    from plait.session.session import Live, Session
    from plait.tools.spill import Spill

FILE_NAME: Final = ".mcp.json"


def attached(schema: Mapping[str, Any], given: Mapping[str, Any], *, spill: Spill, is_kept: bool) -> Attached | None:
    """Return the servers that a spec, the caller and a trusted repository name; None when there are none.

    Nothing is started before the first turn: a session is opened to look at it, too.

    Raises:
        ConfigError: a declaration cannot be used, or the `mcp` package is not installed.
    """
    folder, trust = os.path.abspath(given["workspace"] or os.getcwd()), given["trust"]
    own = None if trust is False else _of_repository(Path(folder))
    if own is None and not schema.get("mcp_servers") and not given["mcp_servers"]:
        return None
    from plait.session.mcp_servers import Declared, attach

    declared = Declared(own if trust else None, schema.get("mcp_servers"), given["mcp_servers"])
    limits: Limits = given["limits"] or Limits()
    home = state_home(os.environ) if is_kept else None
    found = attach(declared.servers(folder, os.environ), home, limits.max_tool_result_tokens, spill)
    if own is not None and not trust:
        path = str(own)
        text = f"the MCP servers of {path!r} are not started: the repository is not trusted"
        found.servers.notice(path, "skipped", text)
    return found


def take_over(session: Session, live: Live, cancel: Cancel) -> None:
    """Bring a session's tools up to what its servers have now, before a turn, and tell of it."""
    if live.mcp is not None:
        from plait.session.mcp_servers import bring_up

        bring_up(session, live, live.mcp, cancel)


def _of_repository(folder: Path) -> Path | None:
    """Return the repository's own file of servers, where it has one."""
    places = dict.fromkeys((folder / FILE_NAME, project_root(folder) / FILE_NAME))
    return next((place for place in places if place.is_file()), None)
