"""The official `mcp` package, loaded when the first server is begun.

Floor: 3. Owns: its import and the words for its absence; never: a use of it.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import Any, Final

from plait.core.errors import ConfigError

_HINT: Final = "pip install 'plait[mcp]'"
_LOGGERS: Final = ("mcp", "client", "httpx2", "httpcore2")


def need_sdk() -> None:
    """Raise `ConfigError` when the package is not installed; it is not loaded by this."""
    # Version 2 brings the second one. Looking for a module inside a package would load the package.
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("mcp_types") is None:
        raise ConfigError("MCP servers need the package 'mcp' in version 2", hint=_HINT)


def load_sdk() -> Any:
    """Load the package and return its `types`; takes seconds the first time."""
    need_sdk()
    import mcp_types

    import_client()
    for name in _LOGGERS:
        # What it logs about a server is told by plait's own means; without a handler Python prints it.
        logging.getLogger(name).addHandler(logging.NullHandler())
    return mcp_types


def import_client() -> Any:
    """Return the class of its client."""
    from mcp.client.client import Client

    return Client
