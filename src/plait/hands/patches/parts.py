"""The parts of a patch: files, hunks and lines, in whichever notation they were written.

Floor: 2. Owns: what a part says; never: how it is read (`patch`), or where a hunk belongs in a file.
"""

from __future__ import annotations

from typing import Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass

Kind = Literal["add", "update", "delete"]
Mark = Literal[" ", "-", "+"]


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


def not_understood(line: int, what: str, hint: str) -> Refusal:
    """The refusal of a patch that cannot be read; `line` counts from 1."""
    return Refusal("INVALID_INPUT", f"line {line} of the patch {what}", hint=hint, details={"patch_line": line})
