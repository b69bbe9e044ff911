"""Literal snippets of a text, and what takes their place.

Floor: 2. Owns: finding them, replacing them and the words where that cannot be done; never: a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing import textfile
from plait.hands.editing.edit_hints import why_not_found
from plait.hands.editing.near_match import How, find_near
from plait.hands.editing.textfile import Newlines, Span, TextFile

_LINES_NAMED_MAX: Final = 20

Many = Literal["first", "all", "refuse"]
"""What to do when a snippet occurs more than once."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One literal snippet and what takes its place."""

    old: str
    new: str
    many: Many = "refuse"


@dataclass(frozen=True, slots=True)
class Replaced:
    """How often a snippet was there, how many were replaced, and where."""

    occurrences: int
    replaced: int
    first_line: int
    left_lines: tuple[int, ...] = ()
    """Lines of those that were not replaced, as far as they are named."""
    how: How = ""
    """In what the snippet and the place differed, where it was taken for the only one that can be meant."""


def check_replacement(replacement: Replacement, form: TextFile, shown: str, label: str) -> None:
    """Refuse a replacement that changes nothing, or that the file cannot hold."""
    textfile.require_text(replacement.old, label)
    textfile.require_text(replacement.new, f"the text for {label}")
    if not replacement.old:
        raise Refusal("INVALID_INPUT", f"{label} is empty", hint="give the exact text to replace")
    if replacement.old == replacement.new:
        raise Refusal("INVALID_INPUT", f"{label} and its replacement are the same", hint="nothing would change")
    if "\0" in replacement.new:
        raise Refusal("INVALID_INPUT", f"the text for {label} has a NUL character", hint="leave it out")
    form.require_fitting(replacement.new, shown)


def replace_snippet(
    text: str, replacement: Replacement, newlines: Newlines, where: tuple[str, str]
) -> tuple[str, Replaced]:
    """Return a text with a snippet replaced, and what was done.

    A snippet that is there only but for blanks or typography, and only once, is taken for that place (`near_match`),
    unless newlines are literal.

    Args:
        where: the file as the caller may see it, and what the snippet is called.

    Raises:
        Refusal: `CONFLICT` for a snippet that is not there or (with `refuse`) there more than once, with the count and
            line numbers in its details; `TOO_LARGE` for a text that would be.
    """
    shown, label = where
    spans = textfile.find_spans(text, replacement.old, newlines)
    near = find_near(text, replacement.old, replacement.new) if newlines == "fit" and not spans else None
    if near is not None:
        new_text = textfile.replace_spans(text, [near.span], near.new)
        return new_text, Replaced(1, 1, textfile.line_of(text, near.span.start), (), near.how)
    if not spans:
        raise Refusal(
            "CONFLICT",
            f"{label} is not in {shown!r}",
            hint=why_not_found(text, replacement.old),
            details={"path": shown, "occurrences": 0},
        )
    if len(spans) > 1 and replacement.many == "refuse":
        lines = _lines(text, spans)
        raise Refusal(
            "CONFLICT",
            f"{label} is not unique: it is {len(spans)} times in {shown!r}, at lines {', '.join(map(str, lines))}",
            hint="add lines around it until it is the only one, or replace all",
            details={"path": shown, "occurrences": len(spans), "lines": lines},
        )
    used = spans if replacement.many == "all" else spans[:1]
    textfile.require_room(len(text) + len(used) * len(replacement.new), shown, "replace less")
    new_text = textfile.replace_spans(text, used, replacement.new)
    left = _lines(text, spans[len(used) :])
    return new_text, Replaced(len(spans), len(used), textfile.line_of(text, spans[0].start), tuple(left))


def _lines(text: str, spans: Sequence[Span]) -> list[int]:
    return [textfile.line_of(text, span.start) for span in spans[:_LINES_NAMED_MAX]]
