"""A file's bytes as text and back, so that what an edit does not touch keeps its bytes.

Floor: 2. Owns: encodings, byte order marks, newlines and literal replacement; never: opening or writing files.

Text is held with every odd byte of a file as a lone surrogate, so that `encode(decode(data)) == data` for any UTF-8
file, broken or not. Snippets given by a caller are compared in the *line-feed view*, where CRLF is one newline; what
replaces them gets the newlines of the place it goes to.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be"]
Newline = Literal["\n", "\r\n", "mixed", ""]
Newlines = Literal["fit", "literal"]
"""`fit`: a snippet with LF matches CRLF and takes the file's newlines. `literal`: characters are characters."""

EDITED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Larger files are not edited, and none is made larger."""
_MARKS: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NEWLINE: Final = re.compile("\r?\n")


@dataclass(frozen=True, slots=True)
class TextFile:
    """What a text file holds, without its byte order mark, and how it was written down."""

    text: str
    encoding: Encoding
    mark: bytes
    is_valid: bool
    """False when some bytes are not UTF-8; they stand in `text` as lone surrogates."""

    @property
    def newline(self) -> Newline:
        """The newline style; `mixed` for CRLF beside LF, empty for a file of one line."""
        crlf = self.text.count("\r\n")
        feeds = self.text.count("\n")
        if not feeds:
            return ""
        return "\n" if not crlf else "\r\n" if crlf == feeds else "mixed"

    @property
    def readable(self) -> str:
        """The text with a replacement character for each byte that is not UTF-8."""
        return self.text if self.is_valid else re.sub("[\udc80-\udcff]", "\ufffd", self.text)

    def encode(self, text: str) -> bytes:
        """Write `text` down the way this file was. Raises `Refusal` when it cannot be."""
        if self.encoding == "utf-8":
            return self.mark + text.encode("utf-8", "surrogateescape")
        return self.mark + text.encode(self.encoding)

    def require_fitting(self, text: str, shown: str) -> None:
        """Refuse text that is put into a file whose encoding nobody knows, unless every encoding agrees on it."""
        if not self.is_valid and not text.isascii():
            raise Refusal(
                "UNSUPPORTED_CONTENT",
                f"{shown!r} is not UTF-8, so only ASCII text can be put into it",
                hint="convert the file first (iconv -f ISO-8859-1 -t UTF-8), or edit it with a shell command",
            )


def decode(data: bytes, shown: str) -> TextFile:
    """Read bytes as text. Raises `Refusal` (`UNSUPPORTED_CONTENT`) for what would not survive the way back."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise _unsupported(shown, "is UTF-32", "convert it to UTF-8 first (iconv -f UTF-32 -t UTF-8)")
    mark, encoding = _mark_of(data)
    body = data[len(mark) :]
    if encoding != "utf-8":
        return _decode_utf16(body, mark, encoding, shown)
    if b"\0" in body:
        raise binary(shown)
    try:
        return TextFile(body.decode("utf-8"), encoding, mark, True)
    except UnicodeDecodeError:
        return TextFile(body.decode("utf-8", "surrogateescape"), encoding, mark, False)


def _mark_of(data: bytes) -> tuple[bytes, Encoding]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return mark, encoding
    return b"", "utf-8"


def _decode_utf16(body: bytes, mark: bytes, encoding: Encoding, shown: str) -> TextFile:
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        raise _unsupported(shown, "starts like UTF-16 but is not", "look at it with: file, xxd") from error
    if "\0" in text:
        raise binary(shown)
    return TextFile(text, encoding, mark, True)


def binary(shown: str) -> Refusal:
    """The refusal of a file that is no text."""
    return _unsupported(shown, "is a binary file", "look at it with a shell command (file, xxd, strings)")


def _unsupported(shown: str, what: str, hint: str) -> Refusal:
    return Refusal("UNSUPPORTED_CONTENT", f"{shown!r} {what}", hint=hint, details={"path": shown})


def require_text(text: str, name: str) -> None:
    """Refuse a caller's text that cannot be written down: lone surrogates are no characters."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Refusal(
            "INVALID_INPUT", f"{name} holds half a character (a lone surrogate)", hint="leave it out"
        ) from None


def require_room(size: int, shown: str, hint: str) -> None:
    """Refuse a file that would come to be larger than those that are edited."""
    if size > EDITED_BYTES_MAX:
        raise Refusal("TOO_LARGE", f"{shown!r} would grow beyond {EDITED_BYTES_MAX} bytes", hint=hint)


@dataclass(frozen=True, slots=True)
class Span:
    """Where a snippet was found, in characters, and the newline that its replacement takes."""

    start: int
    end: int
    newline: str


def find_spans(text: str, old: str, newlines: Newlines) -> list[Span]:
    """Find `old` from left to right without overlap, as `str.replace` does."""
    if newlines == "literal":
        return [Span(at, at + len(old), "") for at in _positions(text, old)]
    old = old.replace("\r\n", "\n")
    if "\r\n" not in text:
        newline = "\n" if "\n" in text else ""
        return [Span(at, at + len(old), newline) for at in _positions(text, old)]
    pattern = re.compile("".join(map(_either_newline, old)))
    return [Span(match.start(), match.end(), newline_at(text, match.start())) for match in pattern.finditer(text)]


def replace_spans(text: str, spans: list[Span], new: str) -> str:
    """Put `new` in the place of each span, with the newlines of that place."""
    pieces: list[str] = []
    at = 0
    for span in spans:
        pieces += (text[at : span.start], with_newlines(new, span.newline))
        at = span.end
    return "".join((*pieces, text[at:]))


def with_newlines(text: str, newline: str) -> str:
    """Give `text` one newline style; the empty style leaves it as it is."""
    return _NEWLINE.sub(lambda _: newline, text) if newline else text


def line_of(text: str, position: int) -> int:
    """Return the number, from 1, of the line in which a position stands."""
    return text.count("\n", 0, position) + 1


def _positions(text: str, old: str) -> list[int]:
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + len(old))
    return found


def _either_newline(character: str) -> str:
    """The pattern of one character of a snippet: a newline is either kind, and a CR never half of one."""
    return r"\r?\n" if character == "\n" else r"\r(?!\n)" if character == "\r" else re.escape(character)


def newline_at(text: str, position: int) -> str:
    """The newline that ends the line of a position, or the one before it in the last line."""
    after = text.find("\n", position)
    at = after if after >= 0 else text.rfind("\n", 0, position)
    return "" if at < 0 else "\r\n" if text[at - 1 : at] == "\r" else "\n"
