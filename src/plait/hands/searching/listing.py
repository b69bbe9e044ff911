"""What is in a directory, and which paths below it fit a pattern.

Floor: 2. Owns: listings, globs over a tree, the ignore files that hold for a base; never: the content of files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.searching.globs import compile_glob, split_absolute
from plait.hands.searching.walk import Ignores, Kind, Stopped, Walk, WalkRules, is_ignored, read_ignore, sorted_entries
from plait.hands.workspace import Files, OpenDirectory

RESULTS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class FoundPaths:
    """Paths in order; a directory ends in `/`."""

    paths: tuple[str, ...]
    is_truncated: bool
    """True when there are more than were asked for."""
    skipped_directories: int
    ignored: int
    """Entries that `.gitignore` files leave out."""
    stopped: Stopped


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a directory; `is_noise` marks a directory that searches pass over."""

    name: str
    kind: Kind
    is_noise: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory's entries by name, and how many more there are."""

    entries: tuple[Entry, ...]
    left_out: int


def list_entries(
    files: Files,
    path: str,
    rules: WalkRules | None = None,
    *,
    entries_max: int = 10_000,
    directories_first: bool = False,
) -> Listing:
    """List a directory; what `rules.admit` refuses is not there. Raises `Refusal`."""
    rules = rules or WalkRules()
    admit = rules.admit
    with files.open_directory(path) as directory:
        prefix = prefix_of(directory)
        found, left_out = sorted_entries(
            directory.fd,
            entries_max,
            admit=None if admit is None else lambda name, is_directory: admit(prefix + name, is_directory),
            directories_first=directories_first,
        )
    entries = (Entry(readable(name), kind, kind == "directory" and name in rules.noise) for name, kind, _ in found)
    return Listing(tuple(entries), left_out)


def find_paths(
    files: Files, pattern: str, *, path: str = ".", rules: WalkRules | None = None, results_max: int = RESULTS_MAX
) -> FoundPaths:
    """Find files, directories and links whose path below `path` fits a glob; `globs` says what it means.

    A pattern that begins with `/` or `~/` is about that place, if `files` lets it be opened.
    The directories that the pattern names literally are opened as they are, ignored or not; when they do not exist,
    nothing is found. Raises `Refusal`.
    """
    if pattern.startswith(("/", "~/")):
        path, pattern = split_absolute(pattern)
    glob = compile_glob(pattern)
    try:
        directory = files.open_directory("/".join((path, *glob.base)) if path != "." else "/".join(glob.base) or ".")
    except Refusal as refusal:
        if glob.base and refusal.refusal in {"NOT_FOUND", "INVALID_INPUT"}:
            return FoundPaths((), False, 0, 0, "")
        raise
    with directory:
        walk = descent(files, directory, rules or WalkRules())
        prefix = prefix_of(directory)
        paths: list[str] = []
        for found in walk:
            is_directory = found.kind == "directory"
            if glob.matches(found.path, is_directory=is_directory):
                paths.append(f"{readable(prefix + found.path)}{'/' if is_directory else ''}")
            if len(paths) > results_max:
                break
        return FoundPaths(
            tuple(paths[:results_max]), len(paths) > results_max, walk.skipped_directories, walk.ignored, walk.stopped
        )


def descent(files: Files, directory: OpenDirectory, rules: WalkRules) -> Walk:
    """Prepare the walk below a directory: paths as shown for `admit`, and the ignore files above it."""
    prefix = prefix_of(directory)
    admit = rules.admit
    if admit is not None and prefix:
        rules = replace(rules, admit=lambda path, is_directory: admit(prefix + path, is_directory))
    rules = replace(rules, forbidden=rules.forbidden | files.forbidden())
    ignores = _ignores_above(files, directory.shown, rules) if rules.respects_ignore_files else ()
    return Walk(directory, rules, ignores, prefix if ignores else "")


def prefix_of(directory: OpenDirectory) -> str:
    """What stands before the names in a directory: its path as shown and a `/`, or nothing for the workspace."""
    return "" if directory.shown == "." else f"{directory.shown.rstrip('/')}/"


def readable(path: str) -> str:
    """A path as text that can be sent anywhere: bytes that are not UTF-8 become U+FFFD."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _ignores_above(files: Files, shown: str, rules: WalkRules) -> Ignores:
    """Read the ignore files of the directories above a base; none hold when the base itself is one of the ignored."""
    if shown == "." or shown.startswith("/"):
        return ()
    names = shown.split("/")
    ignores: Ignores = ()
    for depth, name in enumerate(names):
        above = "/".join(names[:depth])
        try:
            with files.open_directory(above or ".") as directory:
                ignores = (*read_ignore(directory.fd, len(above) + 1 if above else 0), *ignores)
        except Refusal:
            return ()
        if name in rules.noise or is_ignored(ignores, "/".join(names[: depth + 1]), is_directory=True):
            return ()
    return ignores
