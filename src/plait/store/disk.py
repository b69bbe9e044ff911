"""Everything the store asks of the operating system: each of these is done whole, or raises `OSError`.

Floor: 2. Owns: full writes and reads, syncs, locks, private files and folders; never: a format.

Nothing else in the store calls `os`, so whoever wants to see it fail stands here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that go away when somebody makes room."""

_CHUNK_BYTES: Final = 1 << 20


def make_private_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, and its missing parents likewise; durable on return."""
    if os.path.isdir(path):
        return
    for folder in [*reversed(path.parents), path]:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, PRIVATE_FOLDER)
            sync_folder(folder.parent)


def owner_of(folder: Path) -> tuple[int | None, bool]:
    """Return the user whose folder it is, None for this one, and whether everybody may write in it."""
    status = os.stat(folder)
    own = os.geteuid() if hasattr(os, "geteuid") else status.st_uid
    return None if status.st_uid == own else status.st_uid, bool(status.st_mode & stat.S_IWOTH)


def open_file(path: Path, flags: int) -> int:
    """Open a file; one that this makes is readable by its owner only."""
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE_FILE)


def close_file(fd: int) -> None:
    """Give a file back, which the system does whatever else it may say: what had to be safe was synced before."""
    with contextlib.suppress(OSError):
        os.close(fd)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file for a block."""
    fd = open_file(path, flags)
    try:
        yield fd
    finally:
        close_file(fd)


def read_all(fd: int) -> bytes:
    """Return everything in an open file."""
    return read_from(fd, 0)


def read_from(fd: int, offset: int) -> bytes:
    """Return everything in an open file from an offset on."""
    data = os.pread(fd, max(0, os.fstat(fd).st_size - offset), offset)
    while more := os.pread(fd, _CHUNK_BYTES, offset + len(data)):
        data += more
    return data


def read_file(path: Path) -> bytes:
    """Return everything in a file."""
    with opened(path, os.O_RDONLY) as fd:
        return read_all(fd)


def read_some(fd: int, size_bytes: int) -> bytes:
    """Return the beginning of an open file."""
    return os.pread(fd, size_bytes, 0)


def written_ms(fd: int) -> int:
    """Return when an open file was last written, in milliseconds since 1970."""
    return os.fstat(fd).st_mtime_ns // 1_000_000


def size_of(fd: int) -> int:
    """Return how many bytes an open file has."""
    return os.fstat(fd).st_size


def end_of(fd: int) -> int:
    """Return the same at a fifth of the price; the file's position is there then, which appending does not mind."""
    return os.lseek(fd, 0, os.SEEK_END)


def device_of(fd: int) -> int:
    """Return the number of the device that an open file is on."""
    return os.fstat(fd).st_dev


def is_at(fd: int, path: Path) -> bool:
    """Say whether an open file is the one that a path names."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, however many writes that takes."""
    left: bytes | memoryview = data
    while left:
        written = os.write(fd, left)
        if written == len(left):
            return
        if written == 0:
            raise OSError(errno.EIO, "the system took nothing of what was written")
        left = memoryview(left)[written:]


def overwrite(fd: int, data: bytes) -> None:
    """Put a few bytes at the beginning of a file; not synced."""
    os.pwrite(fd, data, 0)


def cut(fd: int, size_bytes: int) -> None:
    """Shorten a file; not synced."""
    os.ftruncate(fd, size_bytes)


def sync_data(fd: int) -> None:
    """Make what a file holds durable."""
    if sys.platform == "darwin":
        import fcntl

        # There a plain sync stops at the drive's own memory.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def sync_file(fd: int) -> None:
    """Make a file durable, with what the system knows about it."""
    sync_data(fd) if sys.platform == "darwin" else os.fsync(fd)


def sync_file_system(fd: int) -> None:
    """Make everything durable on the file system that an open file is on (Linux)."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sync_folder(path: Path) -> None:
    """Make names that were created, renamed or removed in a folder durable."""
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)


def lock(fd: int) -> bool:
    """Take the lock of a file, which goes with its process however that ends; False when somebody has it."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    """Give the lock of a file back, for whoever shares the open file as well."""
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_UN)


def rename(path: Path, new_path: Path) -> None:
    """Give a file or folder another name; durable after the folder's sync."""
    os.rename(path, new_path)


def new_file(path: Path, data: bytes) -> None:
    """Make a file with this content, durable on return; raise `FileExistsError` and change nothing if it is there."""
    fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            write_all(fd, data)
            sync_file(fd)
        finally:
            close_file(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    sync_folder(path.parent)


def put_in_place(path: Path, data: bytes) -> None:
    """Put a file in the place of another, or of none, unsynced: a crash of the system may leave it empty or old.

    One process at a time for one path.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW) as fd:
            write_all(fd, data)
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of another, or of none: after any crash there is the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    new_file(temporary, data)
    try:
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)
