"""The operating system as the store sees it, where the n-th operation fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

OPERATIONS = (
    "open", "close", "read", "pread", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "fstat", "lseek", "stat",
    "mkdir", "rename", "unlink", "listdir", "scandir",
)  # fmt: skip

SYNCS = ("fsync", "fdatasync")


class FaultyOs:
    """Stands in for the module `os`: counts operations and makes some fail. Syncs are not made, to spare the disk.

    Args:
        nth: number of the operation that fails, from 1; 0 makes none fail.
        number: the error; "short" writes one byte of what was asked for and fails at the next try.
        is_sticky: every operation of the same kind from then on fails as well.
    """

    def __init__(self, nth: int = 0, number: int | str = errno.EIO, *, is_sticky: bool = False) -> None:
        self.count = 0
        self.done: list[str] = []
        """What was done, in order: `operation`, or `operation!` where it failed."""
        self._nth = nth
        self._number = number
        self._is_sticky = is_sticky
        self._failing: str | None = None

    @property
    def failed(self) -> str | None:
        """The operation that failed, or None when the run never came to it."""
        return self._failing

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._watched(name, real) if name in OPERATIONS else real

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            self.count += 1
            is_due = self.count == self._nth or (self._is_sticky and self._failing == name)
            if not is_due:
                self.done.append(name)
                return None if name in SYNCS else real(*args, **options)
            self._failing = name
            self.done.append(f"{name}!")
            return self._fail(name, real, args)

        return operation

    def _fail(self, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._number == "short":
            if name not in ("write", "pwrite"):
                return real(*args)
            self._nth, self._number = self.count + 1, errno.ENOSPC
            return real(args[0], bytes(args[1])[: max(1, len(args[1]) // 2)], *args[2:])
        if name == "close":
            # Linux closes the file whatever it says.
            real(*args)
        assert isinstance(self._number, int)
        raise OSError(self._number, os.strerror(self._number))
