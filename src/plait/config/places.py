"""Where a user's and a project's own configuration stands.

Floor: 2. Owns: the folders; never: what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's configuration: the XDG folder's `plait`, else `~/.config/plait`."""
    base = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    if base.startswith("/"):
        return Path(base) / "plait"
    return home(environ) / ".config" / "plait"


def home(environ: Mapping[str, str]) -> Path:
    """Return the user's home."""
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def project_root(folder: str | os.PathLike[str]) -> Path:
    """Return the root of the git repository around a folder, or the folder itself where there is none."""
    start = Path(os.path.abspath(folder))
    return next((place for place in (start, *start.parents) if os.path.lexists(place / ".git")), start)
