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
    """Return the root of the project around a folder.

    That is the git repository around it; outside of one the nearest folder with a `plait.toml`, but for the home and
    what is above it, which are no projects; else the folder itself.
    """
    start = Path(os.path.abspath(folder))
    around = (start, *start.parents)
    root = next((place for place in around if os.path.lexists(place / ".git")), None)
    if root is not None:
        return root
    own = Path(os.path.abspath(home(os.environ)))
    inside = (place for place in around if place != own and place not in own.parents)
    return next((place for place in inside if os.path.lexists(place / "plait.toml")), start)
