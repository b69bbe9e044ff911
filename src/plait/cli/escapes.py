"""Makes text of a model, a tool or a server harmless to a terminal.

Floor: 7. Owns: text as one line, and text that is judged letter by letter; never: where the text goes.
"""

from __future__ import annotations

from plait.events.render import spelt_out, visible

__all__ = ["literal", "one_line", "visible"]


def literal(text: str) -> list[str]:
    """Return the lines of a text with every character that cannot be seen spelt out, tabs included.

    For what a user must judge letter by letter: nothing in it is hidden, and nothing in it draws a line of its own.
    """
    return ["".join(char if char.isprintable() else spelt_out(char) for char in line) for line in text.split("\n")]


def one_line(text: str, chars_max: int) -> str:
    """Return text as one visible line of at most so many characters, the cut marked with `...`."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= chars_max else f"{line[: max(0, chars_max - 3)]}..."
