"""Background jobs: commands that nobody waits for, started, found again and ended.

Floor: 2. Owns: a session's jobs on disk and who watches over them; never: what is told of one.

A job is an entry of a spool with its terms beside the record, so that another process finds all of it: what was run, by
whom it is watched, what it wrote, how it ended. Its supervisor is told from a stranger by id and start time.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, field, fields
from typing import TYPE_CHECKING, Final, Literal, Self

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.command import Command, Ended, RunOptions
from plait.hands.process import check_argv
from plait.hands.process_tree import Process, Tree, signal_process, stop_marked
from plait.hands.refusals import refusal_from
from plait.hands.spool import Entry, Record, Spool, boot_id, refuse_start

if TYPE_CHECKING:
    from plait.hands.launcher import Launcher, Started

ID_CHARS: Final = 12
"""A job's id is the beginning of its entry's name."""
INPUT: Final = "stdin"
_TERMS: Final = "job"
_TERMS_BYTES_MAX: Final = 4 << 20
_CLAIM_S: Final = 10.0
_LOOK_S: Final = 0.002
_FETCH_S: Final = 1.0
_STOP_S: Final = 3.0
"""How long a supervisor that is told to stop may take: its command has two seconds to end by itself."""
_KEPT_UNTOLD: Final[Mapping[str, Ended]] = {"exited": "exited", "timed_out": "timed_out", "cancelled": "cancelled"}
Phase = Literal["scheduled", "running", "over"]


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What a job was started with, as it is kept."""

    command: str
    cwd: str
    timeout_s: float
    wait_before_s: float
    made_at: float
    """Seconds since 1970."""
    boot: str

    @classmethod
    def read(cls, entry: Entry) -> Self | None:
        """Return the terms in an entry; None where there are none that can be read."""
        try:
            data = json.loads(entry.part(_TERMS, 0, _TERMS_BYTES_MAX))
            return cls(**{known.name: data[known.name] for known in fields(cls)})
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class JobState:
    """How a job stands. Times are seconds since 1970."""

    phase: Phase
    pid: int | None = None
    """Of the command, once it has started."""
    due_at: float | None = None
    """When a scheduled job begins."""
    started_at: float | None = None
    end: Ended | None = None
    """Why it is over. `lost`: whoever watched over it is gone, and nobody knows how it ended."""
    exit_code: int | None = None
    signal: int | None = None
    duration_s: float | None = None

    @classmethod
    def of(cls, record: Record, *, is_held: bool) -> JobState:
        """Read it off a record."""
        pid, started_at = _number(record.started, "pid"), _real(record.started, "at")
        due_at = _real(record.scheduled, "at")
        if record.ended:
            status = _number(record.ended, "status")
            return cls(
                "over",
                pid,
                due_at,
                started_at,
                _KEPT_UNTOLD.get(record.ended.get("end", ""), "lost"),
                None if status is None or status < 0 else status,
                -status if status is not None and status < 0 else None,
                (_number(record.ended, "ms") or 0) / 1_000,
            )
        if not is_held:
            return cls("over", pid, due_at, started_at, "lost")
        return cls("scheduled" if started_at is None and due_at is not None else "running", pid, due_at, started_at)


@dataclass(eq=False)
class Job:
    """One job, in whatever process it was started."""

    entry: Entry
    terms: JobTerms
    _over: JobState | None = None

    @property
    def id(self) -> str:
        """What the model calls it."""
        return self.entry.mark[:ID_CHARS]

    def state(self) -> JobState:
        """Return how it stands now; one that is over stays as it is."""
        if self._over is not None:
            return self._over
        # The lock first: a supervisor that has let it go has written the end before.
        is_held = self.entry.is_held()
        record = self.entry.read()
        state = JobState.of(record, is_held=is_held)
        if state.phase == "over":
            if state.end == "lost":
                # Nobody is left who would end it at its time limit.
                stop_marked(self.entry.mark)
                with suppress(OSError):
                    os.unlink(self.entry.path(INPUT))
            self._over = state
        return state

    def processes(self) -> list[Process]:
        """Return what lives of it, without its supervisor."""
        try:
            supervisor = int(self.entry.read().began["pid"]) if self.entry.is_held() else 0
        except (KeyError, ValueError):
            supervisor = 0
        members = Tree(0, self.entry.mark, supervisor).members()
        return [process for process in members if process.pid != supervisor]

    def stop(self) -> None:
        """Tell its supervisor to end it: exactly that process, never one that has its id since."""
        began = self.entry.read().began
        with suppress(KeyError, ValueError, ProcessLookupError):
            if began["start"]:
                signal_process(int(began["pid"]), int(began["start"]), signal.SIGTERM)
            elif self.entry.is_held():
                # Where processes do not show when they began, the lock says that this one still lives.
                os.kill(int(began["pid"]), signal.SIGTERM)

    @property
    def input_path(self) -> str | None:
        """The FIFO that it reads; None where there is none, or nobody reads it any more."""
        path = self.entry.path(INPUT)
        try:
            return path if stat.S_ISFIFO(os.stat(path, follow_symlinks=False).st_mode) else None
        except OSError:
            return None


@dataclass(eq=False)
class Jobs:
    """The jobs of one session, over the folder in which they are kept. Safe in any thread."""

    folder: str
    boot: str = field(default_factory=boot_id)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _known: dict[str, Job] = field(default_factory=dict)
    _is_read: bool = False
    _supervisors: list[Started] = field(default_factory=list)
    """Those that were started here, until their ends were fetched."""

    @property
    def spool(self) -> Spool:
        """Where the entries are."""
        return Spool(self.folder)

    def start(
        self, name: str, command: str, options: RunOptions, *, wait_before_s: float = 0.0, made_at: float
    ) -> tuple[Job, JobState]:
        """Start a job in the entry of this name, or have it begin later.

        Raises `Refusal` when it cannot be started; nothing is left of it then.
        Durability: it goes on to its own time limit when this process dies, and whoever opens the folder finds it. A
        job that is to begin later begins then, too.
        """
        if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
            raise Refusal("UNSUPPORTED_PLATFORM", "background jobs run on Linux and macOS only", hint="use exec_shell")
        from plait.hands import job_supervisor, supervised  # their modules exist on POSIX only

        assert INPUT.encode() == job_supervisor.INPUT  # importing it is what has it compiled
        entry, line = self.spool.entry(name), Command.shell(command)
        check_argv(line)
        terms = JobTerms(command, options.cwd, options.timeout_s or 0, wait_before_s, made_at, self.boot)
        order = supervised.order_of(options.fenced(line).argv, options, entry, job_delay_s=wait_before_s)
        try:
            self.spool.prepare()
            entry.make()
        except OSError as error:
            raise refusal_from(error, entry.folder, "run a command with") from error
        try:
            _make_input(entry)
            _write_terms(entry, terms)
            started = self._launcher().start_apart()
            with self._lock:
                self._supervisors.append(started)
            started.order(order)
            record = _claimed(entry, started)
            started.let_go()
            refuse_start(record, "the command", options.cwd)
        except OSError as error:
            entry.remove()
            raise refusal_from(error, entry.folder, "run a command with") from error
        except Refusal:
            entry.remove()
            raise
        job = Job(entry, terms)
        with self._lock:
            self._known[name] = job
        return job, job.state()

    def all(self) -> list[Job]:
        """Return every job, the oldest first; those of earlier processes are found on disk."""
        self._fetch()
        with self._lock:
            if not self._is_read:
                self._is_read = True
                for name in self.spool.names():
                    self._adopt(name)
            return sorted(self._known.values(), key=lambda job: job.terms.made_at)

    def find(self, id: str) -> Job | None:
        """Return the job of this id."""
        return next((job for job in self.all() if id in (job.id, job.entry.mark)), None)

    def adopt(self, name: str) -> Job | None:
        """Return the job in an entry that an earlier process made, None where none was begun there."""
        with self._lock:
            return self._adopt(name)

    def forget(self, job: Job) -> None:
        """Remove a job that is over, with its files."""
        with self._lock:
            self._known.pop(job.entry.mark, None)
        job.entry.remove()

    def close(self, *, keep_jobs: bool = False) -> None:
        """End all jobs with everything that they have left, unless they are to go on. May be called twice."""
        if not keep_jobs:
            self._stop_all()
        self._fetch()
        with self._lock:
            left, self._supervisors = self._supervisors, []
        for started in left:
            if not keep_jobs and started.fetch(_FETCH_S):
                continue
            # Somebody has to fetch its end, however late it comes; nobody, once the interpreter ends.
            with suppress(RuntimeError):
                threading.Thread(target=started.fetch, args=(None,), name="plait-job", daemon=True).start()

    def _stop_all(self) -> None:
        running = [job for job in self.all() if job.state().phase != "over"]
        for job in running:
            job.stop()
        deadline = time.monotonic() + _STOP_S
        while any(job.state().phase != "over" for job in running) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        # What jobs that have ended left running is known by the mark of all of them, and so is what does not obey.
        if os.path.isdir(self.folder):
            stop_marked(self.spool.mark, 0.5)

    def _adopt(self, name: str) -> Job | None:
        if name not in self._known:
            entry = self.spool.entry(name)
            record, terms = entry.read(), JobTerms.read(entry)
            if terms is None or record.is_withdrawn or not (record.began or entry.is_held()):
                return None
            self._known[name] = Job(entry, terms)
        return self._known[name]

    def _launcher(self) -> Launcher:
        from plait.hands.launcher import Launcher

        return Launcher(self.spool.mark)

    def _fetch(self) -> None:
        """Fetch the ends of supervisors that are done."""
        with self._lock:
            self._supervisors = [started for started in self._supervisors if not started.fetch(0)]


def _claimed(entry: Entry, started: Started) -> Record:
    """Wait until a supervisor has begun with its order, and return what it says."""
    deadline = time.monotonic() + _CLAIM_S
    while True:
        has_gone = started.fetch(0)
        record = entry.read()
        if record.started or record.scheduled or record.ended:
            return record
        if has_gone or time.monotonic() > deadline:
            started.kill()
            stop_marked(entry.mark)
            raise Refusal(
                "INTERNAL_SERVER_ERROR", "the job was not started: its supervisor ended before", hint="try again"
            )
        time.sleep(_LOOK_S)


def _make_input(entry: Entry) -> None:
    """Make the FIFO through which a job is written to; without one it has no input."""
    with suppress(OSError, AttributeError):
        os.mkfifo(entry.path(INPUT), 0o600)


def _write_terms(entry: Entry, terms: JobTerms) -> None:
    """Keep the terms, whole or not at all."""
    path = entry.path(_TERMS)
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", errors="surrogatepass") as file:
        json.dump(asdict(terms), file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


def _number(words: Mapping[str, str], name: str) -> int | None:
    try:
        return int(words.get(name, ""))
    except ValueError:
        return None


def _real(words: Mapping[str, str], name: str) -> float | None:
    try:
        return float(words.get(name, ""))
    except ValueError:
        return None
