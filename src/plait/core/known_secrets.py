"""Takes the secrets that this process holds out of text, however they are written and wherever it is cut.

Floor: 0. Owns: known values in their disguises, and what is held back at the end of a piece; never: shapes (`redact`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from plait.core.mask import MASK, VALUE_CHARS_MIN
from plait.core.redact import redact_secrets

_HELD_CHARS_MAX: Final = 8_192
"""A line that is longer is given on before it ends, but for so many of its last characters."""
_BLOCK_CHARS_MAX: Final = 65_536
_BLOCK_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_WORD_CHARS_MAX: Final = 4_096
"""What a cut goes through and is longer is no word, and is kept."""
_BETWEEN: Final = " \t\n,;)]}>"
_WORD_END: Final = re.compile(r"[\s,;)\]}>]")
_BEGINNING_CHARS_MIN: Final = 6
_KEY_LINES: Final = re.compile(r"(?:[ \t\"']*[A-Za-z0-9+/=]{16,}[ \t\"',]*(?:\r?\n|\\n|$))+")
_KEY_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\"
_KEY_LINE: Final = re.compile(r"[ \t\"']*+[A-Za-z0-9+/=\\]+[ \t\r\"',]*+")
_KEY_LINE_CHARS_MIN: Final = 16
_AROUND: Final = " \t\r\"',"
_WRAPPED_CHARS_MIN: Final = 20
_WIDE: Final = re.compile(rf"[A-Za-z0-9+/=_-]{{{_WRAPPED_CHARS_MIN},}}\r?")
_WRAPPED: Final = re.compile(rf"^(?:{_WIDE.pattern}\n)+[A-Za-z0-9+/=_-]*", re.MULTILINE)
"""Lines that a program has wrapped, with what stands at the beginning of the next one."""
_BLOCK_END: Final = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")


class Redactor:
    """Masks known values and everything of a secret's shape. Immutable, safe in any thread.

    A known value is found as it is, in base64 at any alignment, in hex, percent-encoded and backwards, also where such
    text was wrapped into lines.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {text for value in values if len(value) >= VALUE_CHARS_MIN for text in _disguises(value)}
        self._known = tuple(sorted(known, key=lambda text: (-len(text), text)))
        self._longest = len(self._known[0]) if known else 0

    def redact(self, text: str) -> tuple[str, int]:
        """Return the text without secrets, and how many there were."""
        text, count = self.redact_known(text)
        text, found = redact_secrets(text)
        return text, count + found

    def redact_known(self, text: str) -> tuple[str, int]:
        """Return the text without the known values alone, and how many there were."""
        # One search for each is a tenth of one pattern for all of them, and most texts hold none.
        there = [known for known in self._known if known in text]
        text, count = re.subn("|".join(map(re.escape, there)), MASK, text) if there else (text, 0)
        if not self._known or _WRAPPED.search(text) is None:
            return text, count
        text, wrapped = self._without_wrapped(text)
        return text, count + wrapped

    def _without_wrapped(self, text: str) -> tuple[str, int]:
        """Mask known values that go over the ends of lines that a program has wrapped, as `base64` does."""
        gone: list[tuple[int, int]] = []
        for run in _WRAPPED.finditer(text):
            # Each letter of the run without its line ends, and where it stands.
            places = [at for at in range(run.start(), run.end()) if text[at] not in "\r\n"]
            joined = "".join(map(text.__getitem__, places))
            for known in self._known:
                at = joined.find(known)
                while at >= 0:
                    gone.append((places[at], places[at + len(known) - 1] + 1))
                    at = joined.find(known, at + len(known))
        end, kept, count = 0, [], 0
        for start, stop in sorted(gone):
            if start >= end:
                kept += [text[end:start], MASK]
                count += 1
            end = max(end, stop)
        return "".join([*kept, text[end:]]), count

    @property
    def knows_values(self) -> bool:
        """True where there are known values, which may go over the ends of wrapped lines."""
        return bool(self._known)

    def redact_ends(self, head: str, tail: str) -> tuple[str, str]:
        """Return the two ends of a text whose middle was left out, without secrets and what the cut left of one.

        The words that the cut went through go, and of a private key what stands behind the cut.
        """
        at = max(head.rfind(mark) for mark in _BETWEEN) + 1
        head = head[:at] if at > 0 and len(head) - at <= _WORD_CHARS_MAX else self._without_beginning(head)
        first = _WORD_END.search(tail, 0, _WORD_CHARS_MAX)
        tail = tail if first is None else tail[first.start() :]
        return self(head), self(without_key_end(tail))

    def _without_beginning(self, text: str) -> str:
        """Mask the beginning of a known value at the end of a text."""
        for known in self._known:
            for size in range(min(len(known), len(text)), _BEGINNING_CHARS_MIN - 1, -1):
                if text.endswith(known[:size]):
                    return f"{text[: len(text) - size]}{MASK}"
        return text

    def __call__(self, text: str) -> str:
        """Return the text without secrets."""
        return self.redact(text)[0]

    def stream(self, show: Callable[[str], object]) -> RedactedStream:
        """Return what takes a text piece by piece, and shows it without secrets."""
        return RedactedStream(self, show, max(_HELD_CHARS_MAX, 2 * self._longest))


class RedactedStream:
    """Gives a text on without its secrets, wherever its pieces were cut. For one thread at a time.

    Whole lines are given on, since a secret stands in one line; a private key, and lines that look wrapped, are waited
    for until their end. So the text that was shown, joined, is what masking the whole would have shown, except that a
    line longer than 8,192 characters, and a key block or wrapped lines longer than 65,536, are shown in parts.
    """

    def __init__(self, redactor: Redactor, show: Callable[[str], object], held_chars_max: int) -> None:
        self._redactor = redactor
        self._show = show
        self._held_chars_max = held_chars_max
        self._held = ""

    def write(self, piece: str) -> None:
        """Take the next piece."""
        self._held += piece
        whole = self._held.rfind("\n") + 1
        end = self._before_block(self._before_wrapped(whole) if self._redactor.knows_values else whole)
        if not end and len(self._held) - whole > 2 * self._held_chars_max:
            end = self._before_block(_between_words(self._held, len(self._held) - self._held_chars_max))
        self._give(end)

    def close(self) -> None:
        """Show what was held back; may be called twice."""
        self._give(len(self._held))

    def _before_wrapped(self, end: int) -> int:
        """Return where wrapped lines before `end` begin, whose next one is waited for; `end` where there are none."""
        began, lengths = end, list[int]()
        while began:
            start = self._held.rfind("\n", 0, began - 1) + 1
            # Wrapped lines are of one length, but for the last one.
            length, last = began - start, lengths[-1] if lengths else 0
            is_like_those = length == last or (length > last and len(lengths) < 2)
            if not is_like_those or _WIDE.fullmatch(self._held, start, began - 1) is None:
                break
            lengths.append(length)
            began = start
        return began if len(self._held) - began <= _BLOCK_CHARS_MAX else end

    def _before_block(self, end: int) -> int:
        """Return where an unfinished key block before `end` begins, which is waited for; `end` where there is none."""
        begins = [each.start() for each in _BLOCK_BEGIN.finditer(self._held, 0, end)]
        if not begins or _BLOCK_END.search(self._held, begins[-1], end):
            return end
        return end if len(self._held) - begins[-1] > _BLOCK_CHARS_MAX else begins[-1]

    def _give(self, end: int) -> None:
        if end > 0:
            text, self._held = self._held[:end], self._held[end:]
            self._show(self._redactor(text))


def has_open_key(text: str) -> bool:
    """Say whether a private key begins in a text and does not end there."""
    begins = [each.end() for each in _BLOCK_BEGIN.finditer(text)]
    return bool(begins) and _BLOCK_END.search(text, begins[-1]) is None


def without_key_end(text: str, *, is_inside: bool = False) -> str:
    """Return a text that a cut begins without what it holds of a private key that began before it.

    `is_inside` says that one did; otherwise that shows where the key's last line comes before any first one.
    """
    end, begin = _BLOCK_END.search(text), _BLOCK_BEGIN.search(text)
    if end is None or (begin is not None and begin.start() < end.start()):
        lines = _KEY_LINES.match(text) if is_inside else None
        return text if lines is None else f"{MASK}\n{text[lines.end() :]}"
    *before, last = text[: end.start()].split("\n")
    kept = last.rstrip(_KEY_LETTERS)
    gone = [last[len(kept) :].strip("\\")]
    while not kept.strip(_AROUND) and before and _KEY_LINE.fullmatch(before[-1]):
        gone.append(before.pop())
    # A program that only names the last line keeps its own.
    if max(map(len, gone)) < _KEY_LINE_CHARS_MIN:
        return text
    return "\n".join([*before, f"{kept}{MASK}{text[end.end() :]}"])


def _between_words(text: str, end: int) -> int:
    """Return the last place before `end` at which no secret can be cut; `end` where the text has no such place."""
    place = max(text.rfind(mark, 0, end) for mark in _BETWEEN if mark != "\n")
    return place + 1 if place > 0 else end


def _disguises(value: str) -> Iterator[str]:
    """Yield every way in which a value is looked for."""
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    yield value[::-1]
    yield from (quote(value, safe="", errors="replace"), quote_plus(value, errors="replace"))
    for is_ascii in (True, False):
        yield json.dumps(value, ensure_ascii=is_ascii)[1:-1]
    yield raw.hex()
    yield raw.hex().upper()
    for alignment in range(3):
        # The letters at the edges depend on what stands beside the value; those between are its own.
        encoded = base64.b64encode(b"\0" * alignment + raw).decode()
        first = (alignment * 8 + 5) // 6
        last = (alignment + len(raw)) * 8 // 6
        if last - first >= VALUE_CHARS_MIN:
            yield encoded[first:last]
            yield encoded[first:last].translate(_URL_ALPHABET)


_URL_ALPHABET: Final = str.maketrans("+/", "-_")
