"""Where the real servers are: installed by `make real` beside the environment of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NPM = ("mcp-server-everything", "mcp-server-filesystem", "mcp-server-memory")
PYTHON = ("mcp-server-git", "mcp-server-time")


@pytest.fixture(scope="session")
def programs() -> dict[str, str]:
    """Return each server's program by its name; skip where they are not installed."""
    root = Path(os.environ.get("REAL_MCP") or ".")
    places = {name: root / "node_modules" / ".bin" / name for name in NPM}
    places |= {name: root / "venv" / "bin" / name for name in PYTHON}
    if missing := [name for name, place in places.items() if not place.exists()]:
        pytest.skip(f"not installed: {', '.join(missing)} (make real installs them)")
    return {name: str(place) for name, place in places.items()}
