"""The state of a git repository as a model is told of it, without running git.

Floor: 3. Owns: the lines and how much work they may be; never: a word of the repository's configuration.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from plait.config.places import project_root
from plait.context.git_folder import GitFolder, git_folder, read_head
from plait.context.git_index import ENTRIES_MAX, Index, change_of, read_index
from plait.context.git_objects import Objects
from plait.hands import beneath
from plait.hands.searching.walk import NOISE, Ignores, is_ignored, read_ignore

COMMITS: Final = 5
SHOWN_MAX: Final = 20
WORK_S_MAX: Final = 0.25
"""How long looking at files may take; what was found until then is told, and that there may be more."""
_NAMES_MAX: Final = 5_000
_SUBJECT_CHARS: Final = 100
_HASH_CHARS: Final = 9


def git_lines(cwd: str, now_s: Callable[[], float] = time.monotonic) -> list[str]:
    """Return branch, last commits and changed files of the repository around a folder; nothing outside of one."""
    folder = git_folder(project_root(cwd))
    head = None if folder is None else read_head(folder)
    if folder is None or head is None:
        return []
    where = f"on branch {printable(head.branch)}" if head.branch else f"at {head.commit[:_HASH_CHARS]}, on no branch"
    with Objects(folder.common) as objects:
        commits, tree = _commits(objects, head.commit)
        lines = [f"Git: {where}"]
        if commits:
            lines += ["Recent commits:", *(f"  {line}" for line in commits)]
        return [*lines, *_changes(folder, objects, tree, now_s)]


def _commits(objects: Objects, commit: str) -> tuple[list[str], str]:
    """Return a line for each of the last commits, and the tree of the last."""
    found: list[str] = []
    tree = ""
    while commit and len(found) < COMMITS:
        told = objects.commit(commit)
        if told is None:
            break
        tree = tree or told.tree
        found.append(f"{commit[:_HASH_CHARS]} {printable(told.subject)[:_SUBJECT_CHARS]}")
        commit = told.parent
    return found, tree


def _changes(folder: GitFolder, objects: Objects, tree: str, now_s: Callable[[], float]) -> list[str]:
    index = read_index(folder.own / "index")
    if index is None:
        return []
    if index.is_large:
        return [f"Changed files: not looked for among {index.count:,} tracked ones; ask git"]
    until_s = now_s() + WORK_S_MAX
    marks, is_whole = _changed(str(folder.tree), index, lambda: now_s() < until_s)
    staged = _staged(index, objects, tree)
    for path, mark in ({} if staged is None else staged).items():
        marks[path] = mark + marks.get(path, "  ")[1].replace("?", " ")
    is_whole = is_whole and staged is not None
    if not marks:
        return ["Working tree: clean" if is_whole else "Changed files: none found in the time there was; ask git"]
    order = sorted(marks, key=lambda path: (marks[path] == "??", path))
    shown = [f"  {marks[path]} {printable(path)}" for path in order[:SHOWN_MAX]]
    more = len(marks) - len(shown)
    shown += [f"  … and {more} more"] if more else []
    shown += [] if is_whole else ["  (there may be others: not everything was looked at)"]
    return [f"Changed files ({len(marks)}):", *shown]


def _staged(index: Index, objects: Objects, tree: str) -> dict[str, str] | None:
    """Return what of the index is not as in the last commit; None where that cannot be told."""
    before = objects.files(tree, ENTRIES_MAX) if tree else {}
    if before is None:
        return None
    now = {entry.path: entry.hash for entry in index.entries if not entry.is_conflict}
    marks = {path: "M" if path in before else "A" for path, name in now.items() if before.get(path) != name}
    known = now.keys() | index.others | {entry.path for entry in index.entries}
    return {**marks, **dict.fromkeys(before.keys() - known, "D")}


def _changed(root: str, index: Index, may_go_on: Callable[[], bool]) -> tuple[dict[str, str], bool]:
    """Return what differs from the index and what is not in it, marked as git does, and whether it is all."""
    found: dict[str, str] = {}
    for entry in index.entries:
        if not may_go_on():
            return found, False
        if mark := change_of(root, entry):
            found[entry.path] = "UU" if mark == "U" else f" {mark}"
    names = Untracked(root, index, may_go_on)
    found.update(dict.fromkeys(names, "??"))
    return found, names.is_whole


def folders_of(index: Index) -> set[str]:
    """Return the folders that hold tracked files, or folders of these; the root is empty."""
    folders = {""}
    for path in (*index.others, *(entry.path for entry in index.entries)):
        while (path := os.path.dirname(path)) not in folders:
            folders.add(path)
    return folders


class Untracked:
    """Looks for names that are not tracked in the folders of tracked files; a folder without any is one name."""

    def __init__(self, root: str, index: Index, may_go_on: Callable[[], bool], names_max: int = _NAMES_MAX) -> None:
        self.is_whole = True
        self._root = root
        self._files = index.others | {entry.path for entry in index.entries}
        self._folders = folders_of(index)
        self._left = names_max
        self._may_go_on = may_go_on

    def __iter__(self) -> Iterator[str]:
        ignores: dict[str, Ignores] = {}
        for folder in sorted(self._folders):
            if self._left <= 0 or not self._may_go_on():
                self.is_whole = False
                return
            found, ignores[folder] = self._in_folder(folder, ignores.get(os.path.dirname(folder), ()))
            yield from found

    def _in_folder(self, folder: str, ignores: Ignores) -> tuple[list[str], Ignores]:
        found: list[str] = []
        prefix = f"{folder}/" if folder else ""
        whole = os.path.join(self._root, folder) if folder else self._root
        if folder and os.path.realpath(whole) != os.path.join(os.path.realpath(self._root), folder):
            return found, ignores  # a link stands in the place of a tracked folder
        try:
            fd = os.open(whole, os.O_RDONLY | beneath.DIRECTORY | beneath.NO_LINK)
        except OSError:
            return found, ignores
        try:
            ignores = (*read_ignore(fd, len(prefix)), *ignores)
            with os.scandir(fd) as entries:
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, self._left + 1)]
            self._left -= len(names)
            self.is_whole = self.is_whole and self._left >= 0
            for name, is_folder in sorted(names):
                path = prefix + name
                if name in NOISE or path in self._files or (is_folder and path in self._folders):
                    continue
                if not is_ignored(ignores, path, is_directory=is_folder) and not (is_folder and _is_empty(fd, name)):
                    found.append(f"{path}/" if is_folder else path)
        except OSError:
            self.is_whole = False
        finally:
            os.close(fd)
        return found, ignores


def _is_empty(fd: int, name: str) -> bool:
    try:
        inside = os.open(name, os.O_RDONLY | beneath.DIRECTORY | beneath.NO_LINK, dir_fd=fd)
    except OSError:
        return True
    try:
        with os.scandir(inside) as entries:
            return next(entries, None) is None
    finally:
        os.close(inside)


def printable(text: str) -> str:
    """Return a name out of a repository as one line without anything that a reader would take for more than a name."""
    return text if text.isprintable() else repr(text)
