"""A session's journal: one file, one writer, a line a fact.

Floor: 2. Owns: opening, repairing, appending and syncing a journal file; never: lines (`store.records`).

A barrier is one write and one `fdatasync`. Whatever goes wrong in it, what earlier barriers wrote is untouched: the
file is cut back to there, the writer is poisoned, and only opening the session again, with a fresh look at what the
disk holds, makes another.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plait.core.errors import JournalError, JournalFull, JournalPoisoned, SessionBusy
from plait.core.facts import Entry, Fact
from plait.store.disk import PRIVATE_FILE, make_private_folder, sync_folder, write_all
from plait.store.lock import WriterLock
from plait.store.records import Journal, Torn, encode_entries, encode_header, read_journal

JOURNAL: Final = "journal.jsonl"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal that is ready to be written, and what it held."""

    log: JsonlLog
    journal: Journal


class JsonlLog:
    """Writes facts to a journal; one thread at a time. See `kernel.log.FactLog` for the contract."""

    def __init__(
        self, path: Path, fd: int, lock: WriterLock, journal: Journal, now_ms: Callable[[], int], run_id: str = ""
    ) -> None:
        self.path = path
        self.run_id = run_id
        """Stands on every entry from now on."""
        self._fd = fd
        self._lock = lock
        self._now_ms = now_ms
        self._seq = journal.seq
        self._crc = journal.crc
        self._end = journal.end
        self._pending: list[Entry] = []
        self._fresh: list[Entry] = []
        self._fault: str | None = None

    @property
    def seq(self) -> int:
        """Number of the last entry that was taken in."""
        return self._seq

    @property
    def is_pending(self) -> bool:
        """True when the next barrier has something to do, or to report."""
        return bool(self._pending) or self._fault is not None

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in; nothing is written before the barrier."""
        self._raise_if_poisoned()
        at_ms = self._now_ms()
        for fact in facts:
            self._seq += 1
            self._pending.append(Entry(self._seq, at_ms, self.run_id, fact))

    def commit(self) -> None:
        """Write and sync what was appended.

        Raises:
            JournalFull: there is no room; what was committed before is whole.
            JournalPoisoned: the write or the sync failed, or an earlier one did.
        """
        if not self.is_pending:
            return
        data, crc = self.prepare()
        self.write(data)
        self.sync()
        self.settle(len(data), crc)

    def prepare(self) -> tuple[bytes, int]:
        """Return the bytes of the next write and the checksum it ends with."""
        self._raise_if_poisoned()
        if not self._lock.is_ours:
            raise SessionBusy(
                f"the journal {str(self.path)!r} belongs to the process that opened it",
                path=str(self.path),
                hint="open the session again after a fork",
            )
        return encode_entries(self._pending, self._crc)

    def write(self, data: bytes) -> None:
        """Put bytes at the end of the file."""
        try:
            write_all(self._fd, data)
        except OSError as error:
            raise self._poison(error, "written") from error

    def sync(self) -> None:
        """Make what was written durable."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._poison(error, "synced") from error

    def settle(self, size_bytes: int, crc: int) -> None:
        """Note that everything pending is safe."""
        self._end += size_bytes
        self._crc = crc
        self._fresh += self._pending
        self._pending = []

    def take_committed(self) -> Sequence[Entry]:
        """Return what became durable since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def close(self) -> None:
        """Commit what is pending and let the file and its lock go; may be called twice."""
        if self._fd < 0:
            return
        try:
            if self._fault is None and self._lock.is_ours:
                self.commit()
        finally:
            fd, self._fd = self._fd, -1
            os.close(fd)
            self._lock.release()

    def _poison(self, error: OSError, what: str) -> JournalError:
        """Refuse everything from now on; take back what was written without being safe."""
        self._fault = f"the journal could not be {what}: {error.strerror or error}"
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._end)
        hint = "nothing that was committed is lost; open the session again when the disk is well"
        if error.errno in _FULL:
            return JournalFull(
                self._fault, path=str(self.path), offset=self._end, hint="make room, then resume the session"
            )
        return JournalPoisoned(self._fault, path=str(self.path), offset=self._end, hint=hint)

    def _raise_if_poisoned(self) -> None:
        if self._fault is not None:
            raise JournalPoisoned(self._fault, path=str(self.path), offset=self._end, hint="open the session again")
        if self._fd < 0:
            raise JournalPoisoned("the journal is closed", path=str(self.path), hint="open the session again")


def open_journal(
    folder: Path, conversation: str, now_ms: Callable[[], int], *, header: Mapping[str, object] | None = None
) -> Opened:
    """Open a session's journal for writing; made, with its folder, when there is none.

    A torn tail is cut off, and kept beside the journal. The cut can be interrupted anywhere and repeated.

    Raises:
        SessionBusy: another process writes it.
        JournalCorrupt: it is damaged before the tail; nothing was changed.
        JournalFull: there is no room for a new one.
    """
    path = folder / JOURNAL
    try:
        make_private_folder(folder)
        lock = WriterLock(folder / f"{JOURNAL}.lock")
    except OSError as error:
        raise _cannot_open(path, error) from error
    try:
        fd, journal = _open_locked(path, conversation, header or {})
    except OSError as error:
        lock.release()
        raise _cannot_open(path, error) from error
    except JournalError:
        lock.release()
        raise
    return Opened(JsonlLog(path, fd, lock, journal, now_ms), journal)


def load_journal(path: Path) -> Journal:
    """Read a journal that somebody else may be writing; an unfinished write at its end is left out."""
    try:
        return read_journal(path.read_bytes(), str(path))
    except OSError as error:
        raise _cannot_open(path, error) from error


def _open_locked(path: Path, conversation: str, header: Mapping[str, object]) -> tuple[int, Journal]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        data = path.read_bytes()
        if _is_unborn(data):
            return fd, _begin(fd, path, conversation, header)
        journal = read_journal(data, str(path))
        if journal.torn is not None:
            _cut(fd, path, data, journal.torn)
    except BaseException:
        os.close(fd)
        raise
    return fd, journal


def _is_unborn(data: bytes) -> bool:
    """True when the first line was never whole: the journal was made and nothing was ever promised."""
    return b"\n" not in data and not data.strip(b"\0").endswith(b"}")


def _begin(fd: int, path: Path, conversation: str, header: Mapping[str, object]) -> Journal:
    line, crc = encode_header(conversation, header)
    os.ftruncate(fd, 0)
    write_all(fd, line)
    os.fsync(fd)
    sync_folder(path.parent)
    return Journal(conversation, header, end=len(line), crc=crc)


def _cut(fd: int, path: Path, data: bytes, torn: Torn) -> None:
    """Cut a torn tail off, after a copy of it is safe: it may hold words that were typed but never acknowledged."""
    kept = path.with_name(f"{path.name}.torn-{torn.offset}")
    copy = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        write_all(copy, data[torn.offset :])
    except OSError as error:
        if error.errno not in _FULL:
            raise
        # The copy is a courtesy; without room for it the session must still open.
        os.unlink(kept)
    finally:
        os.close(copy)
    os.ftruncate(fd, torn.offset)
    os.fsync(fd)


def _cannot_open(path: Path, error: OSError) -> JournalError:
    kind = JournalFull if error.errno in _FULL else JournalError
    return kind(
        f"the journal {str(path)!r} cannot be opened: {error.strerror or error}",
        path=str(path),
        hint="check the folder's permissions and the space on its disk",
    )
