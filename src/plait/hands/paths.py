"""What a path means as text: which names below which root, before anything is opened.

Floor: 2. Owns: the strict and the lenient rules for path text; never: the file system.
"""

from __future__ import annotations

import os.path
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass

PATH_BYTES_MAX: Final = 4096
STRICT_SEGMENTS_MAX: Final = 64
LENIENT_SEGMENTS_MAX: Final = 256

PathStyle = Literal["strict", "lenient"]
"""`strict`: relative, `/` only, no links. `lenient`: absolute, `~` and `..` are understood, links beneath followed."""


@dataclass(frozen=True, slots=True)
class Location:
    """A path as names: below the workspace when `is_inside`, else below `/`."""

    is_inside: bool
    segments: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The path as a user may see it: relative to the workspace (`.` is its root), absolute elsewhere."""
        text = "/".join(self.segments)
        return (text or ".") if self.is_inside else f"/{text}"


def below(root: str, absolute: str) -> tuple[str, ...] | None:
    """Return the names that lead from `root` to `absolute`, or None; both are normalised absolute paths."""
    if absolute == root:
        return ()
    prefix = root if root.endswith("/") else f"{root}/"
    return tuple(filter(None, absolute[len(prefix) :].split("/"))) if absolute.startswith(prefix) else None


def strict_location(path: str, roots: tuple[str, ...]) -> Location:
    """Read a path by the strict rules; `roots` are the spellings of the workspace's own root.

    Raises `Refusal`. An absolute path inside a root is refused too, with `recovery_path` in the details: the
    relative path to use, which passes these same rules.
    """
    _refuse_unusable(path)
    if path.startswith("/"):
        _refuse_absolute(path, roots)
    if "\\" in path:
        raise Refusal("INVALID_INPUT", f"the path {path!r} has a backslash", hint="separate names by '/'")
    if not path.isascii() and any("\ud800" <= character <= "\udfff" for character in path):
        raise Refusal("INVALID_INPUT", f"the path {path!r} is not valid text", hint="use proper Unicode")
    if path == ".":
        return Location(True, ())
    segments = tuple(path.split("/"))
    if ".." in segments:
        raise Refusal("FORBIDDEN", f"path escapes working directory: {path!r}", hint="a path may not contain '..'")
    if "" in segments or "." in segments or segments[0] == "~":
        raise Refusal(
            "INVALID_INPUT",
            f"the path {path!r} has an empty, '.' or '~' part",
            hint="write it as names joined by single '/', relative to the workspace",
        )
    return Location(True, _few_enough(segments, path, STRICT_SEGMENTS_MAX))


def lenient_location(path: str, roots: tuple[str, ...], home: str) -> Location:
    """Read a path as a person writes it: `~` is `home`, `..` is taken away as text, absolute paths are understood.

    Raises `Refusal` only for text that names no file at all; a path outside every root gives `is_inside=False`.
    """
    _refuse_unusable(path)
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    absolute = os.path.normpath(os.path.join(roots[0], path))
    absolute = f"/{absolute.lstrip('/')}"  # POSIX lets normpath keep two leading slashes
    for root in roots:
        names = below(root, absolute)
        if names is not None:
            return Location(True, _few_enough(names, path, LENIENT_SEGMENTS_MAX))
    names = tuple(filter(None, absolute.split("/")))
    return Location(False, _few_enough(names, path, LENIENT_SEGMENTS_MAX))


def _refuse_unusable(path: str) -> None:
    if not path:
        raise Refusal("INVALID_INPUT", "the path is empty", hint="name a file; '.' is the workspace itself")
    if "\0" in path:
        raise Refusal("INVALID_INPUT", f"the path {path!r} has a NUL character", hint="leave it out")
    try:
        size_bytes = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise Refusal("INVALID_INPUT", f"the path {path!r} is not valid text", hint="use proper Unicode") from None
    if size_bytes > PATH_BYTES_MAX:
        raise Refusal("INVALID_INPUT", f"the path has {size_bytes} bytes", hint=f"at most {PATH_BYTES_MAX} are taken")


def _refuse_absolute(path: str, roots: tuple[str, ...]) -> None:
    for root in roots:
        names = below(root, path)
        if names is None:
            continue
        recovery = "/".join(names) or "."
        strict_location(recovery, ())
        raise Refusal(
            "FORBIDDEN",
            f"the path {path!r} is absolute",
            hint=f"use {recovery!r}",
            details={"recovery_path": recovery},
        )
    raise Refusal("FORBIDDEN", f"path escapes working directory: {path!r}", hint="use a path relative to the workspace")


def _few_enough(segments: tuple[str, ...], path: str, segments_max: int) -> tuple[str, ...]:
    if len(segments) > segments_max:
        raise Refusal(
            "INVALID_INPUT",
            f"the path {path[:80]!r}… is {len(segments)} levels deep",
            hint=f"at most {segments_max} are taken",
        )
    return segments
