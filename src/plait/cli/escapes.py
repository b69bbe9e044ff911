"""Makes text of a model, a tool or a server harmless to a terminal.

Floor: 7. Owns: what counts as a control character and how it is shown; never: where the text goes.

Control characters are shown as `cat -v` shows them (`^[` for escape), the others by their code, so that they can be
read in any encoding. Every character is judged alone: text that comes in pieces may be cut anywhere.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, delete, C1
    "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators and what reverses reading
    "\ud800-\udfff]"  # lone surrogates: bytes that were no text
)
_DELETE: Final = 0x7F


def visible(text: str) -> str:
    """Return text that moves no cursor, sets no title and reverses no line; line ends become newlines."""
    return _CONTROLS.sub(_shown, text.replace("\r\n", "\n"))


def literal(text: str) -> list[str]:
    """Return the lines of a text with every character that cannot be seen spelt out, tabs included.

    For what a user must judge letter by letter: nothing in it is hidden, and nothing in it draws a line of its own.
    """
    return ["".join(char if char.isprintable() else _escaped(char) for char in line) for line in text.split("\n")]


def one_line(text: str, chars_max: int) -> str:
    """Return text as one visible line of at most so many characters, the cut marked with `...`."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= chars_max else f"{line[: max(0, chars_max - 3)]}..."


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return f"^{chr(code + 0x40)}"
    return "^?" if code == _DELETE else _escaped(match[0])


def _escaped(char: str) -> str:
    code = ord(char)
    named = {"\t": "\\t", "\r": "\\r"}.get(char)
    if named is not None:
        return named
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
