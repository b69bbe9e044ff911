"""Everything that a session sends, gets and tells, as it happened: `events.jsonl`, for whoever looks into it later.

Floor: 2. Owns: the file, and request bodies that are kept as what they add to the one before; never: what is captured.

A line is `{"n", "at", "type", "data"}`, numbered from 1 in each process; a process begins with `capture_start`. The
body of a request is `{"of", "keeps", "adds"}`: the first `keeps` bytes of the body in line `of`, then `adds`. A session
grows so with what happens, and not with its square. Bytes are text, with what is no UTF-8 as lone surrogates, so that
every byte can be had back.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plait.core.errors import JournalCorrupt, JournalError
from plait.core.strict_json import plain
from plait.store import disk
from plait.store.opening import cannot_open, file_bytes

EVENTS: Final = "events.jsonl"
_TAIL_BYTES: Final = 1 << 16
Record = dict[str, Any]


class CaptureFile:
    """Writes a session's capture; made with the first record that is committed. Any thread."""

    def __init__(self, folder: Path, now_ms: Callable[[], int]) -> None:
        self.path = folder / EVENTS
        self._now_ms = now_ms
        self._lock = threading.RLock()
        self._fd = -1
        self._pid = os.getpid()
        self._end = 0
        """That much of the file is whole."""
        self._number = 0
        self._pending: list[bytes] = []
        self._body: tuple[int, bytes] = (0, b"")
        """The last request's line and body."""

    def add(self, type: str, data: Mapping[str, object]) -> Record:
        """Take a record in and return it; nothing is written before `commit`."""
        with self._lock:
            if not self._number and type != "capture_start":
                self.add("capture_start", {"pid": os.getpid()})
            self._number += 1
            record = {"n": self._number, "at": self._now_ms(), "type": type, "data": plain(data)}
            self._pending.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")
            return record

    def body(self, parts: Sequence[bytes]) -> Record:
        """Return what a request's body adds to the one before; the next record that is added holds it."""
        with self._lock:
            number, before = self._body
            body = b"".join(parts)
            keeps = common_bytes(before, body)
            self._body = (self._number + (1 if self._number else 2), body)
            return {"of": number, "keeps": keeps, "adds": body[keeps:].decode("utf-8", "surrogateescape")}

    def commit(self) -> None:
        """Make what was added durable; raise `JournalError` where that cannot be, to be tried again by the next one."""
        with self._lock:
            if not self._pending:
                return
            data = b"".join(self._pending)
            try:
                if self._fd < 0:
                    self._open()
                try:
                    disk.write_all(self._fd, data)
                    disk.sync_data(self._fd)
                except OSError:
                    with contextlib.suppress(OSError):
                        disk.cut(self._fd, self._end)
                    raise
            except OSError as error:
                raise cannot_open(self.path, error, "written") from error
            self._end += len(data)
            self._pending.clear()

    def close(self) -> None:
        """Let the file go, with what was added last, if there is one; may be called twice."""
        with self._lock:
            if self._fd < 0:
                return
            try:
                # What was promised is in the journal; a full disk is no reason to fail here.
                with contextlib.suppress(JournalError):
                    # What a fork holds of it is not its own to write.
                    if os.getpid() == self._pid:
                        self.commit()
            finally:
                fd, self._fd = self._fd, -1
                disk.close_file(fd)

    def _open(self) -> None:
        disk.make_private_folder(self.path.parent)
        fd = disk.open_file(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = disk.size_of(fd)
            self._end = _whole_bytes(fd, size)
            if self._end < size:
                # A write that a crash cut off: nobody was told that it was safe.
                disk.cut(fd, self._end)
            disk.sync_folder(self.path.parent)
        except BaseException:
            disk.close_file(fd)
            raise
        self._fd = fd


def _whole_bytes(fd: int, size: int) -> int:
    """How much of a file there is up to its last whole line."""
    length = _TAIL_BYTES
    while True:
        start = max(0, size - length)
        newline = disk.read_from(fd, start).rfind(b"\n")
        if newline >= 0 or start == 0:
            return start + newline + 1
        length *= 8


def read_capture(path: Path) -> Iterator[Record]:
    """Yield the records of a capture; the body of a request is whole, as text under `body`.

    An unfinished last line is left out. Raises `JournalCorrupt` for a line before it that is damaged.
    """
    data = file_bytes(path)
    number, body, offset = 0, b"", 0
    for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
        try:
            record: Record = json.loads(line)
            told = record["data"]
            if record["type"] == "capture_start":
                number, body = 0, b""
            if isinstance(told, dict) and isinstance(part := told.get("body"), dict):
                if part["of"] != number:
                    raise ValueError(f"its body goes on from line {part['of']}, and {number} is the last one")
                body = body[: part["keeps"]] + part["adds"].encode("utf-8", "surrogateescape")
                number = record["n"]
                told["body"] = body.decode("utf-8", "surrogateescape")
        except (ValueError, KeyError, TypeError) as error:
            raise JournalCorrupt(
                f"the capture {str(path)!r} is damaged at byte {offset}: {error}", path=str(path), offset=offset
            ) from error
        offset += len(line)
        yield record


def common_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes two bodies begin with alike, up to a whole character."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    while 0 < low < len(other) and other[low] & 0xC0 == 0x80:
        low -= 1
    return low
