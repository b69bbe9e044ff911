"""The search engine that is always there: Python's `re`, in a process that is killed when it takes too long.

Floor: 2. Owns: that process; never: which files, what is shown of them.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import threading
from types import TracebackType
from typing import Final, Self

from plait.core.cancel import Cancel
from plait.core.errors import ToolFault
from plait.hands.searching import regex_worker
from plait.hands.searching.patterns import SearchPattern
from plait.hands.searching.regex_worker import Hit

_FLAGS: Final = re.MULTILINE


class SearchStopped(Exception):
    """The deadline or the cancel signal came while a content was being searched."""


class PythonSearch:
    """Searches contents for one pattern, within one deadline; a context manager.

    A pattern without repetitions runs here, any other in the helper process, which starts with the first content.
    """

    def __init__(
        self, pattern: SearchPattern, *, hits_max: int, deadline_s: float | None = None, cancel: Cancel | None = None
    ) -> None:
        self._pattern = pattern
        self._hits_max = hits_max
        self._deadline_s = deadline_s
        self._cancel = cancel or Cancel()
        self._plain = re.compile(pattern.python, _FLAGS) if pattern.is_plain else None
        self._helper: subprocess.Popen[bytes] | None = None
        self._timer: threading.Timer | None = None
        self._undo = _nothing
        self._was_killed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._undo()
        if self._timer is not None:
            self._timer.cancel()
        if self._helper is not None:
            self._helper.kill()
            self._helper.communicate()

    def find(self, data: bytes) -> list[Hit]:
        """Return the first lines of `data` that match. Raises `SearchStopped`."""
        if self._plain is not None:
            return regex_worker.find_hits(self._plain, data, self._hits_max)
        if self._helper is None:
            self._start()
        assert self._helper is not None
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        try:
            regex_worker.write_frame(self._helper.stdin, data)
            answer = regex_worker.read_frame(self._helper.stdout)
        except OSError:
            answer = None
        if answer is not None:
            return regex_worker.unpack_hits(answer)
        if self._was_killed:
            raise SearchStopped
        raise ToolFault("the search helper died", hint="the pattern may need more memory than it may have; simplify it")

    def _start(self) -> None:
        try:
            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", regex_worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFault(f"the search helper cannot be started: {error.strerror}") from error
        self._undo = self._cancel.on_cancel(self._kill)
        if self._deadline_s is not None:
            self._timer = threading.Timer(self._deadline_s, self._kill)
            self._timer.daemon = True
            self._timer.start()
        assert self._helper.stdin is not None
        head = struct.pack("<I", self._hits_max)
        try:
            regex_worker.write_frame(self._helper.stdin, head + self._pattern.python.encode())
        except OSError:
            pass  # it was killed already; `find` says so

    def _kill(self) -> None:
        self._was_killed = True
        if self._helper is not None:
            self._helper.kill()


def _nothing() -> None:
    """Undo nothing."""
