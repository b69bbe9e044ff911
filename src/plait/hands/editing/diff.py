"""What a change to a file comes to: lines added and removed, and the lines themselves.

Floor: 2. Owns: counting and unified diffs, bounded in time and size; never: how a diff is coloured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

_COMPARED_LINES_MAX: Final = 4_000
"""Beyond this many lines between the first and the last difference, all of them count as replaced."""
_CONTEXT_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class DiffSummary:
    """How many lines of a file a change added and removed."""

    path: str
    added: int
    removed: int

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        return {"path": self.path, "added": self.added, "removed": self.removed}


@dataclass(frozen=True, slots=True)
class _Middle:
    """What lies between the lines that both texts begin with and the lines that both end with."""

    start: int
    before: list[str]
    after: list[str]


def summarise(path: str, before: str, after: str) -> DiffSummary:
    """Count the lines that changed between two texts."""
    middle = _middle(_lines(before), _lines(after))
    if len(middle.before) + len(middle.after) > _COMPARED_LINES_MAX:
        return DiffSummary(path, len(middle.after), len(middle.before))
    import difflib

    matcher = difflib.SequenceMatcher(None, middle.before, middle.after, autojunk=False)
    kept = sum(block.size for block in matcher.get_matching_blocks())
    return DiffSummary(path, len(middle.after) - kept, len(middle.before) - kept)


def unified(path: str, before: str, after: str, *, lines_max: int = 400, chars_max: int = 40_000) -> str:
    """Return the change as a unified diff; when it is longer than allowed, its last line says `truncated`.

    A text that does not end with a newline is marked the way git does it.
    """
    old, new = _lines(before), _lines(after)
    middle = _middle(old, new)
    if len(middle.before) + len(middle.after) > _COMPARED_LINES_MAX:
        return f"--- {path}\n+++ {path}\n(truncated: {len(middle.before)} lines became {len(middle.after)})\n"
    first = max(0, middle.start - _CONTEXT_LINES)
    tail = old[middle.start + len(middle.before) :][:_CONTEXT_LINES]
    lead = old[first : middle.start]
    import difflib

    pieces = difflib.unified_diff(
        [*lead, *middle.before, *tail],
        [*lead, *middle.after, *tail],
        fromfile=path,
        tofile=path,
        n=_CONTEXT_LINES,
    )
    return _bounded((_shift(piece, first) for piece in islice(pieces, lines_max + 1)), lines_max, chars_max)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _middle(old: list[str], new: list[str]) -> _Middle:
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    room = shorter - start
    end = next((i for i in range(room) if old[-1 - i] != new[-1 - i]), room)
    return _Middle(start, old[start : len(old) - end], new[start : len(new) - end])


def _shift(piece: str, lines: int) -> str:
    """Move the line numbers of a hunk's header: the compared part begins `lines` lines into the file."""
    if not piece.startswith("@@ ") or not lines:
        return piece
    numbers = piece.split(" ")
    moved = [_moved(number, lines) for number in numbers[1:3]]
    return " ".join((numbers[0], *moved, *numbers[3:]))


def _moved(number: str, lines: int) -> str:
    start, comma, count = number[1:].partition(",")
    return f"{number[0]}{int(start) + lines}{comma}{count}"


def _bounded(pieces: Iterable[str], lines_max: int, chars_max: int) -> str:
    kept: list[str] = []
    size = 0
    for number, piece in enumerate(pieces):
        whole = piece if piece.endswith("\n") else f"{piece}\n\\ No newline at end of file\n"
        size += len(whole)
        if number >= lines_max or size > chars_max:
            kept.append("(truncated: the rest of the diff is not shown)\n")
            break
        kept.append(whole)
    return "".join(kept)
