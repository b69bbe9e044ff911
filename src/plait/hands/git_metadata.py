"""What git obeys, which no file tool writes: a hook or a setting there would be run later, outside every fence.

Floor: 2. Owns: recognising `.git`, at any depth and through any link; never: git's own commands, which a shell runs.
"""

from __future__ import annotations

import os
from typing import Final

from plait.core.errors import Refusal
from plait.hands import beneath
from plait.hands.workspace import Pinned, is_same

_NAME: Final = ".git"
_LEVELS_MAX: Final = 300


def refuse_git_metadata(target: Pinned) -> None:
    """Raise `Refusal` for a name that is git's: `.git`, file or directory, and whatever lies or would lie in one.

    Directories are recognised as what they are, so that neither a link nor another case of letters hides one.
    """
    names = (*target.missing, target.name)
    if any(name.lower() == _NAME for name in names) or _is_in_git(target.fd):
        raise Refusal(
            "FORBIDDEN",
            f"{target.shown!r} belongs to git, which runs what stands there",
            hint="file tools only read it; use git's own commands in the shell (git config, git add, …)",
            details={"path": target.shown},
        )


def _is_in_git(fd: int) -> bool:
    """Say whether an opened directory is, or is beneath, one that is called `.git`."""
    current = os.dup(fd)
    try:
        for _ in range(_LEVELS_MAX):
            above = os.open("..", beneath.LOOK | beneath.DIRECTORY, dir_fd=current)
            here = os.fstat(current)
            is_git, is_top = _is_called_git(above, here), is_same(os.fstat(above), here)
            os.close(current)
            current = above
            if is_git or is_top:
                return is_git
    except OSError:
        pass  # what cannot be climbed is another user's; git would not obey it here
    finally:
        os.close(current)
    return False


def _is_called_git(above: int, here: os.stat_result) -> bool:
    try:
        return is_same(os.stat(_NAME, dir_fd=above, follow_symlinks=False), here)
    except OSError:
        return False
