"""Takes secrets out of text before a model, a screen or a trace sees it.

Floor: 0. Owns: what is taken for a secret; never: where text comes from or goes.

Two dangers are weighed: a secret that is shown, and code that is spoiled (a model edits the files that it reads). So
tokens of known shape, key blocks and known values go in any case, and what only stands behind a label such as
`password=` goes where it does not read like a name in a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from plait.core.mask import MASK
from plait.core.secret_shapes import SHAPES

_KEY_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_INSIDE: Final = re.compile(r"[A-Za-z0-9+/=\s\\:,.\"'-]*+")
_KEY_CUT: Final = re.compile(r"(?:\\n|\s)++[A-Za-z0-9+/=\s\\:,.-]++")
"""A block that was cut off ends where its letters do: a program that only names the first line keeps its own."""
_PUTTY_KEY: Final = re.compile(r"PuTTY-User-Key-File-\d:[A-Za-z0-9+/=\s:-]++")
# A label begins a word, or a part of one (`MY_API_KEY`, `clientSecret`), or what follows the `\\n` of JSON. What stands
# before it is only glanced at: a pattern that tries every beginning of a long line takes minutes for it.
_LABELLED: Final = re.compile(
    r"(?=[AaPpSsTt])(?P<label>(?:(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
    r"(?i:api[_ -]?key|access[_ -]?key|private[_ -]?key|secret[_ -]?key|secret|token|password|passwd|pwd)"
    r"|(?<=[a-z0-9])(?:ApiKey|AccessKey|PrivateKey|SecretKey|Secret|Token|Password)))"
    r"(?P<operator>[\"']?\s*+[:=]\s*+)(?P<quote>[\"']?)(?P<value>[A-Za-z0-9._\-/+=]{12,})(?P<after>.?)",
    re.DOTALL,
)
_LONG_RUN: Final = re.compile(r"[\w.~/+=:,-]{15}")
"""Every token has one, and most of what commands print has none."""
_BY_MARK: Final = tuple((mark, shape) for shape in SHAPES for mark in shape.marks)
_HEADER: Final = re.compile(
    r"(?i)(?=a)(?P<label>(?:\b|(?<=\\[nrt]))authorization[\"']?\s*+(?::\s*+|=\s*+(?=[\"']?(?:bearer|basic)\s))[\"']?"
    r"(?:bearer\s++|basic\s++|token\s++)?)(?P<value>[^\s\"'{}$<>%*()]{16,})"
)
_URL_LOGIN: Final = re.compile(r"(?P<label>\b[a-z][a-z0-9+.-]{0,20}+://[^\s:/@]*+:)(?P<value>[^\s@/]++)(?=@)")
_NETRC: Final = re.compile(
    r"(?=[dm])(?P<label>(?:\b|(?<=\\[nrt]))(?:machine\s++\S++|default)(?:\s++(?:login|account)\s++\S++){0,2}\s++password\s++)(?P<value>\S++)"
)
_NO_PASSWORDS: Final = re.compile(
    r"(?i)pass|passwd|password|pwd|pw|secret|token|key|x{3,}|\*+|\.{3}|\\?[$%{<\[(].*|[a-z_]*pass(?:word)?[a-z_]*"
)
"""What stands in the place of a password in documents and templates."""
_PIECES: Final = re.compile(r"[._\-/+=]+")
_HUMPS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NAME_OF_TYPE: Final = re.compile(r"[A-Z][a-z]+|(?:[a-z_]\w*\.)+(?:[A-Z]+[a-z]*\d{0,5}){1,8}")
_HUMP_LENGTH_MIN: Final = 2.7
"""Random letters change case every second time or so; words do not."""


def redact_secrets(text: str) -> tuple[str, int]:
    """Return the text with every secret replaced by `[REDACTED]`, and how many there were.

    Labels, operators and header names stay, so that a reader still sees what stood there.
    """
    count = 0
    # One by one, for a loop over them takes longer than looking: every result of a tool comes by here.
    if "PRIVATE KEY" in text or "PuTTY-User-Key-File" in text:
        before = text.count(MASK)
        text = _PUTTY_KEY.sub(MASK, "".join(_without_keys(text)))
        count = text.count(MASK) - before
    if _LONG_RUN.search(text):
        for shape in dict.fromkeys([shape for mark, shape in _BY_MARK if mark in text]):
            text, found = shape.pattern.subn(MASK, text)
            count += found
    lower = text.lower()
    if "key" in lower or "secret" in lower or "token" in lower or "passw" in lower or "pwd" in lower:
        text, found = _masked(_LABELLED, text, _is_labelled_secret)
        count += found
    if "authorization" in lower:
        text, found = _masked(_HEADER, text, lambda match: not _is_wordy(match["value"]))
        count += found
    if "password" in lower and "login" in lower:
        text, found = _masked(_NETRC, text, lambda match: _NO_PASSWORDS.fullmatch(match["value"]) is None)
        count += found
    if "://" in text:
        text, found = _masked(_URL_LOGIN, text, lambda match: _NO_PASSWORDS.fullmatch(match["value"]) is None)
        count += found
    return text, count


def _without_keys(text: str) -> Iterator[str]:
    """Yield the text with its key blocks masked; each letter is looked at once, however many blocks begin."""
    at = 0
    begins = [*_KEY_BEGIN.finditer(text)]
    limits = [*(follower.start() for follower in begins[1:]), len(text)]
    for begin, limit in zip(begins, limits, strict=False):
        end = _KEY_END.search(text, begin.end(), limit)
        if end is None or _KEY_INSIDE.fullmatch(text, begin.end(), end.start()) is None:
            end = _KEY_CUT.match(text, begin.end(), limit)
        if end is not None:
            yield from (text[at : begin.start()], MASK)
            at = end.end()
    yield text[at:]


def _masked(pattern: re.Pattern[str], text: str, is_secret: Callable[[re.Match[str]], bool]) -> tuple[str, int]:
    """Mask the value of every match that is a secret."""
    pieces: list[str] = []
    at, count = 0, 0
    for match in pattern.finditer(text):
        if match["value"] != MASK and is_secret(match):
            pieces += (text[at : match.start("value")], MASK)
            at = match.end("value")
            count += 1
    pieces.append(text[at:])
    return "".join(pieces) if count else text, count


def _is_labelled_secret(match: re.Match[str]) -> bool:
    """Say whether what stands behind a label is a value and not a piece of a program."""
    value, is_quoted = match["value"].lstrip("="), bool(match["quote"])
    if not is_quoted and (match["after"] in ("(", "[") or _NAME_OF_TYPE.fullmatch(value)):
        return False
    is_setting = match["operator"] == "=" and match["label"].isupper()
    if is_setting and not is_quoted:
        return True
    return not _is_wordy(value)


def _is_wordy(value: str) -> bool:
    """Say whether text is made of words, as names, paths and expressions are: more than one, none of them random."""
    words = [hump for piece in _PIECES.split(value) for hump in _HUMPS.findall(piece)]
    letters = [word for word in words if not word.isdigit()]
    digits = [len(word) for word in words if word.isdigit()]
    if len(words) < 2 or not letters or (digits and (max(digits) > 3 or sum(digits) * 4 > len(value))):
        return False
    return sum(map(len, letters)) / len(letters) >= _HUMP_LENGTH_MIN
