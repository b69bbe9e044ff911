"""A folder for hooks to work in, made when somebody asks for it.

Floor: 5. Owns: one private temporary folder; never: what is in it.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref


class Scratch:
    """A temporary folder of one session, readable by its owner only; it goes when the session does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remove: weakref.finalize[..., Scratch] | None = None
        self._folder: str | None = None

    def folder(self) -> str | None:
        """Return its path, None where there is no place for one."""
        with self._lock:
            if self._folder is None:
                try:
                    self._folder = tempfile.mkdtemp(prefix="plait-scratch-")
                except OSError:
                    return None
                self._remove = weakref.finalize(self, shutil.rmtree, self._folder, True)
            return self._folder

    def close(self) -> None:
        """Remove it."""
        with self._lock:
            if self._remove is not None:
                self._remove()
            self._folder = self._remove = None
