"""What a session knows of its background jobs: which there are, whose end was told, who was asked about last.

Floor: 3. Owns: the jobs' folder and files as the model sees them, and that an end is told once; never: a tool's answer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from plait.core.clock import Clock, SystemClock
from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.tools.kept_commands import JOBS
from plait.tools.shell import TIMED_OUT
from plait.tools.spill import Spill

if TYPE_CHECKING:
    from plait.hands.activity import Activity
    from plait.hands.jobs import Job, Jobs, JobState

OUTPUTS: Final[Mapping[str, str]] = {"stdout": "out", "stderr": "err"}
"""What the model calls a job's outputs, and their files in its entry."""
KEPT_MAX: Final = 64
"""So many completed jobs are kept, the newest; older ones go with their files."""
_COMMAND_CHARS: Final = 500
_UNSEEN: Final = {code: "\ufffd" for code in (*range(32), 127) if chr(code) not in "\t\n\r\x1b"}
"""What no program prints for a reader: as JSON it would be six times as long."""

Completion = dict[str, object]
"""What is told of a job that is over."""


@dataclass(eq=False)
class Board:
    """The background jobs of one session. Safe in any thread."""

    spill: Spill
    clock: Clock = field(default_factory=SystemClock)
    interrupt: Callable[[], bool] | None = None
    """Asked while a wait goes on; True ends it. The job runs on."""
    default_interrupt: Callable[[], bool] | None = None
    """Asked where there is no hook of its own."""
    ended: Callable[[Job], Mapping[str, object]] = lambda _: {}
    """What is told of a job that is over besides how it ended."""
    is_kept: bool = False
    """The jobs are in a session's own folder, where a later process finds them."""
    is_taken_over: bool = False
    """True once a job was begun or looked after here; before that, what an earlier process has left is not ours."""
    _folder: str | None = None
    _jobs: Jobs | None = None
    _remove: weakref.finalize[..., Any] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _told: set[str] = field(default_factory=set)
    _asked: str = ""
    """The running job whose state was told last, by a query and nothing since."""
    _seen: dict[str, tuple[Activity, float]] = field(default_factory=dict)
    """What a job had done when that was last told, and when that was."""

    def keep_in(self, spool: str | os.PathLike[str]) -> None:
        """Keep jobs in a session's spool; before any has run."""
        self._folder, self.is_kept = os.path.join(spool, JOBS), True

    @property
    def jobs(self) -> Jobs:
        """The jobs; in a temporary folder where no session keeps them."""
        with self._lock:
            if self._jobs is None:
                if self._folder is None:
                    self._folder = tempfile.mkdtemp(prefix="plait-jobs-")
                    self._remove = remove = weakref.finalize(self, shutil.rmtree, self._folder, True)
                    remove.atexit = False  # whoever closes this at the end still needs the records
                from plait.hands.jobs import Jobs  # most sessions have none

                self._jobs = Jobs(self._folder)
            self.is_taken_over = True
            return self._jobs

    @property
    def has_any(self) -> bool:
        """Say whether there may be jobs at all; nothing is made to find out."""
        return self._jobs is not None or (self._folder is not None and os.path.isdir(self._folder))

    def job(self, id: str) -> Job:
        """Return the job of an id. Raises `Refusal`."""
        found = self.jobs.find(id) if self.has_any else None
        if found is None:
            raise Refusal(
                "NOT_FOUND",
                f"no background job here has the id {id!r}",
                hint="use a tool_exec_id that nohup returned",
            )
        return found

    def is_interrupted(self) -> bool:
        """Say whether somebody wants a wait to end."""
        hook = self.interrupt or self.default_interrupt
        return hook is not None and bool(hook())

    # What was told

    def tell(self, ids: Iterable[str]) -> None:
        """Remember that the ends of these jobs were told."""
        with self._lock:
            self._told.update(ids)

    def untold(self, *, but: str = "") -> list[Job]:
        """Return the jobs that are over and whose end was not told, the oldest first."""
        if not self.has_any:
            return []
        with self._lock:
            told = set(self._told)
        return [job for job in self.jobs.all() if job.id not in told and job.id != but and job.state().phase == "over"]

    def take_untold(self, *, but: str = "", most: int = KEPT_MAX) -> list[Completion]:
        """Return what is to be told of them, and count it as told."""
        with self._lock:
            jobs = self.untold(but=but)[:most]
            self.tell(job.id for job in jobs)
        return [self.completion(job) for job in jobs]

    def asks_again(self, job: Job) -> bool:
        """Say whether this running job was the last thing that was looked at, and note that it is now."""
        with self._lock:
            is_again, self._asked = self._asked == job.id, job.id
            return is_again

    def looked_elsewhere(self) -> None:
        """Note that something else was looked at, or begun."""
        with self._lock:
            self._asked = ""

    # What a job is told as

    def times(self, job: Job, state: JobState) -> dict[str, object]:
        """Return when a job began, or will."""
        if state.phase == "scheduled" and state.due_at is not None:
            left_s = max(0.0, state.due_at - self.clock.now_ms() / 1_000)
            return {"scheduled_for": shown_time(state.due_at), "starts_in_seconds": round(left_s, 1)}
        return {"pid": state.pid, "started_at": shown_time(state.started_at or job.terms.made_at)}

    def files(self, job: Job) -> dict[str, object]:
        """Return where a job reads and writes."""
        return {
            "stdin_localfile": job.input_path,
            **{f"{stream}_localfile": self.path(job, stream) for stream in OUTPUTS},
        }

    def path(self, job: Job, stream: str) -> str:
        """Return the file of an output: among the kept outputs, where `read_file` finds it, or else in the entry."""
        kept = self._link(job, stream)
        return kept if kept is not None and os.path.exists(kept) else job.entry.path(OUTPUTS[stream])

    def link(self, job: Job) -> None:
        """Give the files of a job their places among the kept outputs."""
        for stream in OUTPUTS:
            kept = self._link(job, stream)
            if kept is not None:
                with suppress(OSError):
                    os.link(job.entry.path(OUTPUTS[stream]), kept)

    def size_bytes(self, job: Job, stream: str) -> int:
        """Return how much is in the file of an output."""
        try:
            return os.stat(job.entry.path(OUTPUTS[stream])).st_size
        except OSError:
            return 0

    def part(self, job: Job, stream: str, start: int, size_bytes: int) -> str:
        """Return a part of an output as text."""
        text = job.entry.part(OUTPUTS[stream], max(0, start), size_bytes).decode("utf-8", "replace")
        return text.translate(_UNSEEN)

    def completion(self, job: Job) -> Completion:
        """Return what is told of a job that has ended while nobody waited for it."""
        state = job.state()
        return {
            "tool_exec_id": job.id,
            **ending(state),
            **self.ended(job),
            "command": shown_command(job),
            "stdout_localfile": self.path(job, "stdout"),
            "stderr_localfile": self.path(job, "stderr"),
        }

    def activity(self, job: Job, state: JobState) -> dict[str, object]:
        """Return what a running job has done since this was last told."""
        from plait.hands.activity import Activity, activity_of

        now_s, done = self.clock.monotonic_s(), activity_of(job.processes())
        began_s = now_s - max(0.0, self.clock.now_ms() / 1_000 - (state.started_at or 0))
        with self._lock:
            before, then_s = self._seen.get(job.id, (Activity(), began_s))
            self._seen[job.id] = (done, now_s)
        more, passed_s = done.since(before), max(0.001, now_s - then_s)
        note = "it has done nothing since the last report: it may be sleeping, or waiting for input or the network"
        return {
            "cpu_seconds": round(more.cpu_s, 2),
            "cpu_percent": round(100 * more.cpu_s / passed_s, 1),
            "io_bytes": dict(more.io_bytes),
            "note": note if more.is_idle else "it is at work",
        }

    # What goes

    def prune(self) -> None:
        """Remove the oldest of the completed jobs, when there are too many."""
        over = [job for job in self.jobs.all() if job.state().phase == "over"]
        for job in over[: max(0, len(over) - KEPT_MAX)]:
            for stream in OUTPUTS:
                kept = self._link(job, stream)
                if kept is not None:
                    with suppress(OSError):
                        os.unlink(kept)
            self.jobs.forget(job)

    def close(self, *, keep_jobs: bool = False) -> None:
        """End what runs, unless it is to go on, and remove what was only temporary."""
        if not self.is_taken_over or not self.has_any:
            return
        self.jobs.close(keep_jobs=keep_jobs)
        if self._remove is not None and not keep_jobs:
            self._remove()
            self._folder = self._jobs = self._remove = None

    def _link(self, job: Job, stream: str) -> str | None:
        return self.spill.path_of(f"job-{job.id}-{stream}.txt")


def shown_command(job: Job) -> str:
    """Return the command of a job, cut where it is long."""
    command = job.terms.command
    return command if len(command) <= _COMMAND_CHARS else f"{command[:_COMMAND_CHARS]}…"


def ending(state: JobState) -> dict[str, object]:
    """Return how a job has ended: `returncode` is minus the signal that ended it, 124 for its time limit."""
    told: dict[str, object] = {"returncode": state.exit_code, "duration_time": state.duration_s}
    if state.end == "timed_out":
        told |= {"returncode": TIMED_OUT, "timed_out": True}
    elif state.signal is not None:
        told |= {"returncode": -state.signal, "signal": state.signal}
    if state.end == "cancelled":
        told["error"] = "it was stopped before it had ended"
    elif state.end == "lost":
        told["error"] = "nobody knows how it ended: its supervisor was killed, or the machine was restarted"
    return told


def shown_time(at_s: float) -> str:
    """Return a time in seconds since 1970 as ISO 8601 with its offset."""
    from datetime import datetime

    return datetime.fromtimestamp(at_s).astimezone().isoformat(timespec="milliseconds")
