"""One line as a person types it, told from one that was pasted.

Floor: 7. Owns: the keys of a line, what they show, whether a hand pressed Enter; never: the terminal they come from.

Programs and clipboards send a line with its end; a person presses Enter by itself, and not within a moment of another
key. So it does not matter whether a terminal marks what is pasted.
"""

from __future__ import annotations

import codecs
from typing import Final

from plait.core.unseen import is_seen, spelt_out

_ENDS: Final = "\r\n"
_BACK: Final = "\x7f\x08"
_CLEAR: Final = "\x15"
_NO_MORE: Final = "\x04"
_CHARS_MAX: Final = 1_000


class TypedLine:
    """A line that is typed; give it what the terminal reads, and show what it returns."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._chars: list[str] = []
        self.is_over = False
        """Enter was pressed, or nothing more comes."""
        self.text: str | None = None
        """What was typed, once it is over; None for the end of the input."""
        self.is_by_hand = False
        """Enter came by itself, after a pause."""

    def take(self, keys: bytes, *, is_after_pause: bool) -> str:
        """Take what was read at once; return what to show for it.

        Args:
            is_after_pause: for a moment before it nothing was there to be read.
        """
        shown = ""
        for char in self._decoder.decode(keys):
            if char in _ENDS:
                self.is_over, self.text = True, "".join(self._chars)
                self.is_by_hand = is_after_pause and keys in (b"\r", b"\n")
                return f"{shown}\n"
            if char == _NO_MORE and not self._chars:
                self.is_over = True
                return f"{shown}\n"
            shown += self._key(char)
        return shown

    def _key(self, char: str) -> str:
        if char in _BACK or char == _CLEAR:
            count = len(self._chars) if char == _CLEAR else min(1, len(self._chars))
            gone = [self._chars.pop() for _ in range(count)]
            return "".join("\b \b" * _columns(_shown(each)) for each in gone)
        if len(self._chars) == _CHARS_MAX:
            return ""
        self._chars.append(char)
        return _shown(char)


def _shown(char: str) -> str:
    return char if is_seen(char) else spelt_out(char)


def _columns(text: str) -> int:
    import unicodedata  # few take anything back

    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
