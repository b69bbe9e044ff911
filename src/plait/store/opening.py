"""Opening a journal: for writing, which may first have to cut an unfinished write off, or only to look at it.

Floor: 2. Owns: the lock, birth and repair of a journal file; never: a repair that costs what was promised.

Dying anywhere in here changes nothing that opening again does not come to terms with. On return all that was read is
durable: what follows may build on it.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from plait.core.errors import JournalError, JournalFull, SessionBusy
from plait.core.values import dataclass
from plait.kernel.state import FoldError, State
from plait.store import disk
from plait.store.jsonl import JOURNAL, JsonlLog
from plait.store.owning import refuse_shared
from plait.store.records import (
    BIRTH_BYTES_MAX,
    Chain,
    Journal,
    Torn,
    corrupt,
    encode_header,
    is_unborn,
    offset_of,
    read_journal,
)
from plait.store.writer import claim, read_note

_GLANCE_BYTES: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal that is ready to be written, and what it held."""

    log: JsonlLog
    journal: Journal
    state: State
    """The fold of what it held."""


def open_journal(
    folder: Path, conversation: str, now_ms: Callable[[], int], *, header: Mapping[str, object] | None = None
) -> Opened:
    """Open a session's journal for writing; made, with its folder, when there is none.

    A torn tail is cut off, and a copy of it kept beside the journal. `conversation` and `header` are for a new one.

    Raises:
        SessionBusy: another process writes it.
        JournalCorrupt: it is damaged before the tail; nothing was changed.
        JournalFull: there is no room for a new one.
        ConfigError: somebody else could write in its folder.
    """
    return open_journal_at(folder / JOURNAL, conversation, now_ms, header=header)


def open_journal_at(
    path: Path, conversation: str, now_ms: Callable[[], int], *, header: Mapping[str, object] | None = None
) -> Opened:
    """Open a journal whatever its file is called; see `open_journal`."""
    try:
        disk.make_private_folder(path.parent)
        refuse_shared(path.parent)
        fd = _locked(path)
        try:
            return _opened(fd, path, (conversation, header or {}), now_ms)
        except BaseException:
            disk.close_file(fd)
            raise
    except OSError as error:
        raise cannot_open(path, error) from error


def load_journal(path: Path) -> Journal:
    """Read a journal that somebody else may be writing; an unfinished write at its end is left out.

    Raises:
        JournalCorrupt: it is damaged before the tail.
        JournalError: it cannot be read.
    """
    try:
        # The note first: the journal only grows, so that what is read after it must hold what it promises.
        safe_bytes = read_note(path).safe_bytes
        return read_journal(disk.read_file(path), str(path), safe_bytes)
    except OSError as error:
        raise cannot_open(path, error) from error


def file_bytes(path: Path) -> bytes:
    """Return all that a journal's file holds, whatever it is worth.

    Raises:
        JournalError: it cannot be read.
    """
    try:
        return disk.read_file(path)
    except OSError as error:
        raise cannot_open(path, error, "read") from error


def folded(journal: Journal, data: bytes, path: Path) -> State:
    """Fold a journal; one whose facts do not fit each other is as damaged as any.

    Raises:
        JournalCorrupt: it is.
    """
    state = State()
    for seq, fact in enumerate(journal.facts, 1):
        try:
            state.apply(fact)
        except FoldError as error:
            raise corrupt(seq, offset_of(data, seq), str(path), str(error)) from error
    return state


def is_begun(path: Path) -> bool:
    """Say whether there is a journal, damaged or not: what a crash left of one that never was safe is none."""
    try:
        with disk.opened(path, os.O_RDONLY) as fd:
            # Nearly always the first line is whole in the first bytes.
            if not is_unborn(disk.read_some(fd, _GLANCE_BYTES)) or not is_unborn(
                disk.read_some(fd, BIRTH_BYTES_MAX + 1)
            ):
                return True
    except OSError:
        # Whoever opens it says what is wrong.
        return os.path.lexists(path)
    return read_note(path).safe_bytes > 0


def _locked(path: Path) -> int:
    """Open the file and take its lock; not that of a file which was removed meanwhile."""
    while True:
        fd = disk.open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            if not disk.lock(fd):
                raise busy(path)
            if disk.is_at(fd, path):
                return fd
        except BaseException:
            disk.close_file(fd)
            raise
        disk.close_file(fd)


def _opened(fd: int, path: Path, birth: tuple[str, Mapping[str, object]], now_ms: Callable[[], int]) -> Opened:
    # First of all: whoever comes second is to know who is here.
    safe_bytes = claim(path).safe_bytes
    data = disk.read_all(fd)
    if safe_bytes == 0 and is_unborn(data):
        journal = _begin(fd, path, *birth)
        state = State()
    else:
        with _without_collections():
            journal = read_journal(data, str(path), safe_bytes)
            state = folded(journal, data, path)
            state.waited_ms = _waited_ms(journal, state, now_ms)
        if journal.torn is not None:
            _cut(fd, path, data, journal.torn)
        # Its last writer may have died between a write, or the file's making, and the sync.
        disk.sync_file(fd)
        disk.sync_folder(path.parent)
    return Opened(JsonlLog(path, fd, journal.chain, end=journal.end, now_ms=now_ms), journal, state)


def _waited_ms(journal: Journal, state: State, now_ms: Callable[[], int]) -> int:
    """Return how much of the wait for a retry is over; a clock that was set back does not make it longer."""
    if state.retry is None:
        return 0
    told = zip(reversed(journal.told.facts), reversed(journal.told.times_ms), strict=True)
    return max(0, now_ms() - next(at_ms for fact, at_ms in told if fact is state.retry))


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Spare the garbage collector the search for cycles among thousands of new facts, which have none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _begin(fd: int, path: Path, conversation: str, header: Mapping[str, object]) -> Journal:
    line, crc = encode_header(conversation, header)
    disk.cut(fd, 0)
    disk.write_all(fd, line)
    disk.sync_file(fd)
    disk.sync_folder(path.parent)
    disk.sync_folder(path.parent.parent)
    return Journal(conversation, header, Chain(crc), len(line))


def _cut(fd: int, path: Path, data: bytes, torn: Torn) -> None:
    """Cut a torn tail off, after a copy of it is safe: it may hold words that were typed but never acknowledged."""
    kept = path.with_name(f"{path.name}.torn-{torn.offset}")
    # The copy is a courtesy: without room for it the session must still open.
    with contextlib.suppress(OSError), disk.opened(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as copy:
        disk.write_all(copy, data[torn.offset :].rstrip(b"\0"))
        disk.sync_file(copy)
    disk.cut(fd, torn.offset)


def busy(path: Path) -> SessionBusy:
    """Return the error for a journal that somebody else has locked."""
    pid = read_note(path).pid
    who = f"process {pid}" if pid else "another process"
    return SessionBusy(
        f"{who} holds the session at {str(path.parent)!r}",
        path=str(path),
        owner_pid=pid,
        hint="end that one first, or fork the session",
    )


def cannot_open(path: Path, error: OSError, what: str = "opened") -> JournalError:
    """Return the error for what the system says about a journal's file."""
    kind = JournalFull if error.errno in disk.FULL else JournalError
    return kind(
        f"the journal {str(path)!r} cannot be {what}: {error.strerror or error}",
        path=str(path),
        hint="check the folder's permissions and the space on its disk",
    )
