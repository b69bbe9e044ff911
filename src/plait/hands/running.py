"""One command from its start to its last byte: a loop over its pipes, its end, its deadline and the stop signal.

Floor: 2. Owns: the life of one process tree; never: threads, Ctrl-C.

The leader's status is looked at without fetching it (WNOWAIT) until its group has been dealt with: while it is not
fetched, no stranger can get its id, so a signal to the group reaches nobody else.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.hands.capture import Capture
from plait.hands.command import Ended, Finished, Leftover, RunOptions
from plait.hands.process_tree import MARK, Tree, mark_of
from plait.hands.refusals import refusal_from
from plait.hands.streams import OutputPipe, drain_unread

_POLL_S: Final = 0.02
_QUIET_S: Final = 0.05
_DRAIN_MAX_S: Final = 0.5
_REAP_MAX_S: Final = 1.0


class Running:
    """One run of one command. `run` is called once, in one thread; the stop signal may come from any other."""

    def __init__(self, argv: tuple[str, ...], options: RunOptions, stop: Cancel) -> None:
        self._argv = argv
        self._options = options
        self._stop = stop
        self._mark = os.urandom(16).hex()
        self._end: Ended = "exited"
        self._pipes: list[OutputPipe] = []
        self._started_at = time.monotonic()
        self._kill_at: float | None = None
        """When the tree is killed; set once it has been asked to end."""

    def run(self) -> Finished:
        """Start, read, wait, clean up. Raises `Refusal` when the command cannot be started."""
        if self._stop.reason is not None:
            return Finished.never_started(self._options)
        try:
            self._make_pipes()
            process = self._spawn()
            for pipe in self._pipes:
                pipe.started()
            return self._see_through(process)
        finally:
            for pipe in self._pipes:
                pipe.close()
                pipe.capture.finish()

    def _make_pipes(self) -> None:
        options = self._options
        try:
            self._pipes.append(OutputPipe("stdout", Capture(options.limits, options.spill_path), options.on_output))
            if options.separates_errors:
                errors = Capture(options.limits, options.errors_spill_path)
                self._pipes.append(OutputPipe("stderr", errors, options.on_output))
        except OSError as error:
            raise refusal_from(error, self._argv[0], "run") from error

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = self._options
        marks = mark_of(options.environment, ":".join(filter(None, (options.mark, self._mark))))
        try:
            with _input(options.input) as stdin:
                return subprocess.Popen(
                    self._argv,
                    stdin=stdin,
                    stdout=self._pipes[0].write_fd,
                    stderr=self._pipes[-1].write_fd,
                    cwd=options.cwd,
                    env={**options.environment, MARK: marks},
                    start_new_session=True,
                )
        except OSError as error:
            raise refusal_from(error, str(error.filename or self._argv[0]), "run") from error
        except ValueError as error:
            raise Refusal("INVALID_INPUT", f"cannot run {self._argv[0]!r}: {error}", hint="") from error

    def _see_through(self, process: subprocess.Popen[bytes]) -> Finished:
        tree = Tree(process.pid, self._mark)
        try:
            with _Watch(process, self._pipes) as watch:
                undo = self._stop.on_cancel(watch.wake)
                try:
                    self._loop(watch, tree)
                finally:
                    undo()
                if self._end != "exited" or self._options.leftovers == "kill":
                    tree.kill()
                exit_code, signal_number = _status(process)
                self._drain(watch)
            return self._finished(exit_code, signal_number)
        except BaseException:
            tree.kill()
            raise
        finally:
            with suppress(subprocess.TimeoutExpired):  # a process that not even KILL ends sits in the kernel
                process.wait(_REAP_MAX_S)

    def _loop(self, watch: _Watch, tree: Tree) -> None:
        """Read until the leader has ended, or until a tree that was told to end is due to be killed."""
        while True:
            watch.turn(self._patience())
            if self._kill_at is None:
                reason = self._reason_to_stop()
                if reason is not None and not watch.has_ended:
                    self._end = reason
                    self._kill_at = time.monotonic() + self._options.grace_s
                    if self._options.grace_s > 0:
                        tree.terminate()
            if self._kill_at is None:
                if watch.has_ended:
                    return
            elif time.monotonic() >= self._kill_at or (watch.has_ended and not tree.members()):
                return

    def _patience(self) -> float | None:
        """How long the loop may sleep."""
        if self._kill_at is not None:
            return max(0.0, min(_POLL_S, self._kill_at - time.monotonic()))
        if self._options.timeout_s is None:
            return None
        return max(0.0, self._started_at + self._options.timeout_s - time.monotonic())

    def _reason_to_stop(self) -> Ended | None:
        options = self._options
        if self._stop.reason is not None:
            return "cancelled"
        if options.output_bytes_max is not None and self._total_bytes() > options.output_bytes_max:
            return "overflowed"
        if options.timeout_s is not None and time.monotonic() - self._started_at >= options.timeout_s:
            return "timed_out"
        return None

    def _total_bytes(self) -> int:
        return sum(pipe.capture.total_bytes for pipe in self._pipes)

    def _drain(self, watch: _Watch) -> None:
        """Read what is there and what still arrives at once; somebody who holds the pipe open is not waited for."""
        until = time.monotonic() + _DRAIN_MAX_S
        while watch.is_reading and time.monotonic() < until:
            before = self._total_bytes()
            watch.turn(_QUIET_S)
            if self._total_bytes() == before and watch.is_reading:
                return

    def _finished(self, exit_code: int | None, signal_number: int | None) -> Finished:
        still_open = [pipe.take_read_end() for pipe in self._pipes if pipe.is_open]
        if still_open:
            drain_unread(still_open)
        kept = [pipe.capture.finish() for pipe in self._pipes]
        return Finished(
            end=self._end,
            exit_code=exit_code,
            signal=signal_number,
            output=kept[0],
            errors=kept[1] if len(kept) > 1 else None,
            duration_s=time.monotonic() - self._started_at,
            leftover=Leftover(self._mark) if still_open else None,
        )


class _Watch:
    """Waits for whatever comes first: output, the end of the leader, a wake-up from another thread."""

    def __init__(self, process: subprocess.Popen[bytes], pipes: list[OutputPipe]) -> None:
        self._process = process
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._pid_fd = _open_pid(process.pid)
        self._pipes = pipes
        self._lock = threading.RLock()
        self._is_closed = False
        self.has_ended = False

    def __enter__(self) -> _Watch:
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._woken)
        if self._pid_fd is not None:
            self._selector.register(self._pid_fd, selectors.EVENT_READ, self._ended)
        for pipe in self._pipes:
            self._selector.register(pipe.read_fd, selectors.EVENT_READ, pipe)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        with self._lock:
            for fd in (self._wake_read, self._wake_write, self._pid_fd):
                if fd is not None:
                    os.close(fd)
            self._is_closed = True

    @property
    def is_reading(self) -> bool:
        """False once every pipe has come to its end."""
        return any(pipe.is_open for pipe in self._pipes)

    def wake(self) -> None:
        """End the current turn; from any thread."""
        with self._lock, suppress(BlockingIOError):
            if not self._is_closed:  # a signal may be on its way here when its undo is called
                os.write(self._wake_write, b"!")

    def turn(self, timeout_s: float | None) -> None:
        """Sleep until something comes or the timeout, then take it."""
        if self._pid_fd is None and not self.has_ended:
            timeout_s = _POLL_S if timeout_s is None else min(_POLL_S, timeout_s)
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, OutputPipe):
                self._read(key.fd, key.data)
            else:
                call: Callable[[], None] = key.data
                call()
        if self._pid_fd is None and not self.has_ended:
            self.has_ended = _has_ended(self._process)

    def _read(self, fd: int, pipe: OutputPipe) -> None:
        if not pipe.pump():
            self._selector.unregister(fd)
            pipe.close()

    def _woken(self) -> None:
        self._selector.unregister(self._wake_read)

    def _ended(self) -> None:
        self.has_ended = True
        if self._pid_fd is not None:
            self._selector.unregister(self._pid_fd)


@contextmanager
def _input(data: bytes | None) -> Iterator[int]:
    """Yield what a command reads on stdin: a file without a name, so that nobody waits for its reader."""
    if data is None:
        yield subprocess.DEVNULL
        return
    with _nameless() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _nameless() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("input"), "w+b")
    from tempfile import TemporaryFile  # where memory cannot be a file

    return TemporaryFile()


def _open_pid(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, or None where there are none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _status(process: subprocess.Popen[bytes]) -> tuple[int | None, int | None]:
    """Return exit code and signal of a leader that has ended, where possible without fetching them for good.

    Both are None when it has not ended after all, or when the host process ignores its children's ends and the
    system has thrown the status away.
    """
    if not hasattr(os, "waitid"):  # older Pythons on macOS: there the status can only be fetched
        code = process.poll()
        return (None, None) if code is None else (code, None) if code >= 0 else (None, -code)
    try:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None, None
    if found is None:
        return None, None
    return (found.si_status, None) if found.si_code == os.CLD_EXITED else (None, found.si_status)
