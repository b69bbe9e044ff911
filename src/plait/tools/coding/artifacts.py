"""Where long outputs of commands go, to be read in slices: opaque names, bounded sizes, no path for anybody.

Floor: 3. Owns: the port, a store in memory and one in a folder; never: what a command printed on its way there.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import BinaryIO, Final, Protocol

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.workspace import Workspace, WorkspaceOptions

ARTIFACT_BYTES_MAX: Final = 16 * 1024 * 1024
TOTAL_BYTES_MAX: Final = 256 * 1024 * 1024
_CHUNK_BYTES: Final = 256 * 1024
_NAME: Final = re.compile(r"artifact-[0-9a-f]{32}")
_NEW: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Slice:
    """Some bytes of an artifact."""

    data: bytes
    size_bytes: int
    """Of the whole artifact."""


class ArtifactStore(Protocol):
    """Keeps outputs. Called from any thread; both methods may block."""

    def put(self, source: BinaryIO, origin: str) -> str | None:
        """Keep all that `source` gives and return its opaque name; None where there is no room for it.

        Args:
            origin: the call that made it, as `plait` knows it; a store may decide by it who may read.
        """
        ...

    def read(self, reference: str, offset: int, size_bytes: int) -> Slice | None:
        """Return bytes of an artifact from `offset` on; None for a name that this store does not know."""
        ...


class MemoryArtifacts:
    """Artifacts of this process; the oldest go when there is no room for a new one."""

    def __init__(self, *, artifact_bytes_max: int = ARTIFACT_BYTES_MAX, total_bytes_max: int = TOTAL_BYTES_MAX) -> None:
        self._artifact_max = artifact_bytes_max
        self._total_max = total_bytes_max
        self._lock = threading.Lock()
        self._held: OrderedDict[str, bytes] = OrderedDict()

    def put(self, source: BinaryIO, origin: str) -> str | None:
        """Keep all that `source` gives; None when that is more than one artifact may hold."""
        data = source.read(self._artifact_max + 1)
        if len(data) > min(self._artifact_max, self._total_max):
            return None
        name = _new_name()
        with self._lock:
            self._held[name] = data
            while sum(map(len, self._held.values())) > self._total_max:
                self._held.popitem(last=False)
        return name

    def read(self, reference: str, offset: int, size_bytes: int) -> Slice | None:
        """Return bytes of an artifact; None for a name that is not, or no longer, known."""
        with self._lock:
            data = self._held.get(reference)
        return None if data is None else Slice(data[offset : offset + size_bytes], len(data))


class DiskArtifacts:
    """Artifacts in a folder of their own, readable by this user alone; the oldest go when there is no room.

    Durability: an artifact is written before its name is told; it outlives the process, not a loss of power.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        artifact_bytes_max: int = ARTIFACT_BYTES_MAX,
        total_bytes_max: int = TOTAL_BYTES_MAX,
    ) -> None:
        self._folder = os.path.abspath(folder)
        self._artifact_max = artifact_bytes_max
        self._total_max = total_bytes_max
        self._lock = threading.Lock()
        self._opened: Workspace | None = None

    def put(self, source: BinaryIO, origin: str) -> str | None:
        """Keep all that `source` gives; None when that is too much, or the disk takes no more."""
        name = _new_name()
        path = os.path.join(self._folder, name)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(os.open(path, _NEW, 0o600), "wb") as target:
                is_whole = self._copy(source, target)
        except OSError:
            is_whole = False
        if not is_whole:
            with suppress(OSError):
                os.unlink(path)
            return None
        with self._lock:
            self._make_room(name)
        return name

    def read(self, reference: str, offset: int, size_bytes: int) -> Slice | None:
        """Return bytes of an artifact; None for a name that is not, or no longer, known."""
        if not _NAME.fullmatch(reference):
            return None
        try:
            with self._workspace().open_file(reference) as opened:
                return Slice(os.pread(opened.fd, size_bytes, offset), opened.status.st_size)
        except (Refusal, OSError):
            return None

    def _copy(self, source: BinaryIO, target: BinaryIO) -> bool:
        room = min(self._artifact_max, self._total_max)
        while piece := source.read(_CHUNK_BYTES):
            room -= len(piece)
            if room < 0:
                return False
            target.write(piece)
        return True

    def _make_room(self, newest: str) -> None:
        """Remove the oldest artifacts until what is kept fits."""
        with os.scandir(self._folder) as entries:
            kept = [(entry.stat(follow_symlinks=False), entry.name) for entry in entries if _NAME.fullmatch(entry.name)]
        total = sum(status.st_size for status, _ in kept)
        for status, name in sorted(kept, key=lambda each: each[0].st_mtime_ns):
            if total <= self._total_max:
                return
            if name != newest:
                with suppress(OSError):
                    os.unlink(os.path.join(self._folder, name))
                total -= status.st_size

    def _workspace(self) -> Workspace:
        with self._lock:
            if self._opened is None:
                self._opened = Workspace(self._folder, WorkspaceOptions(style="strict"))
            return self._opened


def _new_name() -> str:
    """Return a name that nobody can guess."""
    return f"artifact-{os.urandom(16).hex()}"
