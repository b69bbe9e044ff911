"""Characters that a reader does not see, or that act on a terminal: controls, marks of direction, fillers, tags.

Floor: 0. Owns: which those are; never: what is done about them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_DIRECTIONS: Final = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_EMPTY: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners and variants belong to the writing of many languages and to emoji; beside plain ASCII they only hide.
_JOINERS: Final = "(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
_VARIANTS: Final = "(?<=[\x00-\x7f\ufe00-\ufe0f])[\ufe00-\ufe0f](?!\u20e3)"

UNSEEN: Final = re.compile(f"[{_CONTROLS}{_DIRECTIONS}{_EMPTY}]|{_JOINERS}|{_VARIANTS}")
"""One character that is no part of what a reader sees; tabs and line ends are."""
HIDDEN: Final = re.compile(f"[{_DIRECTIONS}{_EMPTY}]|{_JOINERS}|{_VARIANTS}")
"""The same without controls, which show themselves to whoever reads bytes."""
_PERHAPS: Final = re.compile(f"[{_CONTROLS}{_DIRECTIONS}{_EMPTY}\u200c\u200d\ufe00-\ufe0f]")
_CONCEALED: Final = re.compile(r"\x1b\[(?:[0-7]?;)*8(?:;\d+)*m")
_LOOK_LATIN: Final = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0405\u0406\u0408"
)
_DISGUISED: Final = re.compile(f"(?<=[A-Za-z])[{_LOOK_LATIN}]|[{_LOOK_LATIN}](?=[A-Za-z])")
_CYRILLIC: Final = re.compile(f"[{_LOOK_LATIN}]")
_TOLD_MAX: Final = 12
REMARK: Final = "[plait: this holds text that people do not see and that may be meant to mislead: "
"""How the remark begins that `flagged` adds."""
_ALWAYS: Final = re.compile(f"[{_DIRECTIONS}{_EMPTY}\u200c\u200d\ufe00-\ufe0f]")


def is_seen(char: str) -> bool:
    """Say whether a character is seen by itself, wherever it stands."""
    return char.isprintable() and not _ALWAYS.match(char)


def spelt_out(char: str) -> str:
    """Return a character as its escape sequence, as Python writes it."""
    return char.encode("unicode_escape").decode("ascii")


def visible(text: str) -> str:
    """Return text in which what is not seen, or acts on a terminal, is spelt out; tabs and line ends stay."""
    text = text.replace("\r\n", "\n")
    # Nearly every text has nothing of the kind, and one set of characters is looked for at once.
    return UNSEEN.sub(lambda match: spelt_out(match[0]), text) if _PERHAPS.search(text) else text


def hidden_in(text: str) -> Counter[str]:
    """Count what a text holds that its reader does not see; nothing for nearly every text. A leading BOM is none."""
    if text.isascii() or _ALWAYS.search(text) is None:
        return Counter()
    return Counter(HIDDEN.findall(text, 1 if text.startswith("\ufeff") else 0))


def flagged(text: str) -> str:
    """Return a text with a remark at its end where a reader does not see what it holds; most texts as they are."""
    if "\x1b[" not in text and text.isascii():
        return text
    found = [f"U+{ord(char):04X} x{count}" for char, count in sorted(hidden_in(text).items())]
    if "\x1b[" in text:
        found += [f"concealed by a terminal code x{count}"] if (count := len(_CONCEALED.findall(text))) else []
    if not text.isascii() and _CYRILLIC.search(text):
        found += [f"Cyrillic letters in Latin words x{count}"] if (count := len(_DISGUISED.findall(text))) else []
    if not found:
        return text
    more = [f"{len(found) - _TOLD_MAX} kinds more"] if len(found) > _TOLD_MAX else []
    return f"{text}\n{REMARK}{', '.join([*found[:_TOLD_MAX], *more])}]"
