"""Makes text of a model, a tool or a server harmless to a terminal.

Floor: 7. Owns: text as one line, and text that is judged letter by letter; never: where the text goes.
"""

from __future__ import annotations

from itertools import zip_longest

from plait.core.unseen import is_seen, spelt_out, visible

__all__ = ["literal", "one_line", "visible"]


def literal(text: str) -> list[str]:
    """Return the lines of a text with every character that cannot be seen spelt out, tabs included.

    For what a user must judge letter by letter: nothing in it is hidden, nothing in it draws a line of its own, and no
    two texts look the same: a backslash that could be taken for the beginning of a spelling is doubled.
    """
    return [_literal(line) for line in text.split("\n")]


def _literal(line: str) -> str:
    """Spell a line; it can be read back, so that two lines never come out alike."""
    return "".join(
        spelt_out(char) if not is_seen(char) else "\\\\" if char == "\\" and _is_like_a_spelling(after) else char
        for char, after in zip_longest(line, line[1:], fillvalue="")
    )


def _is_like_a_spelling(after: str) -> bool:
    return after != "" and (after in "\\xuUtr" or not is_seen(after))


def one_line(text: str, chars_max: int) -> str:
    """Return text as one visible line of at most so many characters, the cut marked with `...`."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= chars_max else f"{line[: max(0, chars_max - 3)]}..."
