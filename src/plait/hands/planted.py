"""How far what a repository brings reaches: a program in it is not its user's choice of program.

Floor: 2. Owns: that one directory; never: looking for programs (`fence.ground`, `searching.ripgrep`).
"""

from __future__ import annotations

import os


def repository_around(workspace: str) -> str:
    """Return the repository around a workspace, without links; the workspace where there is none.

    A home that is a repository, or lies in one, is its user's own.
    """
    workspace = around = os.path.realpath(workspace)
    home = os.path.realpath(os.path.expanduser("~"))
    while os.path.commonpath((home, around)) != around:
        if os.path.lexists(os.path.join(around, ".git")):
            return around
        around = os.path.dirname(around)
    return workspace
