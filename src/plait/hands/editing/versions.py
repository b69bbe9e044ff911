"""What files held before they were changed, kept by content, so that a change can be taken back.

Floor: 2. Owns: the folder of kept versions, and taking one file back; never: which version is wanted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.hands.editing.atomic import AtomicWrite, remove, temporary_name
from plait.hands.editing.change import read_version
from plait.hands.workspace import Pinned

TakenBack = Literal["restored", "already", "changed"]
"""Done; it was so already; somebody has changed the file since, so that it was left alone."""

_NEW: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Versions:
    """A private folder of contents, each under its digest; made when the first one comes. Safe in any thread.

    Durability: none is promised. A full disk, or a power failure, costs the way back, never the change.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(os.path.abspath(folder))

    def keep(self, data: bytes, sha256: str) -> bool:
        """Keep a content; say whether it is there."""
        path = self._folder / sha256
        if path.exists():
            return True
        unfinished = self._folder / f".{secrets.token_hex(8)}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(unfinished, _NEW, 0o600), "wb") as file:
                file.write(data)
            unfinished.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            return False
        return True

    def get(self, sha256: str) -> bytes | None:
        """Return a content that was kept; None where it was not, or is not what it was."""
        if not _SHA256.fullmatch(sha256):
            return None
        try:
            data = (self._folder / sha256).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == sha256 else None


class MemoryVersions(Versions):
    """The same in memory, up to a size; it ends with the process."""

    def __init__(self, bytes_max: int = 256 << 20) -> None:
        """Hold at most so many bytes; what comes on top is not kept."""
        self._held: dict[str, bytes] = {}
        self._bytes_max = bytes_max

    def keep(self, data: bytes, sha256: str) -> bool:
        """Keep a content; say whether it is there."""
        if sha256 not in self._held and sum(map(len, self._held.values())) + len(data) > self._bytes_max:
            return False
        self._held[sha256] = data
        return True

    def get(self, sha256: str) -> bytes | None:
        """Return a content that was kept."""
        return self._held.get(sha256)


def take_back(
    target: Pinned, data: bytes | None, *, expected: str | None, mode: int | None = None, temporary: str = ""
) -> TakenBack:
    """Give a file an earlier content, None for no file, if it still holds what was left in it.

    The caller holds the file's lock. Raises `Refusal` when it cannot be read or written; it is then as it was.

    Args:
        expected: sha256 of what it should hold now, None for no file.
        mode: permissions that it gets as well; None keeps those it has.
        temporary: name of the file that is written first; a new one unless given.

    Durability: when it returns, the content is on disk under its name.
    """
    now = read_version(target)
    held = None if now is None else now.sha256
    is_back = held == (None if data is None else hashlib.sha256(data).hexdigest())
    if is_back and (now is None or mode is None or stat.S_IMODE(now.status.st_mode) == mode):
        return "already"
    if held != expected and not is_back:
        return "changed"
    if data is not None:
        old = None if now is None else now.status
        with_mode = None if mode is None else lambda _mode: mode
        AtomicWrite(target, data, old, temporary or temporary_name(), mode=with_mode).run()
        return "restored"
    assert now is not None, "a file that is not there holds nothing, and nothing was wanted"
    try:
        remove(target, now.status)
    except Refusal as refusal:
        if refusal.refusal == "CONFLICT":
            return "changed"
        raise
    return "restored"
