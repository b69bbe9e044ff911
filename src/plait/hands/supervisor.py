"""Sees one command through to its end, whatever becomes of plait; a program of its own: `python -I -S supervisor.py`.

Floor: 2. Owns: the command's processes, its time limit, its output and the record of its end; never: a module of plait
(it is started for every command, and has to be quick), except `process_tree` when something has to be stopped and
`job_supervisor` when the order is for a background job.

Its standard input is one order (`hands.supervised` writes it), its standard output a bell: `.` for output, `!` for the
end. Nobody needs to listen. Everything that counts is in the entry's folder:

- `record`: `began …` before the command starts, `ended …` after, `safe` when both and the output are on disk. It is
  locked while this program lives. One that is not empty belongs to somebody else, and nothing is run.
- `out` and `err`: the output from its beginning, as much as the order keeps; `out.tail` and `err.tail`: the last bytes,
  when not all was kept.

TERM stops the command and all it has started: TERM, the grace, KILL. So does the time limit.
"""

from __future__ import annotations

import os
import select
import sys
import time
from _signal import (  # type: ignore[import-not-found]  # `signal` itself takes as long to import as all the rest
    SIG_DFL,
    SIGCHLD,
    SIGPIPE,
    SIGTERM,
    SIGXFSZ,
    set_wakeup_fd,
    signal,
)

_READ_BYTES = 256 * 1024
_POLL_S = 0.02
_QUIET_S = 0.05
_DRAIN_MAX_S = 0.5
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LIVES_WITH_CHILD = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "waitid") else 0
_NAP_MAX_S = 86_400.0
"""No wait is longer: `select` does not take every number."""
FIELDS = 12
"""Fields of an order before the arguments and the environment of the command."""


class Order:
    """What is to be run: fields that end with NUL, and before them how many bytes they are."""

    def __init__(self, data: bytes) -> None:
        size, _, body = data.partition(b"\0")
        if len(body) != int(size):
            raise ValueError("the order is not whole")
        fields = body.split(b"\0")[:-1]
        self.entry, self.cwd, timeout_s, grace_s, kept, tail, separates, kills, most, job, self.mark, count = fields[
            :FIELDS
        ]
        self.timeout_s, self.grace_s = float(timeout_s), float(grace_s)
        self.kept_max, self.tail_max = int(kept), int(tail)
        self.separates_errors = separates == b"1"
        self.kills_leftovers = kills == b"1"
        """What the command leaves behind dies with it, before its last output is read."""
        self.output_max = int(most or 0)
        """The command is stopped when it has written more bytes than this; 0 is no limit."""
        self.is_job = job != b""
        """A background job: it may begin later, takes input, and lives apart from whoever ordered it."""
        self.delay_s = float(job or 0)
        end = FIELDS + int(count)
        self.argv = fields[FIELDS:end]
        self.environment = dict(variable.split(b"=", 1) for variable in fields[end:])


class Output:
    """One stream of the command: its pipe, the file that takes its beginning, and its last bytes."""

    def __init__(self, path: bytes, kept_max: int, tail_max: int) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.path = path
        self.file_fds = [_create(path)]
        self.total = self.kept = 0
        self._kept_max, self._tail_max = kept_max, tail_max
        self._tail = bytearray()
        self._has_room = True

    def pump(self) -> bool:
        """Take what is there; say whether the pipe goes on."""
        try:
            data = os.read(self.read_fd, _READ_BYTES)
        except BlockingIOError:
            return True
        self.total += len(data)
        self._keep(data)
        self._tail += data
        if len(self._tail) > 2 * self._tail_max:
            del self._tail[: len(self._tail) - self._tail_max]
        return bool(data)

    def close_pipe(self) -> None:
        """Let go of the pipe."""
        os.close(self.read_fd)
        self.read_fd = -1

    def finish(self) -> None:
        """Write the last bytes down, when they are not in the file."""
        if self.kept == self.total or not self._tail_max:
            return
        try:
            self.file_fds.append(_create(self.path + b".tail"))
            _write(self.file_fds[-1], bytes(self._tail[-self._tail_max :]))
        except OSError:
            pass  # a full disk may not cost the command its end

    def _keep(self, data: bytes) -> None:
        room = self._kept_max - self.kept
        if not self._has_room or not data:
            return
        self._has_room = len(data) <= room
        try:
            self.kept += _write(self.file_fds[0], data[:room])
        except OSError:
            self.kept = os.fstat(self.file_fds[0]).st_size
            self._has_room = False


class Job:
    """The command of one order, from its claim to its end."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._input_fd = -1
        """What the command reads; nothing unless there is one."""
        self._wake_fd, wake_write = os.pipe()
        os.set_blocking(self._wake_fd, False)
        os.set_blocking(wake_write, False)
        self._is_told = False
        signal(SIGCHLD, self._wake)
        signal(SIGTERM, self._told)
        set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._record_fd = -1
        self._outputs: list[Output] = []
        self._child = 0
        self._status = ""
        self._has_ended = False
        self._end = "exited"
        self._failed = (0, "")
        self._began_s = time.monotonic()
        self._kill_at: float | None = None
        """When the tree is killed; set once it has been asked to end."""
        self._tree: object | None = None

    def run(self) -> None:
        """Claim the entry, run the command, and leave what came of it; nothing when the entry is somebody else's."""
        if not self._claim():
            return
        try:
            self._start()
        except OSError as error:
            self._failed = (error.errno or 0, "start")
        if self._child:
            self._see_through()
        for output in self._outputs:
            output.finish()
        self._note(self._ending())
        self._ring(b"!")
        self._make_safe()
        self._afterwards()

    def _claim(self) -> bool:
        fd = os.open(self._order.entry + b"/record", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(fd, 0o600)
        try:
            os.lockf(fd, os.F_TLOCK, 0)
        except OSError:
            return False
        if os.read(fd, 1):
            return False
        self._record_fd = fd
        self._note(f"began pid={os.getpid()} start={_start_time()} session={os.getsid(0)} at={self._began_s:.3f}")
        return True

    def _start(self) -> None:
        if self._is_told:
            self._end = "cancelled"
            return
        self._open_outputs(Output)
        self._fork()

    def _open_outputs(self, kind: type[Output]) -> None:
        order = self._order
        for name in (b"out", b"err") if order.separates_errors else (b"out",):
            self._outputs.append(kind(order.entry + b"/" + name, order.kept_max, order.tail_max))

    def _fork(self) -> None:
        report_read, report_write = os.pipe()
        child = os.fork()
        if child == 0:
            self._become_command(report_write)
        os.close(report_write)
        for output in self._outputs:
            os.close(output.write_fd)
        report = os.read(report_read, 64).decode()
        os.close(report_read)
        if report:
            os.waitpid(child, 0)
            number, _, what = report.partition(" ")
            self._failed = (int(number), what)
            return
        self._child = child

    def _become_command(self, report_fd: int) -> None:
        what = "cwd"
        try:
            os.setsid()
            signal(SIGPIPE, SIG_DFL)
            signal(SIGXFSZ, SIG_DFL)
            if self._input_fd >= 0:
                os.dup2(self._input_fd, 0)
            os.dup2(self._outputs[0].write_fd, 1)
            os.dup2(self._outputs[-1].write_fd, 2)
            os.chdir(self._order.cwd)
            what = "argv"
            os.execve(self._order.argv[0], self._order.argv, self._order.environment)
        except OSError as error:
            os.write(report_fd, f"{error.errno} {what}".encode())
        finally:
            os._exit(127)

    def _see_through(self) -> None:
        while not self._is_over():
            self._turn(self._patience())
            self._look()
        if self._end != "exited" or self._order.kills_leftovers:
            self._find_tree().kill()  # type: ignore[attr-defined]
            self._look()
        if self._has_ended and _LIVES_WITH_CHILD:
            self._status = str(os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1]))
        until = time.monotonic() + _DRAIN_MAX_S
        while any(output.read_fd >= 0 for output in self._outputs) and time.monotonic() < until:
            before = sum(output.total for output in self._outputs)
            self._turn(_QUIET_S)
            if before == sum(output.total for output in self._outputs):
                break

    def _is_over(self) -> bool:
        if self._kill_at is None:
            if self._has_ended:
                return True
            reason = self._reason_to_stop()
            if not reason:
                return False
            self._end = reason
            self._kill_at = time.monotonic() + self._order.grace_s
            if self._order.grace_s > 0:
                self._find_tree().terminate()  # type: ignore[attr-defined]
        if time.monotonic() >= self._kill_at:
            return True
        return self._has_ended and not self._find_tree().members()  # type: ignore[attr-defined]

    def _reason_to_stop(self) -> str:
        if self._is_told:
            return "cancelled"
        most = self._order.output_max
        if most and sum(output.total for output in self._outputs) > most:
            return "overflowed"
        return "" if time.monotonic() < self._began_s + self._order.timeout_s else "timed_out"

    def _patience(self) -> float:
        if self._kill_at is not None:
            return max(0.0, min(_POLL_S, self._kill_at - time.monotonic()))
        return max(0.0, min(_NAP_MAX_S, self._began_s + self._order.timeout_s - time.monotonic()))

    def _turn(self, timeout_s: float) -> None:
        """Sleep until something comes or the timeout, then take it."""
        waiting = {output.read_fd: output for output in self._outputs if output.read_fd >= 0}
        more, full = self._input_fds()
        ready, free, _ = select.select([self._wake_fd, *waiting, *more], full, [], timeout_s)
        for fd in ready:
            if fd == self._wake_fd:
                os.read(fd, _READ_BYTES)
            elif fd in waiting and not waiting[fd].pump():
                waiting[fd].close_pipe()
        if free or any(fd in more for fd in ready):
            self._feed()
        if any(fd in waiting for fd in ready):
            self._ring(b".")

    def _input_fds(self) -> tuple[list[int], list[int]]:
        """Return what input comes from, and what waits until there is room for it."""
        return [], []

    def _feed(self) -> None:
        """Hand input on."""

    def _look(self) -> None:
        """See whether the command has ended, leaving its id taken where that can be: signals to its group are safe."""
        if self._has_ended:
            return
        if _LIVES_WITH_CHILD:
            self._has_ended = os.waitid(os.P_PID, self._child, _LIVES_WITH_CHILD) is not None
            return
        pid, status = os.waitpid(self._child, os.WNOHANG)
        if pid:
            self._has_ended, self._status = True, str(os.waitstatus_to_exitcode(status))

    def _find_tree(self) -> object:
        if self._tree is None:
            # Beside this file; at the end of the path, so that it takes no place of the standard library's.
            sys.path.append(os.path.dirname(os.path.abspath(__file__)))
            module = __import__("process_tree")
            self._tree = module.Tree(self._child, self._order.mark.decode())
        return self._tree

    def _ending(self) -> str:
        fields = [f"ended end={self._end} status={self._status} ms={round((time.monotonic() - self._began_s) * 1000)}"]
        if self._failed[1]:
            fields.append(f"errno={self._failed[0]} failed={self._failed[1]}")
        fields += [
            f"{name}={output.total}:{output.kept}:{int(output.read_fd >= 0)}"
            for name, output in zip(("out", "err"), self._outputs, strict=False)
        ]
        return " ".join(fields)

    def _note(self, line: str) -> None:
        try:
            os.write(self._record_fd, f"{line}\n".encode())
        except OSError:
            pass  # whoever waits sees that this program has gone, and that nobody knows the end

    def _make_safe(self) -> None:
        try:
            for fd in [fd for output in self._outputs for fd in output.file_fds]:
                os.fsync(fd)
            os.fsync(self._record_fd)
            self._note("safe")
            os.fsync(self._record_fd)
            folder = os.open(self._order.entry, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(folder)
        except OSError:
            pass  # it is what a power loss would leave, and told like one

    def _afterwards(self) -> None:
        """Do what is left to do once everything is on disk."""
        if any(output.read_fd >= 0 for output in self._outputs):
            self._leave_reader()

    def _leave_reader(self) -> None:
        """Leave a process that reads what still comes and forgets it, so that whoever was left running may go on."""
        if os.fork():
            return
        signal(SIGTERM, SIG_DFL)
        os.dup2(0, 1)
        fds = [output.read_fd for output in self._outputs if output.read_fd >= 0]
        while fds:
            for fd in select.select(fds, [], [])[0]:
                try:
                    ended = not os.read(fd, _READ_BYTES)
                except BlockingIOError:
                    continue
                if ended:
                    fds.remove(fd)

    def _ring(self, bell: bytes) -> None:
        try:
            os.write(1, bell)
        except OSError:
            pass  # nobody listens, or has not listened yet to what came before

    def _wake(self, *_: object) -> None:
        """Take the signal in; what wakes the loop is the byte that the interpreter writes."""

    def _told(self, *_: object) -> None:
        self._is_told = True


def _create(path: bytes) -> int:
    fd = os.open(path, _NEW, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def _write(fd: int, data: bytes) -> int:
    written = 0
    while written < len(data):
        written += os.write(fd, data[written:])
    return written


def _start_time() -> str:
    """When this process began, in clock ticks since boot; empty where there is no /proc."""
    try:
        with open("/proc/self/stat", "rb") as file:
            text = file.read()
    except OSError:
        return ""
    return text[text.rindex(b")") + 2 :].split()[19].decode()


def main() -> None:
    """Read the order and see it through; an order that is not whole is none."""
    data = bytearray()
    while piece := os.read(0, _READ_BYTES):
        data += piece
    try:
        order = Order(bytes(data))
    except ValueError:
        return
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.set_blocking(1, False)
    kind: type[Job] = Job
    if order.is_job:
        kind = __import__("job_supervisor").KeptJob
    kind(order).run()
    os._exit(0)


if __name__ == "__main__":
    main()
