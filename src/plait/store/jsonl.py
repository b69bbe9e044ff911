"""A session's journal: one file, one writer, a line a fact.

Floor: 2. Owns: appending and syncing; never: opening and repairing (`store.opening`), or lines (`store.records`).

A barrier is one write and one sync. Whatever goes wrong in it, what earlier barriers wrote is untouched: the file is
cut back to there, the writer is poisoned, and only opening the session again, with a fresh look at what the disk
holds, makes another.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from plait.core.errors import JournalError, JournalFull, JournalPoisoned, SessionBusy
from plait.core.facts import Entry, Fact, TurnEnd
from plait.core.values import dataclass
from plait.store import disk
from plait.store.records import Chain
from plait.store.writer import WriterNote, note_path

JOURNAL: Final = "journal.jsonl"
_AGAIN: Final = "nothing that was committed is lost; open the session again when the disk is well"


@dataclass(frozen=True, slots=True)
class Write:
    """What one barrier makes durable."""

    entries: tuple[Entry, ...]
    data: bytes


class JsonlLog:
    """Writes facts to a journal; one thread at a time. See `kernel.log.FactLog` for the contract."""

    def __init__(self, path: Path, fd: int, chain: Chain, *, end: int, now_ms: Callable[[], int]) -> None:
        """Take over a file that is locked, whole and durable up to `end`."""
        self.path = path
        self.device = disk.device_of(fd)
        self.run_id = chain.run_id
        """Stands on every entry from now on."""
        self.file = threading.RLock()
        """Held from the beginning of a write until what became of it is known."""
        self._fd = fd
        self._note = WriterNote(note_path(path))
        self._note.mark(end)
        self._chain = chain
        self._end = end
        """That much of the file is durable."""
        self._size = end
        """That much of it was written."""
        self._written_seq = chain.seq
        self._now_ms = now_ms
        self._seq = chain.seq
        self._pid = os.getpid()
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
        self._raise_if_over()
        at_ms = self._now_ms()
        for fact in facts:
            self._seq += 1
            self._pending.append(Entry(self._seq, at_ms, self.run_id, fact))

    def commit(self) -> None:
        """Write and sync what was appended.

        Raises:
            JournalFull: there is no room; what was committed before is whole.
            JournalPoisoned: the write or the sync failed, or an earlier one did.
            SessionBusy: somebody else writes the journal, or this is a fork of the process that opened it.
        """
        if not self.is_pending:
            return
        with self.file:
            write = self.prepare()
            self.write(write)
            self.sync()
            self.settle(write)

    def prepare(self) -> Write:
        """Return what the next barrier writes; whatever is appended from now on belongs to the one after."""
        self._raise_if_over()
        if os.getpid() != self._pid:
            raise SessionBusy(
                f"the journal {str(self.path)!r} belongs to the process that opened it",
                path=str(self.path),
                owner_pid=self._pid,
                hint="open the session again after a fork",
            )
        entries, self._pending = tuple(self._pending), []
        try:
            return Write(entries, self._chain.write(entries))
        except BaseException as error:
            self.fail(error, "encoded")
            raise

    def write(self, write: Write) -> None:
        """Put a write at the end of the file."""
        self._raise_if_over()
        try:
            assert write.entries[0].seq == self._written_seq + 1, "barriers of a journal overtook each other"
            if disk.end_of(self._fd) != self._size:
                raise self._intruded()
            disk.write_all(self._fd, write.data)
            self._size += len(write.data)
            self._written_seq = write.entries[-1].seq
        except OSError as error:
            raise self.fail(error, "written") from error
        except BaseException as error:
            self.fail(error, "written")
            raise

    def sync(self) -> None:
        """Make what was written durable."""
        try:
            disk.sync_data(self._fd)
        except OSError as error:
            raise self.fail(error, "synced") from error
        except BaseException as error:
            self.fail(error, "synced")
            raise

    def settle(self, write: Write) -> None:
        """Note that a write is safe."""
        self._end += len(write.data)
        self._fresh += write.entries
        if isinstance(write.entries[-1].fact, TurnEnd):
            # Any other write is soon vouched for by the next one, or by `close`.
            self._note.mark(self._end)

    def fail(self, error: BaseException, what: str) -> JournalError:
        """Refuse everything from now on, take back what was written without being safe, and return what to raise."""
        if self._fault is None:
            self._fault = f"the journal could not be {what}: {_reason(error)}"
            if not isinstance(error, SessionBusy):
                with contextlib.suppress(OSError):
                    disk.cut(self._fd, self._end)
        if isinstance(error, OSError) and error.errno in disk.FULL:
            return JournalFull(self._fault, path=str(self.path), offset=self._end, hint="make room, then resume")
        return JournalPoisoned(self._fault, path=str(self.path), offset=self._end, hint=_AGAIN)

    def take_committed(self) -> Sequence[Entry]:
        """Return what became durable since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def close(self) -> None:
        """Commit what is pending and let the file and its lock go; may be called twice."""
        with self.file:
            if self._fd < 0:
                return
            is_ours = os.getpid() == self._pid
            try:
                if is_ours and self._fault is None:
                    self.commit()
            finally:
                fd, self._fd = self._fd, -1
                if is_ours:
                    self._note.mark(self._end)
                    # A child that was forked meanwhile holds the same lock, and must not keep it.
                    disk.unlock(fd)
                disk.close_file(fd)
                self._note.close()

    def _intruded(self) -> SessionBusy:
        return SessionBusy(
            f"somebody else changed the journal {str(self.path)!r} behind this process's back",
            path=str(self.path),
            hint="its lock does not work there: keep sessions on a local disk",
        )

    def _raise_if_over(self) -> None:
        if self._fault is not None:
            raise JournalPoisoned(self._fault, path=str(self.path), offset=self._end, hint=_AGAIN)
        if self._fd < 0:
            raise JournalPoisoned("the journal is closed", path=str(self.path), hint="open the session again")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
