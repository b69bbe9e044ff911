"""The MCP servers of a run: the user's own, and those of the files that the command line names.

Floor: 7. Owns: where they are declared and which declaration counts; never: starting one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from plait.config.settings import user_settings
from plait.tools.mcp.config import ServerConfig, merged, servers_in, tables_in


def servers_for_run(files: Sequence[str], environ: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Return the servers of the user's `plait.toml`, then those of `files`; of one name the last counts.

    Raises:
        ConfigError: a file cannot be read, or a declaration in it cannot be used.
    """
    own = tables_in(user_settings(environ), environ)
    return merged(own, *(servers_in(Path(file), environ) for file in files))
