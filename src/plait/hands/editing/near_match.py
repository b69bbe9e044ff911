"""A snippet that is in a file but for its blanks or its typography: found when it can mean only one place.

Floor: 2. Owns: what counts as near, and the new text in the indentation of the place; never: exact matches, writing.

Near is one of three: other blanks at the ends of lines; another indentation, by which all lines are shifted alike;
other quotes, dashes, accents or widths of the same characters. Whatever could be in two places is in none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from os.path import commonprefix
from typing import Final, Literal

from plait.core.values import dataclass
from plait.hands.editing.textfile import Span, newline_at

How = Literal["", "blanks", "indentation", "characters"]
"""In what a snippet and its place differ; empty when they do not."""

_COMPARED_CHARS_MAX: Final = 2_000_000
_BLANKS: Final = " \t"
_TAB_WIDTHS: Final = (4, 2, 8, 3)
_LOOKALIKES: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    }
)
_CLUSTER: Final = re.compile("\r\n|[\\s\\S]")
_JAMO_TAIL: Final = range(0x1160, 0x1200)

Shift = Callable[[str], str | None]
"""Gives a line's indentation as it is in the file; None where it does not follow the rule."""


@dataclass(frozen=True, slots=True)
class Near:
    """The one place that a snippet must mean, and what is to be put there."""

    span: Span
    new: str
    how: How


def find_near(text: str, old: str, new: str) -> Near | None:
    """Find the only place in `text` that `old`, which is nowhere exactly, can mean; None for none or several."""
    if len(text) > _COMPARED_CHARS_MAX:
        return None
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    return _by_lines(text, old, new) or _by_characters(text, old, new)


def folded(text: str) -> str:
    """Return text with one spelling for all quotes, dashes, widths and compositions of a character."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).translate(_LOOKALIKES))


def _by_lines(text: str, old: str, new: str) -> Near | None:
    wanted = old.split("\n")
    takes_end = wanted[-1] == "" and len(wanted) > 1
    if takes_end:
        wanted.pop()
    if not any(line.strip(_BLANKS) for line in wanted):
        return None
    lines = text.split("\n")
    if takes_end:
        lines.pop()  # what is behind the last line feed has no end to take
    at = _only_place(lines, wanted)
    if at is None:
        return None
    here = [line.rstrip("\r") for line in lines[at : at + len(wanted)]]
    shift = shift_between(wanted, here)
    shifted = None if shift is None else _shifted(new, shift)
    if shifted is None:
        return None
    start = sum(map(len, lines[:at])) + at
    end = start + sum(map(len, lines[at : at + len(wanted)])) + len(wanted)
    if not takes_end:
        end -= 1 + len(lines[at + len(wanted) - 1]) - len(here[-1].rstrip(_BLANKS))
    is_indented_alike = [_indent(line) for line in _filled(wanted)] == [_indent(line) for line in _filled(here)]
    return Near(Span(start, end, newline_at(text, start)), shifted, "blanks" if is_indented_alike else "indentation")


def _only_place(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index of the only line where `wanted` begins when blanks around lines do not count."""
    bare, bare_wanted = [line.strip(" \t\r") for line in lines], [line.strip(_BLANKS) for line in wanted]
    places = (at for at, line in enumerate(bare) if line == bare_wanted[0])
    found = [at for at in places if bare[at : at + len(bare_wanted)] == bare_wanted]
    return found[0] if len(found) == 1 else None


def shift_between(wanted: Sequence[str], here: Sequence[str]) -> Shift | None:
    """Return the one rule that turns the indentation of every line of a snippet into that of its place."""
    theirs = [_indent(line) for line in _filled(wanted)]
    ours = [_indent(line) for line in _filled(here)]
    before, after = commonprefix(theirs), commonprefix(ours)  # noqa: RUF071 -- characters, not names

    def moved(indent: str) -> str | None:
        return after + indent[len(before) :] if indent.startswith(before) else None

    rules: list[Shift] = [moved]
    for width in _TAB_WIDTHS:
        rules += [_retabbed(" " * width, "\t"), _retabbed("\t", " " * width)]
    return next((rule for rule in rules if [rule(indent) for indent in theirs] == ours), None)


def _retabbed(unit: str, other: str) -> Shift:
    def rule(indent: str) -> str | None:
        steps = len(indent) // len(unit)
        return other * steps if indent == unit * steps else None

    return rule


def _shifted(new: str, shift: Shift) -> str | None:
    lines: list[str] = []
    for line in new.split("\n"):
        indent = shift(_indent(line)) if line.strip(_BLANKS) else ""
        if indent is None:
            return None
        lines.append(indent + line[len(_indent(line)) :] if line.strip(_BLANKS) else line)
    return "\n".join(lines)


def _filled(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.strip(_BLANKS)]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_BLANKS))]


def _by_characters(text: str, old: str, new: str) -> Near | None:
    if (text.isascii() and old.isascii()) or not old.strip():
        return None
    pieces, starts = _clusters(text)
    at = 0
    positions: dict[int, int] = {}
    for piece, start in zip(pieces, starts, strict=True):
        positions[at] = start
        at += len(piece)
    positions[at] = len(text)
    whole, wanted = "".join(pieces), "".join(_clusters(old)[0])
    found = whole.find(wanted)
    if found < 0 or whole.find(wanted, found + 1) >= 0:
        return None
    if found not in positions or found + len(wanted) not in positions:
        return None  # it begins or ends in the middle of a character
    start, end = positions[found], positions[found + len(wanted)]
    return Near(Span(start, end, newline_at(text, start)), new, "characters")


def _clusters(text: str) -> tuple[list[str], list[int]]:
    """Return a text's characters, each with the marks upon it, folded; and where each begins."""
    pieces: list[str] = []
    starts: list[int] = []
    for match in _CLUSTER.finditer(text):
        piece = match[0]
        if pieces and (unicodedata.combining(piece[0]) or ord(piece[0]) in _JAMO_TAIL):
            pieces[-1] += piece
        else:
            pieces.append(piece)
            starts.append(match.start())
    known: dict[str, str] = {"\r\n": "\n"}
    for piece in set(pieces):
        known.setdefault(piece, piece if piece.isascii() else folded(piece))
    return [known[piece] for piece in pieces], starts
