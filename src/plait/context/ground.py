"""Whether the ground moved: the branch, the commit, and files that a session has to do with.

Floor: 3. Owns: what is compared, and the note; never: a process, or a look at more than is worth it.

A look is a handful of small reads, a stat for each tracked file of a repository that is not large, and the names in
folders whose date is another one. What a session
changes itself is taken in when its turn ends; a file that it has read or written is compared with how that call left
it, so that a change of somebody else's in the middle of a turn is noticed too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from plait.config.places import project_root
from plait.context.git_folder import Head, git_folder, read_head
from plait.context.git_index import Index, read_index
from plait.context.git_lines import SHOWN_MAX, Untracked, folders_of, printable
from plait.core.asides import GROUND_MOVED
from plait.core.values import dataclass

WATCHED_MAX: Final = 1_000
"""Files read or written; the oldest are forgotten."""
_FOLDERS_MAX: Final = 200
_NAMES_MAX: Final = 2_000
"""With more folders of tracked files than these, or more names in them, nobody looks for new files."""
_STATS_MAX: Final = 2_000
"""With more tracked files than this, only those that were read or written are looked at."""

Stamp = tuple[int, int] | None
"""When a file was changed and how large it is; None for one that is not there."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What somebody else has changed."""

    before: Head | None
    now: Head | None
    files: tuple[str, ...]
    """From the root of the project, in order; those outside as whole paths."""

    @property
    def is_git_changed(self) -> bool:
        """True where the branch or its commit is another one."""
        return self.before != self.now

    def note(self) -> str:
        """Return what a model is told."""
        parts = [_git_words(self.before, self.now)] if self.is_git_changed else []
        shown = [printable(path) for path in self.files[:SHOWN_MAX]]
        more = len(self.files) - len(shown)
        if shown:
            parts.append(f"changed files: {', '.join(shown)}{f' and {more} more' if more else ''}")
        return f"{GROUND_MOVED}Since your last turn, not by you: {'; '.join(parts)}.</ground_moved>"


def _git_words(before: Head | None, now: Head | None) -> str:
    if before is None or now is None:
        return "the git repository is gone" if now is None else "there is a git repository now"
    if before.branch != now.branch:
        return f"git is on {_branch(now)} (was {_branch(before)})"
    return f"{_branch(now)} moved from {before.commit[:9] or 'nothing'} to {now.commit[:9] or 'nothing'}"


def _branch(head: Head) -> str:
    return f"branch {printable(head.branch)}" if head.branch else f"commit {head.commit[:9]}"


class Ground:
    """Remembers what a session has seen; one thread at a time."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._root = str(project_root(cwd))
        self._head: Head | None = None
        self._tracked: dict[str, Stamp] = {}
        self._new: frozenset[str] | None = None
        self._folders: tuple[Index | None, tuple[str, ...]] = (None, ())
        self._names: tuple[object, frozenset[str] | None] = (None, None)
        self._watched: dict[str, Stamp] = {}
        self._index: tuple[Stamp, Index | None] = (None, None)
        self._has_looked = False

    def touched(self, paths: Iterable[str]) -> None:
        """Take in files as a call of the session's has left or found them."""
        for path in paths:
            whole = os.path.normpath(os.path.join(self._cwd, os.path.expanduser(path)))
            self._watched.pop(whole, None)
            self._watched[whole] = stamp_of(whole)
            if len(self._watched) > WATCHED_MAX:
                del self._watched[next(iter(self._watched))]

    def ran(self) -> None:
        """Take in everything: a command of the session's may have changed any of it."""
        self._watched = {path: stamp_of(path) for path in self._watched}

    def settle(self) -> None:
        """Take in how things are when a turn ends."""
        self._head, self._tracked, self._new = self._look()
        self._has_looked = True

    def moved(self) -> Moved | None:
        """Return what has changed since, once; None for nothing, and at the first look."""
        head, tracked, new = self._look()
        now = {path: stamp_of(path) for path in self._watched}
        files = {path for path, stamp in now.items() if stamp != self._watched[path]}
        if self._tracked and tracked:
            both = self._tracked.keys() | tracked.keys()
            files |= {path for path in both - now.keys() if self._tracked.get(path) != tracked.get(path)}
        if self._new is not None and new is not None:
            # By their names alone: what is not tracked yet may well be something that is written all the time.
            files |= {path for path in self._new ^ new if path not in now}
        found = Moved(self._head if self._has_looked else head, head, tuple(sorted(map(self._shown, files))))
        self._head, self._tracked, self._watched, self._has_looked = head, tracked, now, True
        self._new = new
        return found if found.is_git_changed or found.files else None

    def _look(self) -> tuple[Head | None, dict[str, Stamp], frozenset[str] | None]:
        folder = git_folder(project_root(self._cwd))
        head = None if folder is None else read_head(folder)
        if folder is None or head is None:
            return None, {}, None
        path = folder.own / "index"
        stamp = stamp_of(str(path))
        if stamp is None or stamp != self._index[0]:
            self._index = (stamp, read_index(path))
        index, root = self._index[1], str(folder.tree)
        if index is None or index.count > _STATS_MAX:
            return head, {}, None
        tracked = (os.path.join(root, entry.path) for entry in index.entries)
        return head, {name: stamp_of(name) for name in tracked}, self._untracked(root, index, stamp)

    def _untracked(self, root: str, index: Index, stamp: Stamp) -> frozenset[str] | None:
        """Return what is not tracked; None where there are too many folders, or names, to look at.

        Names come and go with a folder's date: where no date is another one, nothing is read.
        """
        if self._folders[0] is not index:
            self._folders = (index, tuple(sorted(folders_of(index))))
        if len(self._folders[1]) > _FOLDERS_MAX:
            return None
        dates = (stamp, *(stamp_of(os.path.join(root, folder)) for folder in self._folders[1]))
        if dates != self._names[0]:
            names = Untracked(root, index, lambda: True, _NAMES_MAX)
            new = frozenset(os.path.join(root, name) for name in names)
            self._names = (dates, new if names.is_whole else None)
        return self._names[1]

    def _shown(self, path: str) -> str:
        below = os.path.relpath(path, self._root)
        return path if below.startswith("..") else below


def stamp_of(path: str) -> Stamp:
    """Return when a file was changed last and how large it is, without following a link."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size
