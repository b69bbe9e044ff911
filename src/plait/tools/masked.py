"""Files with secrets in them, for a model that sees `[REDACTED]` in their place: what it reads, what it may not write.

Floor: 3. Owns: windows that begin or end inside a secret, and the refusal to write the mask over one; never: a mask's
place in a whole text (`redaction`), an edit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from plait.core.errors import Refusal
from plait.core.mask import MASK
from plait.hands.reading import Lines, Window, read_lines
from plait.hands.workspace import OpenFile
from plait.tools.redaction import Redaction

_LOOKED_BACK_LINES: Final = 200
"""A private key has fewer lines."""
_KEY_LINE: Final = re.compile(r"^[ \t\"']*[A-Za-z0-9+/=]{32,}[ \t\"',\\n]*$", re.MULTILINE)
_HINT: Final = (
    f"{MASK} stands for a secret that is in the file: change other lines with str_replace, and leave the line with "
    f"{MASK} out of what you send. Should the secret itself go, let a shell command put another word in its place"
)


def window_of(redaction: Redaction | None, opened: OpenFile, lines: Lines) -> str:
    """Return the text of a window of lines without what its ends cut off of a secret.

    Whole secrets are left to whoever masks the result.
    """
    if redaction is None or not lines.text:
        return lines.text
    text = lines.text
    if lines.first_line > 1 and _KEY_LINE.search(text, 0, 4_096):
        from plait.core.known_secrets import has_open_key, without_key_end  # few files look like this

        os.lseek(opened.fd, 0, os.SEEK_SET)
        first = max(1, lines.first_line - _LOOKED_BACK_LINES)
        before = read_lines(opened, Window(first, lines.first_line - first))
        text = without_key_end(text, is_inside=has_open_key(before.text))
    # A window of lines ends with one, unless there was no room for a single line.
    return redaction.ends(text, "")[0] if lines.is_cut and "\n" not in text else text


def refuse_masks(redaction: Redaction | None, path: str, texts: Iterable[tuple[str, str]]) -> None:
    """Refuse a change that puts the mask into files which hold secrets.

    Args:
        path: how the file, or the first of them, is called.
        texts: each file's text before and after.

    Raises:
        Refusal: `CONFLICT`; a model has sent what it was shown in a secret's place.
    """
    if redaction is None:
        return
    changes = tuple(texts)
    more = sum(after.count(MASK) - before.count(MASK) for before, after in changes)
    if more > 0 and any(redaction.count(before) for before, _ in changes):
        raise Refusal(
            "CONFLICT",
            f"{path!r} holds a secret, and this would write the word {MASK} into it",
            hint=_HINT,
            details={"path": path},
        )


@contextmanager
def told_of_masks(redaction: Redaction | None, sent: str) -> Iterator[None]:
    """Have a refusal of something with the mask in it say why it was not found."""
    try:
        yield
    except Refusal as refusal:
        if redaction is None or MASK not in sent or refusal.refusal != "CONFLICT":
            raise
        raise Refusal(refusal.refusal, refusal.message, hint=_HINT, details=refusal.details) from refusal
