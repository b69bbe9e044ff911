"""Why a hunk has no place in a file: the lines of the file that come nearest, beside what the hunk says is there.

Floor: 2. Owns: finding and showing those lines; never: placing a hunk there.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Final

from plait.hands.patches.parts import Hunk

_SHOWN_LINES_MAX: Final = 8
_SHOWN_CHARS_MAX: Final = 160
_COMPARED_LINES_MAX: Final = 20_000
_REPEATED_MAX: Final = 50
"""A line that is there more often says nothing of a place."""
_ALIKE: Final = 0.6


def why_no_place(lines: Sequence[str], hunk: Hunk) -> str:
    """Return advice with the nearest lines of the file, each with its number, and where they differ."""
    wanted = [line.text.strip() for line in hunk.old]
    there = [line.strip() for line in lines[:_COMPARED_LINES_MAX]]
    at = _nearest(there, wanted)
    if at is None:
        return "nothing like it is in the file: read it again"
    shown = _shown(lines, hunk, at)
    return "copy the lines exactly as they are in the file. Nearest there:\n" + "\n".join(shown)


def _nearest(there: list[str], wanted: list[str]) -> int | None:
    """Return the index at which most of the wanted lines stand where they should."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(there):
        if line:
            places.setdefault(line, []).append(at)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted):
        found = places.get(line, [])
        if len(found) <= _REPEATED_MAX:
            votes.update(at - offset for at in found)
    if votes:
        most = max(votes.values())
        return max(0, min(at for at, count in votes.items() if count == most))
    longest = max(wanted, key=len, default="")
    near = difflib.get_close_matches(longest, list(places)[:2_000], n=1, cutoff=_ALIKE) if longest else []
    return max(0, places[near[0]][0] - wanted.index(longest)) if near else None


def _shown(lines: Sequence[str], hunk: Hunk, at: int) -> list[str]:
    shown: list[str] = []
    for offset, line in enumerate(hunk.old):
        number = at + offset
        if number >= len(lines):
            shown.append(f"  (the file ends here, and the hunk goes on: {_cut(line.text)})")
            break
        has = lines[number].rstrip("\r\n")
        is_same = has == line.text.rstrip("\r")
        shown.append(f"{' ' if is_same else '>'} {number + 1}: {_cut(has)}")
        if not is_same:
            shown.append(f"    the hunk says: {_cut(line.text)}")
        if len(shown) >= _SHOWN_LINES_MAX:
            break
    return shown


def _cut(line: str) -> str:
    line = line.rstrip("\r\n")
    return line if len(line) <= _SHOWN_CHARS_MAX else f"{line[:_SHOWN_CHARS_MAX]}…"
