"""Where git keeps what belongs to a working tree, found by reading files.

Floor: 3. Owns: which folder is believed to be it; never: running git, whose configuration in a clone is a stranger's.

A `.git` file may name any folder. It is followed only where that folder says itself that it belongs here, as those of
linked working trees do.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from plait.core.values import dataclass

_SMALL: Final = 4_096
_PACKED_REFS_MAX: Final = 32 << 20
_HASH: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class GitFolder:
    """The parts of a repository that a working tree has."""

    tree: Path
    """The working tree."""
    own: Path
    """HEAD and index of this working tree."""
    common: Path
    """Branches and objects, which linked working trees share."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is checked out."""

    branch: str
    """Empty for a detached head."""
    commit: str
    """Empty where there is none yet, or it cannot be found."""


def git_folder(root: Path) -> GitFolder | None:
    """Return the git folder of a working tree; None where there is none to be trusted."""
    dot = root / ".git"
    try:
        mode = os.lstat(dot).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return GitFolder(root, dot, dot)
    text = small_text(dot) if stat.S_ISREG(mode) else ""
    if not text.startswith("gitdir:"):
        return None
    own = Path(os.path.normpath(root / text[len("gitdir:") :].strip()))
    if os.path.realpath(small_text(own / "gitdir").strip() or os.devnull) != os.path.realpath(dot):
        return None
    common = Path(os.path.normpath(own / (small_text(own / "commondir").strip() or ".")))
    return GitFolder(root, own, common) if os.path.dirname(own) == str(common / "worktrees") else None


def read_head(folder: GitFolder) -> Head | None:
    """Return what is checked out; None where that cannot be told."""
    text = small_text(folder.own / "HEAD").strip()
    if _HASH.fullmatch(text):
        return Head("", text)
    if not text.startswith("ref: refs/"):
        return None
    ref = text[len("ref: ") :]
    if ".." in ref.split("/") or not ref.isprintable():
        return None
    commit = small_text(folder.common / ref).strip()
    if not _HASH.fullmatch(commit):
        commit = _packed(folder.common / "packed-refs", ref)
    return Head(ref.removeprefix("refs/heads/"), commit)


def _packed(path: Path, ref: str) -> str:
    try:
        with open(path, "rb", opener=at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            data = file.read(_PACKED_REFS_MAX)
    except OSError:
        return ""
    end = data.find(f" {ref}\n".encode())
    commit = data[max(data.rfind(b"\n", 0, end) + 1, 0) : end].decode("ascii", "replace") if end > 0 else ""
    return commit if _HASH.fullmatch(commit) else ""


def at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe, which stands there where somebody is hostile."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def small_text(path: Path) -> str:
    """Return what a small regular file says; empty where it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return ""
    try:
        return os.read(fd, _SMALL).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
    finally:
        os.close(fd)
