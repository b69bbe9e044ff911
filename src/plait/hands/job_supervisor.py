"""Sees one background job through to its end: what `supervisor` does for a command, and what only a job needs.

Floor: 2. Owns: a job's start, its input, its files and what it leaves running; never: a module of plait.

`supervisor` loads it beside itself when its order is for a job. What is different:

- The job begins when its time has come: `scheduled at=…` stands in the record before that, `started pid=… at=…` once it
  runs. Its time limit counts from there.
- Its input is the FIFO `stdin`. Any number of writers may come and go; the input ends when one that wrote the character
  04 last (Ctrl-D in a terminal) closes it. What comes after that is read and forgotten, so that no writer waits.
- A file that is full goes on: its beginning stays, and behind it stand, a moment old at most, the last bytes.
- It is the parent of whatever its command leaves behind (a subreaper, on Linux), however far that has run away. Once
  the command has ended, this program stays until nothing of it lives, and ends what still does at the time limit.
"""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing

if TYPE_CHECKING or __package__:
    from plait.hands.supervisor import Job, Order, Output
else:  # a program of its own, where plait cannot be imported
    from supervisor import Job, Order, Output

END = b"\x04"
"""What a writer ends the input with."""
INPUT = b"stdin"
_READ_BYTES = 64 * 1024
_ROUNDS = 16
_REFRESH_S = 0.25
_HELD_S = 0.2
_STOP_GRACE_S = 2.0
_SET_CHILD_SUBREAPER = 36


class KeptOutput(Output):
    """An output whose file shows its last bytes too, behind the first ones, when it is full."""

    def finish(self) -> None:
        """Write the last bytes down, when they are not in the file."""
        self.refresh()

    @property
    def is_full(self) -> bool:
        """Say whether there is more than the beginning."""
        return self.kept != self.total

    def refresh(self) -> None:
        """Put the last bytes, as they are now, behind the beginning."""
        if not self.is_full:
            return
        tail = bytes(self._tail[-self._tail_max :]) if self._tail_max else b""
        left_out = self.total - len(tail) - self.kept
        if left_out < 0:
            tail, left_out = tail[-left_out:], 0
        data = (b"\n[... %d bytes left out ...]\n" % left_out if left_out else b"") + tail
        try:
            os.lseek(self.file_fds[0], self.kept, os.SEEK_SET)
            while data:
                data = data[os.write(self.file_fds[0], data) :]
            os.ftruncate(self.file_fds[0], os.lseek(self.file_fds[0], 0, os.SEEK_CUR))
        except OSError:
            pass  # a full disk may not cost the job its end


class Input:
    """The way from the FIFO, where writers come and go, to the command, which sees one stream."""

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._fifo_fd = _open_fifo(path)
        self._pending = b""
        self.is_held = False
        """The last byte that came is `END`, and its writer is still there."""
        self.read_fd, self._write_fd = -1, -1
        if self._fifo_fd >= 0:
            self.read_fd, self._write_fd = os.pipe()
            os.set_blocking(self._write_fd, False)

    def fds(self) -> tuple[list[int], list[int]]:
        """Return what has to be readable, and what writable, for anything to move."""
        if self._fifo_fd < 0:
            return [], []
        return ([], [self._write_fd]) if self._pending else ([self._fifo_fd], [])

    def feed(self) -> None:
        """Hand on what is there, as far as the command takes it."""
        for _ in range(_ROUNDS):
            self._push()
            if self._pending or self._fifo_fd < 0:
                return
            try:
                data = os.read(self._fifo_fd, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._all_have_gone()
                return
            data = END + data if self.is_held else data
            self.is_held = data.endswith(END)
            self._pending = data[:-1] if self.is_held else data

    def begin(self) -> None:
        """Leave the reading end to the command, which has it by now."""
        if self.read_fd >= 0:
            os.close(self.read_fd)

    def close(self) -> None:
        """Take the FIFO away: there is nobody left to read it."""
        self._end()
        if self._fifo_fd >= 0:
            os.close(self._fifo_fd)
            self._fifo_fd = -1
        try:
            os.unlink(self._path)
        except OSError:
            pass  # it is gone, or the folder is

    def _push(self) -> None:
        if self._write_fd < 0:
            self._pending = b""
        elif self._pending:
            try:
                self._pending = self._pending[os.write(self._write_fd, self._pending) :]
            except BlockingIOError:
                return
            except OSError:
                self._end()  # the command reads no more

    def _all_have_gone(self) -> None:
        if self.is_held:
            self._end()
        # Until it is opened anew, a FIFO without writers is readable all the time.
        fresh = _open_fifo(self._path)
        os.close(self._fifo_fd)
        self._fifo_fd = fresh

    def _end(self) -> None:
        self._pending, self.is_held = b"", False
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1


class KeptJob(Job):
    """The job of one order, from its claim to the end of whatever it has started."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._is_reaper = _become_reaper()
        self._input = Input(order.entry + b"/" + INPUT)
        self._refresh_at = 0.0

    def _start(self) -> None:
        self._open_outputs(KeptOutput)
        due_s = time.monotonic() + self._order.delay_s
        if self._order.delay_s > 0:
            self._note(f"scheduled at={time.time() + self._order.delay_s:.3f}")
        while not self._is_told and time.monotonic() < due_s:
            self._turn(due_s - time.monotonic())
        if self._is_told:
            self._end = "cancelled"
            return
        self._began_s = time.monotonic()
        self._input_fd = self._input.read_fd
        self._fork()
        self._input.begin()
        if self._child:
            self._note(f"started pid={self._child} at={time.time():.3f}")

    def _turn(self, timeout_s: float) -> None:
        full = [output for output in self._outputs if isinstance(output, KeptOutput) and output.is_full]
        if full:
            timeout_s = min(timeout_s, max(0.0, self._refresh_at - time.monotonic()))
        super()._turn(min(timeout_s, _HELD_S) if self._input.is_held else timeout_s)
        if self._input.is_held:
            self._input.feed()  # that a writer has gone does not always show
        if full and time.monotonic() >= self._refresh_at:
            self._refresh_at = time.monotonic() + _REFRESH_S
            for output in full:
                output.refresh()

    def _input_fds(self) -> tuple[list[int], list[int]]:
        return self._input.fds()

    def _feed(self) -> None:
        self._input.feed()

    def _look(self) -> None:
        super()._look()
        self._reap()

    def _find_tree(self) -> object:
        if self._tree is None:
            found = super()._find_tree()
            reaper = os.getpid() if self._is_reaper else 0
            # Its id may belong to another process once its end was fetched.
            leader = 0 if self._status else self._child
            self._tree = type(found)(leader, self._order.mark.decode(), reaper)  # type: ignore[call-arg]
        return self._tree

    def _make_safe(self) -> None:
        self._input.close()
        super()._make_safe()

    def _afterwards(self) -> None:
        """Stay until nothing lives of what the command has left, and end it at the time limit or when told."""
        if not self._is_reaper:
            super()._afterwards()
            return
        os.close(self._record_fd)  # and with it the lock: nothing more will be written there
        self._record_fd = -1
        os.dup2(0, 1)
        self._child, self._tree = 0, None
        limit_s = self._began_s + self._order.timeout_s
        while self._has_children() and not self._is_told and time.monotonic() < limit_s:
            self._turn(self._patience())
        if self._has_children():
            self._end_leftovers()

    def _end_leftovers(self) -> None:
        tree = self._find_tree()
        tree.terminate()  # type: ignore[attr-defined]
        kill_at = time.monotonic() + self._order.grace_s
        while self._has_children() and time.monotonic() < kill_at:
            self._turn(min(0.02, max(0.0, kill_at - time.monotonic())))
        tree.kill()  # type: ignore[attr-defined]

    def _has_children(self) -> bool:
        self._reap()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _reap(self) -> None:
        """Fetch the ends of processes that were left behind; the command's own stays, to keep its id taken."""
        while self._is_reaper:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid == self._child:
                return
            os.waitpid(found.si_pid, 0)

    def _told(self, *_: object) -> None:
        super()._told()
        # Whoever says so is leaving, and does not wait as long as a time limit does.
        self._order.grace_s = min(self._order.grace_s, _STOP_GRACE_S)
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, time.monotonic() + self._order.grace_s)


def _open_fifo(path: bytes) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1


def _become_reaper() -> bool:
    """Become the parent of orphans below this process; say whether that can be."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        return hasattr(os, "waitid") and not libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return False
