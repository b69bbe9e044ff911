"""Changes of files taken back to contents that were kept.

Floor: 3. Owns: which kept content goes into which file; never: which changes are to be taken back.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing.change import read_version
from plait.hands.editing.locks import FileLocks
from plait.hands.editing.versions import TakenBack, Versions, take_back
from plait.hands.workspace import Files
from plait.tools.changes import Change

Undone = TakenBack | Literal["not_kept"]


@dataclass(frozen=True, slots=True)
class Undo:
    """Takes files back, one at a time. Paths are as calls gave them. Safe in any thread."""

    places: Files
    locks: FileLocks
    versions: Versions | None

    def itself(self) -> Undo:
        """Return this one: what asks for it anew each time may have it so."""
        return self

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

    def change(self, change: Change, temporary: str = "") -> Undone:
        """Take a change back: content, permissions, and the directories that were made for it. Raises `Refusal`."""
        with self.places.pin(change.path, "write") as target:
            now = read_version(target) if change.is_open else None
        left = change.after if not change.is_open else None if now is None else now.sha256
        became = self.file(change.path, change.before, left, mode=change.mode, temporary=temporary)
        if change.before is None and became in ("restored", "already"):
            for directory in reversed(change.directories):
                self._remove_if_empty(directory)
        return became

    def file(
        self, path: str, wanted: str | None, left: str | None, *, mode: int | None = None, temporary: str = ""
    ) -> Undone:
        """Give a file the content that is wanted, if it still holds what was left in it. Raises `Refusal`.

        What it held is kept first, so that this can be taken back as well.

        Args:
            wanted: sha256 of the content; None for no file.
            left: sha256 of what plait left in it; None for no file.
            mode: permissions that it gets; None keeps those it has, or gives those of a new file.
            temporary: name of the file that is written first; a new one unless given.

        Durability: when it returns, the content is on disk under its name.
        """
        data = None if wanted is None else self._content(wanted)
        if wanted is not None and data is None:
            return self.can(path, wanted, left)
        with self.places.pin(path, "write") as target, self.locks.hold(target):
            now = read_version(target)
            if now is not None and self.versions is not None:
                self.versions.keep(now.data, now.sha256)
            return take_back(target, data, expected=left, mode=mode, temporary=temporary)

    def _remove_if_empty(self, directory: str) -> None:
        with suppress(Refusal, OSError), self.places.pin(directory, "write") as target:
            if not target.missing:
                os.rmdir(target.name, dir_fd=target.fd)

    def _content(self, sha256: str) -> bytes | None:
        return None if self.versions is None else self.versions.get(sha256)
