"""The few file operations that durability rests on, each whole or not at all.

Floor: 2. Owns: full writes, syncs, private files and folders, atomic replacement; never: a format.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


def make_private_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, and its missing parents likewise."""
    for folder in [*reversed(path.parents), path]:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, PRIVATE_FOLDER)
            sync_folder(folder.parent)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, however many writes that takes."""
    view = memoryview(data)
    while view:
        written = os.write(fd, view)
        view = view[written:]


def sync_folder(path: Path) -> None:
    """Make names that were created, renamed or removed in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of another, or of none: after any crash there is the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)
