"""What a patch says: which files it adds, changes, moves and deletes, line by line.

Floor: 2. Owns: the parts of a patch, and which of the two notations one is in; never: where a hunk belongs in a file.
"""

from __future__ import annotations

import os.path
import re
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.textfile import require_text

PATCH_CHARS_MAX: Final = 8 * 1024 * 1024
FILES_MAX: Final = 1_000
HUNKS_MAX: Final = 10_000
"""Of one file."""

Kind = Literal["add", "update", "delete"]
Mark = Literal[" ", "-", "+"]

_FENCED: Final = re.compile(r"\s*```[\w-]*\r?\n(.*?\n)```\s*", re.DOTALL)
_HEREDOC: Final = re.compile(r"\s*(?:apply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1\r?\n(.*?\n)\2\s*", re.DOTALL)
V4A_BEGIN: Final = "*** Begin Patch"
V4A_END: Final = "*** End Patch"
_V4A_SECTION: Final = re.compile(r"\*\*\* (?:Add|Update|Delete) File:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk, without its line feed; a carriage return at its end is part of it."""

    mark: Mark
    text: str
    has_end: bool = True
    """False where the patch says that there is no line feed."""
    is_implied: bool = False
    """An empty line without a mark: an empty line of context, or only a gap in the patch."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of one place of a file: those that are there, those that go, those that come."""

    lines: tuple[PatchLine, ...]
    number: int
    """Which hunk of its file it is, from 1."""
    patch_line: int
    """Where it begins in the patch, from 1."""
    anchors: tuple[str, ...] = ()
    """Lines that stand somewhere before it, in this order."""
    line: int | None = None
    """The line, from 1, at which the patch says that it is; of one that only adds, the line after which."""
    is_at_end: bool = False

    @property
    def old(self) -> tuple[PatchLine, ...]:
        """What has to be there."""
        return tuple(line for line in self.lines if line.mark != "+")

    @property
    def speaks_of_the_end(self) -> bool:
        """True when it says of some line that it has no line feed, so that all the others have one."""
        return any(not line.has_end for line in self.lines)

    def without_gap(self) -> Hunk:
        """Return it without the empty lines at its end that may only be a gap in the patch."""
        kept = list(self.lines)
        while kept and kept[-1].is_implied:
            kept.pop()
        return Hunk(tuple(kept), self.number, self.patch_line, self.anchors, self.line, self.is_at_end)


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What is to become of one file."""

    kind: Kind
    path: str
    patch_line: int
    hunks: tuple[Hunk, ...] = ()
    content: str = ""
    """Of a file that is added."""
    move_to: str | None = None
    is_executable: bool | None = None
    """Set where the patch changes it."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that it touches."""
        return (self.path,) if self.move_to is None else (self.path, self.move_to)


Patch = tuple[FilePatch, ...]


def parse_patch(text: str) -> Patch:
    """Read a patch in V4A or as a unified diff. Raises `Refusal` with the line at which it cannot be understood."""
    from plait.hands.patches.unified import parse_unified
    from plait.hands.patches.v4a import parse_v4a

    require_text(text, "the patch")
    if len(text) > PATCH_CHARS_MAX:
        raise Refusal("TOO_LARGE", f"the patch has {len(text)} characters", hint="send it in parts")
    lines = patch_lines(unwrapped(text))
    is_v4a = any(line.rstrip() == V4A_BEGIN for line in lines) or _V4A_SECTION.search(text) is not None
    files = parse_v4a(lines) if is_v4a else parse_unified(lines)
    if len(files) > FILES_MAX:
        raise Refusal("TOO_LARGE", f"the patch is about {len(files)} files", hint="send it in parts")
    many = next((each for each in files if len(each.hunks) > HUNKS_MAX), None)
    if many is not None:
        raise Refusal("TOO_LARGE", f"the patch has {len(many.hunks)} hunks for {many.path!r}", hint="send it in parts")
    return files


def hunks_for(path: str, patch: str) -> tuple[Hunk, ...]:
    """Return the hunks of a patch that is to change one file and nothing else. Raises `Refusal`."""
    from plait.hands.patches.v4a import parse_hunks

    lines = patch_lines(unwrapped(patch))
    if not any(line.startswith(("*** ", "--- ", "diff --git ")) for line in lines):
        hunks = parse_hunks(lines)
    else:
        each, *more = parse_patch(patch)
        if more or not _is_same(path, each.path) or each.kind != "update" or each.move_to is not None:
            raise Refusal(
                "INVALID_INPUT",
                f"the patch is about more than a change of {path!r}",
                hint="give one *** Update File section for this path; apply_patch takes any other patch",
                details={"path": path},
            )
        hunks = each.hunks
    if not hunks:
        raise Refusal("INVALID_INPUT", "the patch has no hunk", hint="give lines with ' ', '-' and '+' in front")
    return hunks


def _is_same(path: str, other: str) -> bool:
    """Say whether two spellings can mean one file: equal, or one with more directories in front."""
    one, two = (f"/{os.path.normpath(each)}" for each in (path, other))
    return one.endswith(two) or two.endswith(one)


def unwrapped(text: str) -> str:
    """Return a patch without the fence or the shell's here-document that models put around it."""
    for wrapping, group in ((_FENCED, 1), (_HEREDOC, 3)):
        found = wrapping.fullmatch(text)
        if found is not None:
            return found[group]
    return text


def patch_lines(text: str) -> list[str]:
    """Return the lines of a patch; one that ends all of its lines with CRLF says nothing about a file's lines."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines and all(line.endswith("\r") for line in lines):
        return [line[:-1] for line in lines]
    return lines


def not_understood(line: int, what: str, hint: str) -> Refusal:
    """The refusal of a patch that cannot be read; `line` counts from 1."""
    return Refusal("INVALID_INPUT", f"line {line} of the patch {what}", hint=hint, details={"patch_line": line})
