"""Removing what a write left that was killed in the middle: its temporary file, and nothing else.

Floor: 3. Owns: finding these files below a workspace; never: deciding when (a host does, when it starts again).
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import Final

from plait.hands.editing.atomic import is_temporary
from plait.hands.searching.walk import Walk, WalkRules
from plait.hands.workspace import Workspace, WorkspaceOptions

OLD_S: Final = 3_600.0


def sweep_workspace(root: str | os.PathLike[str], *, older_than_s: float = OLD_S) -> tuple[str, ...]:
    """Remove the temporary files of writes that never ended, and return their paths below `root`, in order.

    A file counts as left behind when it carries the name of such a file, is a regular one, and has not been written
    for `older_than_s` seconds: no write takes so long, so that those of other processes are safe. Links are not
    followed. Raises `Refusal` when the workspace cannot be opened.
    """
    workspace = Workspace(root, WorkspaceOptions(style="strict"))
    rules = WalkRules(respects_ignore_files=False, noise=frozenset(), deadline_s=None)
    removed: list[str] = []
    try:
        with workspace.open_directory(".") as directory:
            for found in Walk(directory, rules):
                if (
                    found.kind == "file"
                    and is_temporary(found.name)
                    and _is_old(found.directory_fd, found.name, older_than_s)
                ):
                    with suppress(OSError):
                        os.unlink(found.name, dir_fd=found.directory_fd)
                        removed.append(found.path)
    finally:
        workspace.close()
    return tuple(removed)


def _is_old(directory_fd: int, name: str, older_than_s: float) -> bool:
    try:
        status = os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime >= older_than_s
