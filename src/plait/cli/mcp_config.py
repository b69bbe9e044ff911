"""The MCP servers of a run: the user's own, and those of the files that the command line names.

Floor: 7. Owns: where they are declared and which declaration counts; never: starting one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plait.config.places import config_home

if TYPE_CHECKING:
    from plait.tools.mcp.config import ServerConfig

CONFIG_FILE: Final = "plait.toml"


def servers_for_run(files: Sequence[str], environ: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Return the servers of the user's `plait.toml`, then those of `files`; of one name the last counts.

    Raises:
        ConfigError: a file cannot be read, or a declaration in it cannot be used.
    """
    own = config_home(environ) / CONFIG_FILE
    if not files and not own.exists():
        return ()
    from plait.tools.mcp.config import merged, servers_in, tables_in  # most runs have no servers

    return merged(tables_in(own, environ), *(servers_in(Path(file), environ) for file in files))
