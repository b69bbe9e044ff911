"""A file's text with hunks applied: all of them or none, and every byte that they do not name as it was.

Floor: 2. Owns: the new text; never: where a hunk belongs (`match`), reading or writing a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing.near_match import Shift
from plait.hands.patches.match import Ground, Placed, bare, place, shift_of
from plait.hands.patches.parts import Hunk, PatchLine

_MARK: Final = "\ufeff"
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Patched:
    """The new text, and what is worth saying of how the hunks were placed."""

    text: str
    notes: tuple[str, ...] = ()


def patched(text: str, hunks: Sequence[Hunk], shown: str) -> Patched:
    """Return `text` with every hunk applied to it.

    A byte order mark is its first character, and stays that unless the hunks speak of it.

    Raises:
        Refusal: `CONFLICT` for a hunk that has no place, or more than one, or one that another hunk has.
    """
    if text.startswith(_MARK) and not any(_MARK in line.text for hunk in hunks for line in hunk.lines):
        found_without = patched(text[1:], hunks, shown)
        return Patched(_MARK + found_without.text, found_without.notes)
    lines: list[str] = _LINE.findall(text)
    ground = Ground(lines, shown)
    found: list[Placed] = []
    after = 0
    for hunk in hunks:
        placed = place(ground, hunk, after, len(hunks))
        found.append(placed)
        after = max(after, placed.end)
    edits = sorted((edit for placed in found for edit in _edits(lines, placed, shown)), key=_order)
    for one, other in pairwise(edits):
        if other.start < one.end:
            raise Refusal(
                "CONFLICT",
                f"hunks {one.hunk.number} and {other.hunk.number} for {shown!r} change the same lines",
                hint="make one hunk of them",
                details={"path": shown, "hunks": [one.hunk.number, other.hunk.number]},
            )
    pieces: list[str] = []
    at = 0
    for edit in edits:
        pieces += (*lines[at : edit.start], *edit.new)
        at = edit.end
    pieces += lines[at:]
    is_last = bool(edits) and at >= len(lines)
    return Patched(_joined(lines, pieces, edits[-1].hunk if is_last else None), _notes(found))


@dataclass(frozen=True, slots=True)
class _Edit:
    """Lines that go, next to each other, and what comes in their place."""

    start: int
    end: int
    new: tuple[str, ...]
    hunk: Hunk


def _order(edit: _Edit) -> tuple[int, int, int]:
    """Of two at one place the one that only adds comes first; what both add keeps the order of the patch."""
    return edit.start, edit.end, edit.hunk.number


def _edits(lines: Sequence[str], placed: Placed, shown: str) -> Iterator[_Edit]:
    """Return what a hunk changes; lines that only stand around it stay as they are, whatever another hunk says."""
    hunk, at = placed.hunk, placed.start
    shift = shift_of(hunk, lines[at : placed.end]) if placed.how == "indentation" else None
    for is_context, group in groupby(hunk.lines, key=lambda line: line.mark == " "):
        together = list(group)
        if is_context:
            at += len(together)
            continue
        start, new = at, []
        for line in together:
            if line.mark == "-":
                at += 1
                continue
            text = line.text if shift is None else _shifted(line.text, shift, placed, shown)
            new.append(text + _end_of(line, text, placed, lines, at))
        yield _Edit(start, at, tuple(new), hunk)


def _shifted(text: str, shift: Shift, placed: Placed, shown: str) -> str:
    indent = text[: len(text) - len(text.lstrip(" \t"))]
    if not text.strip():
        return text
    moved = shift(indent)
    if moved is None:
        raise Refusal(
            "CONFLICT",
            f"hunk {placed.hunk.number} for {shown!r} (line {placed.hunk.patch_line} of the patch) has another "
            "indentation than the file, and adds lines of which it cannot be told where they belong",
            hint=f"copy the indentation of line {placed.start + 1} of the file",
            details={"path": shown, "hunk": placed.hunk.number, "patch_line": placed.hunk.patch_line},
        )
    return moved + text[len(indent) :]


def _end_of(line: PatchLine, text: str, placed: Placed, lines: Sequence[str], at: int) -> str:
    """Return the end of a new line: what the patch says, else that of the lines where it stands."""
    if not line.has_end:
        return ""
    if text.endswith("\r") or (placed.how == "exactly" and placed.hunk.old):
        return "\n"
    for near in (*lines[max(0, at - 1) : at], *lines[at : at + 1], *lines[:1]):
        if near.endswith("\n"):
            return "\r\n" if near.endswith("\r\n") else "\n"
    return "\n"


def _joined(lines: Sequence[str], pieces: list[str], last: Hunk | None) -> str:
    """Put lines together: each but the last has an end, and the last has one if it had."""
    is_open = bool(lines) and not lines[-1].endswith("\n")
    if last is not None and is_open and pieces and not last.speaks_of_the_end:
        pieces[-1] = bare(pieces[-1])
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for at, piece in enumerate(pieces[:-1]):
        if not piece.endswith("\n"):
            pieces[at] = piece + newline
    return "".join(pieces)


def _notes(found: Sequence[Placed]) -> tuple[str, ...]:
    notes: list[str] = []
    for placed in found:
        hunk = placed.hunk
        if placed.how not in ("exactly", "line ends"):
            notes.append(f"hunk {hunk.number} matched but for {placed.how}, at line {placed.start + 1}")
        elif hunk.line is not None and hunk.old and hunk.line != placed.start + 1:
            notes.append(f"hunk {hunk.number} was found at line {placed.start + 1}, not {hunk.line}")
    return tuple(notes)
