"""Text cut to a size: its head and its tail, with a line between them that says what was left out.

Floor: 2. Owns: the cut and its marker; never: how large is too large, where the rest is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD_SHARE: Final = 0.5
_NEAR: Final = 200
"""A cut moves up to this many characters to fall on the end of a line."""


@dataclass(frozen=True, slots=True)
class BoundedText:
    """Text that fits, and how many characters of the original it lacks."""

    text: str
    dropped_chars: int = 0

    @property
    def is_truncated(self) -> bool:
        """True when something was left out."""
        return self.dropped_chars > 0


def marker(dropped_chars: int, hint: str = "") -> str:
    """Return the line that stands for what was left out: `… [truncated N characters; <hint>] …`."""
    advice = f"; {hint}" if hint else ""
    return f"… [truncated {dropped_chars} characters{advice}] …"


def bound_text(text: str, chars_max: int, *, hint: str = "") -> BoundedText:
    """Keep the head and the tail of `text` so that at most `chars_max` characters of it remain (plus the marker).

    A cap of 0 or less means no cap. `hint` says where the rest is.
    """
    if chars_max <= 0 or len(text) <= chars_max:
        return BoundedText(text)
    head_chars = int(chars_max * HEAD_SHARE)
    return join_ends(text[:head_chars], text[len(text) - (chars_max - head_chars) :], len(text) - chars_max, hint=hint)


def join_ends(head: str, tail: str, dropped_chars: int, *, hint: str = "") -> BoundedText:
    """Put a head and a tail together around the marker; ragged ends give way to whole lines where one is near."""
    if dropped_chars <= 0:
        return BoundedText(head + tail)
    whole_head = _to_line_end(head)
    whole_tail = _from_line_start(tail)
    dropped = dropped_chars + len(head) - len(whole_head) + len(tail) - len(whole_tail)
    start = "" if not whole_head or whole_head.endswith("\n") else "\n"
    return BoundedText(f"{whole_head}{start}{marker(dropped, hint)}\n{whole_tail}", dropped)


def _to_line_end(head: str) -> str:
    at = head.rfind("\n", max(0, len(head) - _NEAR))
    return head if at < 0 else head[: at + 1]


def _from_line_start(tail: str) -> str:
    at = tail.find("\n", 0, _NEAR)
    return tail if at < 0 else tail[at + 1 :]


def until_whole_character(data: bytes) -> bytes:
    """Drop the last character of UTF-8 bytes when a cut has left only a part of it."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 != 0x80:
            needed = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data[:-back] if needed > back else data
    return data


def from_whole_character(data: bytes) -> bytes:
    """Drop what a cut has left of a character at the start of UTF-8 bytes."""
    skip = next((at for at in range(min(4, len(data))) if data[at] & 0xC0 != 0x80), 0 if len(data) > 3 else len(data))
    return data[skip:]
