"""The folder in which supervisors leave what came of their commands, for whoever asks, now or after a crash.

Floor: 2. Owns: entries, their record, who may still write one; never: a process.

An entry is a folder of its own (0700, files 0600). What its files mean says `supervisor`, which writes them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands import beneath
from plait.hands.refusals import refusal_from

_RECORD: Final = "record"
_LOCKS: Final = "locks"
"""A file that nobody locks, to see whether one could."""
_READ: Final[int] = os.O_RDONLY | beneath.NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_RECORD_BYTES_MAX: Final = 4_096
_NAME_BYTES: Final = 16
_WITHDRAWN: Final = "withdrawn"


@dataclass(frozen=True, slots=True)
class Stream:
    """How much a command wrote, how much of its beginning is in the file, and whether somebody may write on."""

    total_bytes: int
    kept_bytes: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class Record:
    """What an entry says of its command. Empty: no supervisor has claimed it yet."""

    began: Mapping[str, str] = field(default_factory=dict)
    """`pid`, `start` and `session` of the supervisor, and the monotonic time, as text."""
    scheduled: Mapping[str, str] = field(default_factory=dict)
    """Of a background job that begins later: `at`, in seconds since 1970."""
    started: Mapping[str, str] = field(default_factory=dict)
    """Of a background job: `pid` of its command, and `at`, in seconds since 1970."""
    ended: Mapping[str, str] = field(default_factory=dict)
    is_safe: bool = False
    """The end and the output are on disk, so that they are true after a power loss too."""
    is_withdrawn: bool = False
    """The command was never begun and never will be."""

    @classmethod
    def parse(cls, text: str) -> Record:
        """Read the lines of a record; one without its end is not there yet."""
        lines = [line.split(" ") for line in text.split("\n")[:-1]]
        found = {words[0]: dict(word.split("=", 1) for word in words[1:] if "=" in word) for words in lines}
        began, scheduled, started, ended = (found.get(word, {}) for word in ("began", "scheduled", "started", "ended"))
        return cls(began, scheduled, started, ended, "safe" in found, _WITHDRAWN in found)

    def stream(self, name: str) -> Stream | None:
        """Return what is known of `out` or `err`."""
        numbers = self.ended.get(name, "").split(":")
        if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
            return None
        return Stream(int(numbers[0]), int(numbers[1]), numbers[2] == "1")


class Entry:
    """One command's place in a spool."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.mark = os.path.basename(folder)
        """The command's own mark, which all that it starts carries: see `process_tree`."""

    def make(self) -> None:
        """Make the folder. Raises `OSError`."""
        os.mkdir(self.folder, 0o700)
        os.chmod(self.folder, 0o700)  # whatever the umask is

    def path(self, name: str) -> str:
        """Return the path of one of its files."""
        return os.path.join(self.folder, name)

    def read(self) -> Record:
        """Return what the record says now."""
        return Record.parse(self.part(_RECORD, 0, _RECORD_BYTES_MAX).decode("ascii", "replace"))

    def part(self, name: str, start: int, size: int) -> bytes:
        """Return up to `size` bytes of one of its files from `start`; nothing when it is not there, or no file."""
        try:
            fd = os.open(self.path(name), _READ)
        except OSError:
            return b""
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return b""
            pieces: list[bytes] = []
            while size > 0 and (piece := os.pread(fd, size, start)):
                pieces.append(piece)
                start, size = start + len(piece), size - len(piece)
            return b"".join(pieces)
        finally:
            os.close(fd)

    def is_held(self) -> bool:
        """Say whether a supervisor holds the record, so that more is to come."""
        try:
            fd = os.open(self.path(_RECORD), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            os.lockf(fd, os.F_TEST, 0)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def withdraw(self) -> bool:
        """Make sure that a command which has not begun never will; say whether that is so.

        Durability: a supervisor that comes later, or is just about to begin, finds the entry taken.
        """
        with suppress(FileExistsError):
            self.make()
        fd = os.open(self.path(_RECORD), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
            try:
                os.lockf(fd, os.F_TLOCK, 0)
            except OSError:
                return False
            if os.fstat(fd).st_size == 0:
                os.write(fd, f"{_WITHDRAWN}\n".encode())
                os.fsync(fd)
                return True
            return self.read_from(fd).is_withdrawn
        finally:
            os.close(fd)

    @staticmethod
    def read_from(fd: int) -> Record:
        """Return what an opened record says."""
        return Record.parse(os.pread(fd, _RECORD_BYTES_MAX, 0).decode("ascii", "replace"))

    def remove(self) -> None:
        """Remove the entry with what is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Spool:
    """A session's entries. Safe in any thread."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)

    @property
    def mark(self) -> str:
        """What all commands of this spool carry, whatever process started them: the same for the same folder."""
        return hashlib.sha256(os.fsencode(os.path.realpath(self.folder))).hexdigest()[: 2 * _NAME_BYTES]

    def prepare(self) -> None:
        """Make the folder, for its owner only. Raises `OSError`, also where its file system has no locks."""
        if not os.path.isdir(self.folder):
            Path(self.folder).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)
            os.chmod(self.folder, 0o700)
        fd = os.open(os.path.join(self.folder, _LOCKS), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
            os.lockf(fd, os.F_TEST, 0)
        finally:
            os.close(fd)

    def new_name(self) -> str:
        """Return the name of an entry that is not there yet; nothing is made."""
        return os.urandom(_NAME_BYTES).hex()

    def entry(self, name: str) -> Entry:
        """Return the entry of a name. Raises `Refusal` for what is none."""
        if len(name) != 2 * _NAME_BYTES or not set(name) <= set("0123456789abcdef"):
            raise Refusal("INVALID_INPUT", f"no spool entry is named {name!r}", hint="")
        return Entry(os.path.join(self.folder, name))

    def names(self) -> list[str]:
        """Return the names of the entries that are there."""
        try:
            return sorted(name for name in os.listdir(self.folder) if len(name) == 2 * _NAME_BYTES)
        except OSError:
            return []

    def sweep(self, keep: Collection[str]) -> None:
        """Remove every entry that nobody needs any more: those in `keep`, and those still held, stay."""
        for name in self.names():
            entry = self.entry(name)
            if name not in keep and not entry.is_held():
                entry.remove()


def boot_id() -> str:
    """Return what tells this start of the machine from others; empty where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def refuse_start(record: Record, argv0: str, cwd: str) -> None:
    """Raise `Refusal` when the record says that the command could not be started."""
    what, number = record.ended.get("failed"), record.ended.get("errno", "0")
    if what is not None:
        raise refusal_from(OSError(int(number), os.strerror(int(number))), cwd if what == "cwd" else argv0, "run")


def remaining_s(record: Record, allowed_s: float) -> float:
    """Return how much of `allowed_s` is left since the command began; at most all of it."""
    try:
        return min(allowed_s, max(0.0, float(record.began["at"]) + allowed_s - time.monotonic()))
    except (KeyError, ValueError):
        return allowed_s
