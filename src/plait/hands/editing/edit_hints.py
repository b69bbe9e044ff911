"""Why a snippet is not in a file, in words that help to get it right the second time.

Floor: 2. Owns: likely near misses; never: matching anything but exactly.
"""

from __future__ import annotations

import re
from typing import Final

from plait.hands.editing.near_match import folded

_COMPARED_CHARS_MAX: Final = 2_000_000
_LINE_NUMBER: Final = re.compile(r"[ \t]*\d+(?:\t|: ?|\| ?|→)")


def why_not_found(text: str, old: str) -> str:
    """Return the most likely reason why `old` is not in `text`, as advice."""
    if len(text) > _COMPARED_CHARS_MAX:
        return "read the place again and copy it exactly"
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n")
    numberless = [_LINE_NUMBER.sub("", line, count=1) for line in wanted]
    if numberless != wanted and all(map(_LINE_NUMBER.match, filter(str.strip, wanted))) and _find(lines, numberless):
        return "leave out the line numbers: they are not part of the file"
    if at := _find([line.rstrip() for line in lines], [line.rstrip() for line in wanted]):
        return f"line {at} has it with other blanks at the ends of lines; copy them exactly"
    if at := _find([line.strip() for line in lines], [line.strip() for line in wanted]):
        return f"line {at} has it with another indentation; copy tabs and spaces exactly"
    if at := _find(list(map(_folded, lines)), list(map(_folded, wanted))):
        return f"line {at} has it with other quotes, dashes or accents; copy the characters exactly"
    first = next((line.strip() for line in wanted if line.strip()), "")
    at = next((number for number, line in enumerate(lines, 1) if first and first in line), 0)
    if at and len(wanted) > 1:
        return f"its first line is at line {at}, but what follows differs; read from there again"
    return "read the file again: it may have changed, or the snippet belongs to another file"


def _find(lines: list[str], wanted: list[str]) -> int:
    """Return the number, from 1, of the line where `wanted` begins (a part of a line when it is one line), or 0."""
    if not any(wanted):
        return 0
    if len(wanted) == 1:
        return next((number for number, line in enumerate(lines, 1) if wanted[0] in line), 0)
    starts = (at for at, line in enumerate(lines) if line == wanted[0])
    return next((at + 1 for at in starts if lines[at : at + len(wanted)] == wanted), 0)


def _folded(line: str) -> str:
    return folded(line).strip()
