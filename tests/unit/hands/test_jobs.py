"""Background jobs: real processes, their input, their output, their deadlines, and who finds them afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import Refusal
from plait.hands.activity import activity_of
from plait.hands.capture import CaptureLimits
from plait.hands.command import RunOptions
from plait.hands.jobs import Job, Jobs, JobState
from plait.hands.process_tree import stop_marked
from tests.unit.hands.ground import python_environment
from tests.unit.hands.test_supervised import carries, is_alive, wait_for


class Place:
    """A workspace and the jobs of one session over it, seen by as many processes as want to."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.jobs = Jobs(str(folder / "spool" / "jobs"))

    def options(self, **options: Any) -> RunOptions:
        """Return how jobs are run here."""
        more: dict[str, Any] = {
            "timeout_s": 60.0,
            "grace_s": 0.1,
            "environment": {"PATH": os.environ["PATH"]},
            "separates_errors": True,
            "limits": CaptureLimits(head_bytes=0, tail_bytes=1_000, spill_bytes_max=10_000),
        }
        return RunOptions(cwd=str(self.work), mark=self.jobs.spool.mark, **(more | options))

    def start(self, command: str, wait_before_s: float = 0.0, **options: Any) -> Job:
        """Start a job."""
        name = self.jobs.spool.new_name()
        made_at = time.time()
        return self.jobs.start(name, command, self.options(**options), wait_before_s=wait_before_s, made_at=made_at)[0]

    def read(self, name: str) -> str:
        """Return what a command has left in the workspace, once it is there."""
        wait_for(lambda: (self.work / name).exists() and (self.work / name).read_text() != "")
        return (self.work / name).read_text()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a place of its own; nothing that was started there outlives the test."""
    made = Place(tmp_path)
    yield made
    made.jobs.close()
    mark = made.jobs.spool.mark
    stop_marked(mark)
    assert [] == [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if carries(pid, mark)]


def ended(job: Job) -> JobState:
    """Wait for a job's end and return it."""
    wait_for(lambda: job.state().phase == "over")
    return job.state()


def output(job: Job, name: str = "out") -> str:
    """Return what a job has written."""
    return Path(job.entry.path(name)).read_text()


def shell(text: str) -> None:
    """Run a command line as `exec_shell` would."""
    subprocess.run(["bash", "-c", text], check=True, timeout=20)


@pytest.mark.parametrize(
    "command, said",
    [
        ("cd / && pwd; exit 3", ("exited", 3, None, "/\n", "")),
        ("FOO=1 sh -c 'echo $FOO; echo err >&2'", ("exited", 0, None, "1\n", "err\n")),
        ("kill -KILL $$", ("exited", None, 9, "", "")),
    ],
)
def test_a_job_is_a_whole_line_of_bash_and_ends_as_it_does(
    place: Place, command: str, said: tuple[object, ...]
) -> None:
    """Builtins, lists and variables before a command are what bash makes of them; exit code and signal are its own."""
    job = place.start(command)
    state = ended(job)
    assert said == (state.end, state.exit_code, state.signal, output(job), output(job, "err"))


def test_many_may_write_its_input_and_one_of_them_ends_it(place: Place) -> None:
    """Writers come and go; the character 04 at a writer's end is the end of the input, and later ones do not wait."""
    job = place.start("cat > got; echo end >> got; sleep 60")
    fifo = job.entry.path("stdin")
    shell(f"echo one > {fifo}; printf 'a\\004b' > {fifo}; printf 'two\\n' > {fifo}; head -c 200000 /dev/zero > {fifo}")
    shell(f"printf 'last\\004' > {fifo}")
    wait_for(lambda: place.read("got").endswith("end\n"))
    shell(f"echo nobody > {fifo}")
    text = (place.work / "got").read_text().replace("\0", "")
    assert "one\na\x04btwo\nlastend\n" == text
    job.stop()
    ended(job)
    wait_for(lambda: job.input_path is None)


def test_at_the_deadline_everything_dies_that_the_line_has_started(place: Place) -> None:
    """Neither ignoring TERM nor a session, parent and environment of its own saves a process."""
    job = place.start(
        "trap '' TERM; (trap '' TERM; env -i setsid bash -c 'echo $$ > far; sleep 61') & "
        "for i in 1; do sleep 62; done; sleep 63",
        timeout_s=1.5,
    )
    far = int(place.read("far"))
    state = ended(job)
    assert ("timed_out", True) == (state.end, state.duration_s is not None and state.duration_s < 10)
    assert (False, []) == (is_alive(far), job.processes())


def test_what_a_finished_line_leaves_running_dies_at_its_deadline(place: Place) -> None:
    """The job is over when its first process is; the rest is watched until the time is up."""
    job = place.start("env -i setsid bash -c 'echo $$ > far; sleep 64' >/dev/null 2>&1 & exit 4", timeout_s=1.5)
    state = ended(job)
    assert ("exited", 4) == (state.end, state.exit_code)
    far = int(place.read("far"))
    wait_for(lambda: not is_alive(far))


def test_a_flood_keeps_head_and_tail_and_little_of_the_disk(place: Place) -> None:
    """The file has a bound, its end is the newest output, and the marker counts what is missing."""
    job = place.start("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")
    ended(job)
    text = output(job)
    assert (True, True) == (text.startswith("first\nxxx"), text.endswith("xxx\nlast\n"))
    assert "\n[... 2989012 bytes left out ...]\n" in text
    assert len(text) < 11_100


def test_a_full_file_of_a_running_job_shows_what_came_last(place: Place) -> None:
    """Whoever looks while a flood goes on sees its end, a moment old at most."""
    job = place.start("seq 10000; echo newest; sleep 65")
    wait_for(lambda: output(job).endswith("newest\n"))
    assert "running" == job.state().phase


def test_a_job_that_begins_later_begins_although_its_starter_was_killed(place: Place, tmp_path: Path) -> None:
    """The supervisor holds the plan; another process finds the job, its end and its output."""
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(place.work), place.jobs.folder],
        env=python_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()
    job = place.jobs.find(name)
    assert job is not None
    state = ended(job)
    assert ("exited", 0, "later\n") == (state.end, state.exit_code, output(job))
    assert state.due_at is not None
    assert state.due_at <= (state.started_at or 0)
    assert "echo later" == job.terms.command


_START = """
import os, sys, time
from plait.hands.command import RunOptions
from plait.hands.jobs import Jobs
jobs = Jobs(sys.argv[2])
options = RunOptions(cwd=sys.argv[1], environment={"PATH": os.environ["PATH"]}, separates_errors=True)
job, state = jobs.start(jobs.spool.new_name(), "echo later", options, wait_before_s=0.5, made_at=time.time())
assert state.phase == "scheduled"
print(job.id, flush=True)
time.sleep(60)
"""


def test_closing_ends_every_job_and_says_so(place: Place) -> None:
    """Running, waiting for its time, left behind by one that is over: nothing lives on, and the ends are recorded."""
    running = place.start("echo $$ > run; sleep 66")
    later = place.start("touch never", wait_before_s=300)
    over = place.start("env -i setsid bash -c 'echo $$ > far; sleep 67' & exit 0")
    pids = [int(place.read(name)) for name in ("run", "far")]
    assert ["scheduled", "running"] == sorted((running.state().phase, later.state().phase), reverse=True)
    again = Jobs(place.jobs.folder)
    again.close()
    assert ["cancelled", "cancelled", "exited"] == [job.state().end for job in (running, later, over)]
    assert [False, False] == [is_alive(pid) for pid in pids]


def test_jobs_that_are_to_go_on_do(place: Place) -> None:
    """`keep_jobs` leaves them alone."""
    job = place.start("sleep 68")
    place.jobs.close(keep_jobs=True)
    assert "running" == job.state().phase


def test_a_job_without_its_supervisor_is_lost_and_stopped(place: Place) -> None:
    """Nobody would end it at its deadline, so it ends when that is found out; its end is said to be unknown."""
    job = place.start("echo $$ > run; sleep 69")
    pid = int(place.read("run"))
    os.kill(int(job.entry.read().began["pid"]), signal.SIGKILL)
    state = ended(job)
    assert ("lost", None, False) == (state.end, state.exit_code, is_alive(pid))
    wait_for(lambda: job.input_path is None)


def test_a_stranger_with_the_supervisors_id_is_left_alone(place: Place) -> None:
    """A process is known by its id and its start."""
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        job = place.start("true")
        ended(job)
        record = Path(job.entry.path("record"))
        record.write_text(f"began pid={stranger.pid} start=1 session=1 at=1\n")
        Job(job.entry, job.terms).stop()
        assert None is stranger.poll()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_job_that_cannot_start_leaves_nothing(place: Place) -> None:
    """A workspace that is gone is told at once."""
    place.work.rmdir()
    with pytest.raises(Refusal, match="no such file or directory"):
        place.start("true")
    assert ([], []) == (place.jobs.all(), place.jobs.spool.names())


def test_activity_counts_the_whole_tree(place: Place) -> None:
    """Processor time and bytes of children count, of those that have ended too."""
    job = place.start("(head -c 5000000 /dev/zero | md5sum; python3 -c 'sum(range(3000000))'); echo > done; sleep 70")
    place.read("done")
    done = activity_of(job.processes())
    assert done.cpu_s > 0.01
    assert done.io_bytes["rchar"] >= 5_000_000
    assert done.since(done).is_idle
