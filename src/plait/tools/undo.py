"""Changes of files taken back to contents that were kept.

Floor: 3. Owns: which kept content goes into which file; never: which changes are to be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plait.hands.edit import read_version
from plait.hands.locks import FileLocks
from plait.hands.versions import TakenBack, Versions, take_back
from plait.hands.workspace import Files

Undone = TakenBack | Literal["not_kept"]


@dataclass(frozen=True, slots=True)
class Undo:
    """Takes files back, one at a time. Paths are as calls gave them. Safe in any thread."""

    places: Files
    locks: FileLocks
    versions: Versions | None

    def can(self, path: str, wanted: str | None, left: str | None) -> Undone:
        """Say what `file` would come to; `restored` means that it can be done. Raises `Refusal`."""
        with self.places.pin(path, "write") as target:
            version = read_version(target)
        held = None if version is None else version.sha256
        if held == wanted:
            return "already"
        if held != left:
            return "changed"
        return "restored" if wanted is None or self._content(wanted) is not None else "not_kept"

    def file(self, path: str, wanted: str | None, left: str | None) -> Undone:
        """Give a file the content that is wanted, if it still holds what was left in it. Raises `Refusal`.

        What it held is kept first, so that this can be taken back as well.

        Args:
            wanted: sha256 of the content; None for no file.
            left: sha256 of what plait left in it; None for no file.

        Durability: when it returns, the content is on disk under its name.
        """
        data = None if wanted is None else self._content(wanted)
        if wanted is not None and data is None:
            return self.can(path, wanted, left)
        with self.places.pin(path, "write") as target, self.locks.hold(target):
            now = read_version(target)
            if now is not None and self.versions is not None:
                self.versions.keep(now.data, now.sha256)
            return take_back(target, data, expected=left)

    def _content(self, sha256: str) -> bytes | None:
        return None if self.versions is None else self.versions.get(sha256)
