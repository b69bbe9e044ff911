"""Where the part of a result goes that a model does not get: private files that `read_file` opens by their path.

Floor: 3. Owns: the directory of kept output and the cut itself; never: how large a result may be.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.text import bound_text, marker
from plait.hands.workspace import OpenFile, Workspace, WorkspaceOptions

_NEW: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_HUGE: Final = 10**12


@dataclass(frozen=True, slots=True)
class Fitted:
    """A text that fits, and the file in which all of it is when something was cut."""

    text: str
    path: str | None = None
    is_cut: bool = False

    @property
    def data(self) -> dict[str, object]:
        """What a program is told of the cut: nothing, or `truncated` and the file."""
        return {"truncated": True, "spill": self.path} if self.is_cut else {}


class Spill:
    """A directory of kept outputs, made when the first one comes. Safe in any thread.

    Durability: none is promised; a full disk costs the kept part, never the result.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        """Keep outputs in `directory`; without one, in a temporary directory that goes when the spill does."""
        self._wanted = None if directory is None else os.path.abspath(directory)
        self._lock = threading.Lock()
        self.redact: Callable[[str], str] | None = None
        """Takes secrets out of a text before it is cut: a cut through one would hide it from whoever looks later."""
        self._made: Workspace | None = None
        self._remove: weakref.finalize[..., Spill] | None = None

    def keep_in(self, directory: str | os.PathLike[str]) -> None:
        """Keep outputs in `directory` from now on; what was kept before stays where it is, to be read."""
        with self._lock:
            if self._made is None:
                self._wanted = os.path.abspath(directory)

    def new_path(self) -> str | None:
        """Return the path of a file that does not exist yet, or None when there is no place for one."""
        try:
            return str(self._workspace().root / f"output-{os.urandom(6).hex()}.txt")
        except OSError:
            return None

    def path_of(self, name: str) -> str | None:
        """Return the path of a file of this name, there or not, or None when there is no place for one."""
        try:
            return str(self._workspace().root / name)
        except OSError:
            return None

    def keep(self, text: str) -> str | None:
        """Write a text to a new file, readable by its owner only; return its path, or None when it had no room."""
        path = self.new_path()
        if path is None:
            return None
        try:
            fd = os.open(path, _NEW, 0o600)
        except OSError:
            return None
        try:
            with os.fdopen(fd, "w", encoding="utf-8", errors="replace", newline="") as file:
                file.write(text)
        except OSError:
            Path(path).unlink(missing_ok=True)
            return None
        return path

    def fit(self, text: str, chars_max: int) -> Fitted:
        """Return `text` cut to `chars_max` characters, marker included; what is cut is kept. 0 is no limit."""
        if chars_max <= 0 or len(text) <= chars_max:
            return Fitted(text)
        if self.redact is not None and len(text := self.redact(text)) <= chars_max:
            return Fitted(text)
        path = self.keep(text)
        hint = where(path)
        room = max(1, chars_max - len(marker(_HUGE, hint)) - 2)
        return Fitted(bound_text(text, room, hint=hint).text, path, True)

    def find(self, path: str) -> tuple[Workspace, str] | None:
        """Return the directory and the name of a kept output, or None for any other path."""
        made = self._made
        if made is None and self._wanted is not None and os.path.isdir(self._wanted):
            made = self._workspace()
        if made is None:
            return None
        folder, name = os.path.split(path)
        return (made, name) if name and folder in {str(made.root), self._wanted} else None

    def open(self, name: str) -> OpenFile | None:
        """Open a kept output by its name alone, or return None when there is none of that name."""
        try:
            return None if self._made is None else self._made.open_file(name)
        except Refusal:
            return None

    def close(self) -> None:
        """Remove what was only temporary; outputs in a directory of the caller's stay."""
        with self._lock:
            if self._made is not None:
                self._made.close()
            if self._remove is not None:
                self._remove()
            self._made = None

    def _workspace(self) -> Workspace:
        with self._lock:
            if self._made is None:
                folder = self._wanted
                if folder is None:
                    folder = tempfile.mkdtemp(prefix="plait-output-")
                    self._remove = weakref.finalize(self, shutil.rmtree, folder, True)
                else:
                    os.makedirs(folder, mode=0o700, exist_ok=True)
                self._made = Workspace(folder, WorkspaceOptions(style="strict"))
            return self._made


def where(path: str | None) -> str:
    """Return the advice that goes into the marker of a cut."""
    return f"all of it is in {path}: open it with read_file" if path else "the rest could not be kept"
