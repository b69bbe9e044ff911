"""A command under a supervisor, from this side: the order, the wait, and what came of it, now or after a restart.

Floor: 2. Owns: starting a supervisor, stopping it, reading what it left; never: the command itself (`supervisor`).

A run that was started here and one that an earlier process started end in the same code: both are followed by what
stands in the spool. The one started here hears a bell; the other one is looked at from time to time.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.hands.capture import Captured
from plait.hands.command import Ended, Finished, Leftover, RunOptions, StreamName
from plait.hands.launcher import Started
from plait.hands.process_tree import MARK, signal_process, stop_marked
from plait.hands.spool import Entry, Record, Stream, refuse_start, remaining_s
from plait.hands.text import from_whole_character, until_whole_character

_LOOK_S: Final = 0.05
_ORDERLY_S: Final = 5.0
"""How long a supervisor may take beyond the grace: its own killing takes up to two seconds."""
_BELL_BYTES: Final = 64 * 1024
_SHOWN_BYTES: Final = 1 << 20
_NAMES: Final = ("out", "err")
_ENDS: Final[Mapping[str, Ended]] = {
    "exited": "exited",
    "timed_out": "timed_out",
    "cancelled": "cancelled",
    "overflowed": "overflowed",
}


def order_of(argv: tuple[str, ...], options: RunOptions, entry: Entry, *, job_delay_s: float | None = None) -> bytes:
    """Return the order for a supervisor, as `supervisor.Order` reads it; with a delay it is for a background job."""
    marks = ":".join(filter(None, (options.environment.get(MARK, ""), options.mark, entry.mark)))
    environment = {**options.environment, MARK: marks}
    fields: list[str] = [
        entry.folder,
        options.cwd,
        repr(float(options.timeout_s or 0)),
        repr(options.grace_s),
        str(options.limits.spill_bytes_max),
        str(options.limits.tail_bytes),
        "1" if options.separates_errors else "",
        "1" if options.leftovers == "kill" else "",
        "" if options.output_bytes_max is None else str(options.output_bytes_max),
        "" if job_delay_s is None else repr(float(job_delay_s)),
        entry.mark,
        str(len(argv)),
        *argv,
        *(f"{name}={value}" for name, value in environment.items()),
    ]
    body = b"".join(os.fsencode(field) + b"\0" for field in fields)
    return b"%d\0%b" % (len(body), body)


class Supervised:
    """One command under a supervisor. `run` is called once, in one thread; the stop signal may come from any other."""

    def __init__(
        self, entry: Entry, options: RunOptions, stop: Cancel, begin: Callable[[], Started] | None = None
    ) -> None:
        """Follow what stands in `entry`; `begin` starts the supervisor, unless an earlier process has."""
        self._entry = entry
        self._options = options
        self._stop = stop
        self._begin = begin
        self._started: Started | None = None
        self._record = Record()
        self._views = {"stdout": _View(entry, "out"), "stderr": _View(entry, "err")}
        self._told = False
        self._lock = threading.RLock()
        self._wake_read = self._wake_write = -1

    def run(self) -> Finished:
        """Wait for the end and return what came of the command. Raises `Refusal` when it could not be started."""
        if self._begin is not None and self._stop.reason is not None:
            return Finished.never_started(self._options)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        undo = self._stop.on_cancel(self._wake)
        try:
            if self._begin is not None:
                self._started = self._begin()
            self._follow()
            return self._finished()
        except BaseException:
            self._end_all()
            raise
        finally:
            undo()
            with self._lock:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_write = -1
            if self._started is not None:
                self._started.let_go()

    def _follow(self) -> None:
        """Wait until the record has its end, or nobody is there any more to write one."""
        allowed_s = (self._options.timeout_s or 0) + self._options.grace_s + _ORDERLY_S
        deadline = time.monotonic() + remaining_s(self._entry.read(), allowed_s)
        while True:
            is_there = self._wait()
            self._record = self._entry.read()
            self._show()
            if self._record.ended or not is_there:
                return
            if self._stop.reason is not None and not self._told:
                self._told = True
                self._tell_to_stop()
                deadline = min(deadline, time.monotonic() + self._options.grace_s + _ORDERLY_S)
            if time.monotonic() >= deadline:
                self._end_all()
                return

    def _wait(self) -> bool:
        """Sleep until something has happened; say whether the supervisor is still there."""
        if self._started is None:
            if not self._entry.is_held():
                return False
            self._sleep([])
            return True
        bell = self._started.bell_fd
        if bell not in self._sleep([bell]):
            return True
        return bool(os.read(bell, _BELL_BYTES))

    def _sleep(self, fds: list[int]) -> list[int]:
        told = [] if self._told else [self._wake_read]
        poll = select.poll()
        for fd in (*fds, *told):
            poll.register(fd, select.POLLIN)
        return [fd for fd, _ in poll.poll(_LOOK_S * 1_000 if not fds or self._told else 1_000)]

    def _tell_to_stop(self) -> None:
        if self._started is not None:
            self._started.terminate()
            return
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the supervisor of an earlier process: exactly it, never one that has its id since."""
        began = self._record.began or self._entry.read().began
        with suppress(KeyError, ValueError):
            signal_process(int(began["pid"]), int(began["start"]), number)

    def _end_all(self) -> None:
        """End a supervisor that does not do it itself, and what its command has started."""
        if self._started is not None:
            self._started.kill()
        elif self._entry.is_held():
            self._signal(signal.SIGKILL)
        stop_marked(self._entry.mark)

    def _wake(self) -> None:
        """End the current sleep; from any thread, and perhaps late."""
        with self._lock, suppress(BlockingIOError):
            if self._wake_write >= 0:
                os.write(self._wake_write, b"!")

    def _show(self) -> None:
        if self._options.on_output is None:
            return
        for name, view in self._views.items():
            text = view.more(is_last=bool(self._record.ended))
            if text:
                stream: StreamName = "stderr" if name == "stderr" else "stdout"
                self._options.on_output(text, stream)

    def _finished(self) -> Finished:
        record = self._record
        refuse_start(record, "the command", self._options.cwd)
        if not record.began and self._stop.reason is None:
            raise Refusal(
                "INTERNAL_SERVER_ERROR",
                "the command was not run: its supervisor ended before it began",
                hint="try again",
            )
        if not record.ended:
            # Whoever was to write the end is gone: nobody will stop at the deadline what is left of the command.
            self._end_all()
        status = record.ended.get("status", "")
        code = int(status) if status.lstrip("-").isdecimal() else None
        streams = [record.stream("out") or Stream(0, 0, False)]
        streams += [record.stream("err") or Stream(0, 0, False)] if self._options.separates_errors else []
        paths = (self._options.spill_path, self._options.errors_spill_path)
        kept = [self._kept(name, stream, path) for name, stream, path in zip(_NAMES, streams, paths, strict=False)]
        return Finished(
            end=_ENDS.get(record.ended.get("end", ""), "lost") if record.began else "cancelled",
            exit_code=None if code is None or code < 0 else code,
            signal=-code if code is not None and code < 0 else None,
            output=kept[0],
            errors=kept[1] if len(kept) > 1 else None,
            duration_s=int(record.ended.get("ms", "0")) / 1_000,
            leftover=Leftover(self._entry.mark) if any(stream.is_open for stream in streams) else None,
        )

    def _kept(self, name: str, stream: Stream, spill_path: str | None) -> Captured:
        """Return what is left of an output; what is in no memory is in a file of the name that the caller has given."""
        head_max, tail_max = self._options.limits.head_bytes, self._options.limits.tail_bytes
        total, kept = stream.total_bytes, stream.kept_bytes
        if total <= head_max + tail_max and kept == total:
            return Captured(self._entry.part(name, 0, total), b"", total)
        if kept == total:
            tail = self._entry.part(name, total - tail_max, tail_max)
        else:
            tail = self._entry.part(f"{name}.tail", 0, 2 * tail_max)[-tail_max:]
        is_spilled = spill_path is not None and self._spill(name, spill_path)
        return Captured(
            until_whole_character(self._entry.part(name, 0, min(head_max, kept))),
            from_whole_character(tail),
            total,
            spill_path if is_spilled else None,
            kept == total,
        )

    def _spill(self, name: str, path: str) -> bool:
        """Give an output its place among the kept ones; the entry keeps it too, until nobody asks any more."""
        try:
            os.link(self._entry.path(name), path)
        except OSError:
            return self._copy(name, path)
        return True

    def _copy(self, name: str, path: str) -> bool:
        try:
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        with os.fdopen(target, "wb") as file:
            start = 0
            while piece := self._entry.part(name, start, _SHOWN_BYTES):
                try:
                    file.write(piece)
                    file.flush()
                except OSError:
                    return False
                start += len(piece)
        return True


class _View:
    """What a watcher has seen of an output that is being written."""

    def __init__(self, entry: Entry, name: str) -> None:
        self._entry = entry
        self._name = name
        self._seen = 0
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def more(self, *, is_last: bool) -> str:
        """Return what has come since the last time."""
        texts: list[str] = []
        while piece := self._entry.part(self._name, self._seen, _SHOWN_BYTES):
            self._seen += len(piece)
            texts.append(self._decoder.decode(piece))
        if is_last:
            texts.append(self._decoder.decode(b"", True))
        return "".join(texts)
