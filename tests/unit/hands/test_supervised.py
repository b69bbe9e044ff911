"""Commands under a supervisor: real processes, real kills, and what is found afterwards."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.launcher import Launcher
from plait.hands.process import attach, run_supervised
from plait.hands.process_tree import stop_marked
from plait.hands.spool import Entry, Spool
from tests.unit.hands.ground import python_environment


class Place:
    """A workspace, a spool, and commands between them."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.spool = Spool(folder / "spool")
        self.spool.prepare()
        self.launcher = Launcher(self.spool.mark)

    def options(self, **options: Any) -> RunOptions:
        """Return how a command is run here."""
        more: dict[str, Any] = {"timeout_s": 20.0, "grace_s": 0.1, "environment": {"PATH": os.environ["PATH"]}}
        return RunOptions(cwd=str(self.work), mark=self.spool.mark, **(more | options))

    def new(self) -> Entry:
        """Return a new entry."""
        return self.spool.entry(self.spool.new_name())

    def run(self, text: str, cancel: Cancel | None = None, **options: Any) -> Finished:
        """Run a command line."""
        return run_supervised(Command.shell(text), self.options(**options), self.new(), self.launcher, cancel)

    def run_and_die(self, text: str, *, until: Callable[[Entry], bool], timeout_s: float = 20.0) -> Entry:
        """Have another process run a command line, and kill that process when `until` holds."""
        entry = self.new()
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(self.work), self.spool.folder, entry.mark, text, str(timeout_s)],
            env=python_environment(),
        )
        try:
            wait_for(lambda: until(entry))
        finally:
            process.kill()
            process.wait()
        return entry

    def close(self) -> None:
        """End whatever is left."""
        stop_marked(self.spool.mark)
        self.launcher.close()


_RUN = """
import os, sys
from plait.hands.command import Command, RunOptions
from plait.hands.launcher import Launcher
from plait.hands.process import run_supervised
from plait.hands.spool import Spool
work, folder, name, text, timeout_s = sys.argv[1:]
spool = Spool(folder)
options = RunOptions(cwd=work, environment={"PATH": os.environ["PATH"]}, timeout_s=float(timeout_s), grace_s=0.1,
    mark=spool.mark)
run_supervised(Command.shell(text), options, spool.entry(name), Launcher(spool.mark))
"""


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait for something that is about to hold."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Say whether a process lives; one that has ended but was not fetched does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def has_begun(entry: Entry) -> bool:
    """Say whether a supervisor has taken the entry."""
    return bool(entry.read().began)


def has_ended(entry: Entry) -> bool:
    """Say whether the command's end stands in the entry."""
    return bool(entry.read().ended)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a place of its own; nothing that was started there outlives the test."""
    made = Place(tmp_path)
    yield made
    made.close()
    assert [] == [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if carries(pid, made.spool.mark)]


def carries(pid: int, mark: str) -> bool:
    """Say whether a living process was started from a spool."""
    try:
        return is_alive(pid) and mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def test_a_command_ends_as_it_would_without(place: Place) -> None:
    """Output, exit code and signal are those of the command."""
    done = place.run("echo out; echo err >&2; exit 3")
    assert ("exited", 3, None, "out\nerr\n", None) == (
        done.end,
        done.exit_code,
        done.signal,
        done.output.head,
        done.errors,
    )
    done = place.run("echo out; echo err >&2; kill -KILL $$", separates_errors=True)
    assert ("exited", None, 9, "out\n") == (done.end, done.exit_code, done.signal, done.output.head)
    assert done.errors is not None
    assert "err\n" == done.errors.head


def test_the_command_has_its_own_session_and_the_given_environment(place: Place) -> None:
    """What the supervisor needs for itself is not the command's: no variable more, no descriptor more, no mask."""
    done = place.run("env; ls /proc/self/fd; umask; trap; cat /proc/self/status | grep -E 'SigIgn|SigBlk'")
    lines = done.output.head.splitlines()
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert {"PATH", "PLAIT_TREE", "PWD", "SHLVL", "_"} == names
    assert ["0", "1", "2", "3"] == [line for line in lines if line.isdecimal() and len(line) == 1]
    ignored = next(line for line in lines if line.startswith("SigIgn")).split()[1]
    assert not int(ignored, 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


def test_a_command_that_cannot_start_is_refused(place: Place) -> None:
    """A workspace that is gone and a program that is none are told as without a supervisor."""
    place.work.rmdir()
    with pytest.raises(Refusal, match="no such file or directory"):
        place.run("true")
    place.work.mkdir()
    with pytest.raises(Refusal, match="permission denied"):
        run_supervised(Command((str(place.work),)), place.options(), place.new(), place.launcher)
    with pytest.raises(Refusal, match="too long"):
        place.run("x" * 300_000)


def test_at_its_time_limit_the_whole_tree_dies(place: Place) -> None:
    """Nothing lives on, not even what ignores TERM or has a session of its own."""
    command = """
        trap '' TERM
        setsid bash -c 'trap "" TERM; echo $$ > b.pid; sleep 62' &
        until [ -s b.pid ]; do sleep 0.01; done
        echo started; sleep 63
    """
    done = place.run(command, timeout_s=1.0)
    assert ("timed_out", "started\n") == (done.end, done.output.head)
    assert not is_alive(int((place.work / "b.pid").read_text()))


def test_cancel_stops_it_and_keeps_what_it_had_printed(place: Place) -> None:
    """The stop signal ends the command, and one that was given before starts nothing."""
    cancel = Cancel()
    place.run("true")
    threading.Timer(0.3, cancel.cancel, ("enough",)).start()
    done = place.run("echo begun; sleep 60", cancel)
    assert ("cancelled", "begun\n") == (done.end, done.output.head)
    assert ("cancelled", None) == ((again := place.run("touch ran", cancel)).end, again.exit_code)
    assert not (place.work / "ran").exists()


def test_a_background_child_does_not_hold_the_call_and_may_write_on(place: Place) -> None:
    """Who keeps the output open is left alone, with somebody to read it, until the session ends."""
    began = time.monotonic()
    done = place.run("(while sleep 0.01; do echo more; echo x >> beats; done) & echo $!")
    assert time.monotonic() - began < 10
    assert done.leftover is not None
    pid = int(done.output.head.splitlines()[0])
    size = (place.work / "beats").stat().st_size if (place.work / "beats").exists() else 0
    wait_for(lambda: (place.work / "beats").exists() and (place.work / "beats").stat().st_size > size + 20)
    place.close()
    assert not is_alive(pid)


def test_output_is_bounded_in_memory_and_on_disk(place: Place) -> None:
    """Head and tail are kept whatever there was between them; the file ends where it was told to."""
    limits = CaptureLimits(head_bytes=1_000, tail_bytes=1_000, spill_bytes_max=100_000)
    spill = str(place.work / "spill")
    done = place.run(
        "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last", limits=limits, spill_path=spill
    )
    assert (5_000_012, False) == (done.output.total_bytes, done.output.is_spill_whole)
    assert (True, True) == (done.output.head.startswith("first\nxxx"), done.output.tail.endswith("xxx\nlast\n"))
    assert (1_000, 1_000, 100_000) == (len(done.output.head), len(done.output.tail), os.stat(spill).st_size)
    sizes = sum(path.stat().st_size for path in Path(place.spool.folder).rglob("*"))
    assert sizes < 120_000


def test_what_does_not_fit_is_whole_in_the_file(place: Place) -> None:
    """Output that is longer than its place in memory is in the file that was named, readable by its owner only."""
    spill = str(place.work / "spill")
    limits = CaptureLimits(head_bytes=10, tail_bytes=10)
    done = place.run("seq 1000", limits=limits, spill_path=spill)
    assert (True, spill) == (done.output.is_spill_whole, done.output.spill_path)
    assert "".join(f"{number}\n" for number in range(1, 1_001)) == Path(spill).read_text()
    assert 0o600 == stat.S_IMODE(os.stat(spill).st_mode)


def test_a_disk_without_hard_links_gets_a_copy(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kept output cannot be the spooled one, it is copied."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    spill = str(place.work / "spill")
    done = place.run("seq 1000", limits=CaptureLimits(head_bytes=10, tail_bytes=10), spill_path=spill)
    assert (3_893, spill) == (os.stat(spill).st_size, done.output.spill_path)


def test_output_is_shown_while_it_comes(place: Place) -> None:
    """Whoever watches sees a line when it was printed, characters whole."""
    seen: list[tuple[str, str]] = []
    place.run(
        "printf 'a\\xc3'; sleep 0.1; printf '\\xa4b'; echo e >&2",
        separates_errors=True,
        on_output=lambda text, stream: seen.append((stream, text)),
    )
    assert ("aäb", "e\n") == (
        "".join(text for stream, text in seen if stream == "stdout"),
        "".join(text for stream, text in seen if stream == "stderr"),
    )


def test_a_command_outlives_the_process_that_ran_it(place: Place) -> None:
    """After SIGKILL in the middle of it the command goes on, once, and its end is found."""
    entry = place.run_and_die("echo begun; sleep 1; echo x >> ran; echo done; exit 5", until=has_begun)
    assert not (place.work / "ran").exists()
    done = attach(entry, place.options())
    assert ("exited", 5, "begun\ndone\n") == (done.end, done.exit_code, done.output.head)
    assert "x\n" == (place.work / "ran").read_text()
    assert done == attach(entry, place.options())


def test_an_end_that_nobody_waited_for_is_found(place: Place) -> None:
    """The command may be over long before somebody asks."""
    entry = place.run_and_die("echo done", until=has_begun)
    wait_for(lambda: has_ended(entry))
    assert ("exited", 0, "done\n") == ((done := attach(entry, place.options())).end, done.exit_code, done.output.head)
    wait_for(lambda: entry.read().is_safe)


def test_without_anybody_the_time_limit_still_holds(place: Place) -> None:
    """A command whose plait was killed dies at its own deadline with all it has started."""
    entry = place.run_and_die("setsid sleep 60 & echo $!; sleep 61", until=has_begun, timeout_s=1.5)
    wait_for(lambda: has_ended(entry))
    done = attach(entry, place.options())
    assert "timed_out" == done.end
    assert not is_alive(int(done.output.head))


def test_an_attached_command_can_be_stopped(place: Place) -> None:
    """Cancel reaches a command that another process has started, with its tree."""
    entry = place.run_and_die("setsid sleep 60 & echo $!; sleep 61", until=lambda entry: bool(entry.part("out", 0, 9)))
    cancel = Cancel()
    threading.Timer(0.2, cancel.cancel, ("enough",)).start()
    done = attach(entry, place.options(), cancel)
    assert "cancelled" == done.end
    assert not is_alive(int(done.output.head))


def test_a_killed_supervisor_is_an_unknown_end_and_leaves_nothing(place: Place) -> None:
    """Without its supervisor nobody knows the end: what is left of the command is stopped, whoever asks."""
    done = place.run("sleep 60 & echo $! > a.pid; kill -KILL $PPID; sleep 61")
    assert ("lost", None) == (done.end, done.exit_code)
    assert not is_alive(int((place.work / "a.pid").read_text()))

    entry = place.run_and_die("echo $$ > b.pid; sleep 62", until=lambda _: (place.work / "b.pid").exists())
    os.kill(int(entry.read().began["pid"]), signal.SIGKILL)
    wait_for(lambda: not entry.is_held())
    assert "lost" == attach(entry, place.options()).end
    assert not is_alive(int((place.work / "b.pid").read_text()))


def test_a_stranger_with_the_same_id_is_never_touched(place: Place) -> None:
    """A process that has the supervisor's id since is told apart by its start, and lives on."""
    stranger = subprocess.Popen(["sleep", "60"])
    entry = place.new()
    entry.make()
    fd = os.open(entry.path("record"), os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, f"began pid={stranger.pid} start=1 session={stranger.pid} at={time.monotonic()}\n".encode())
    holder = subprocess.Popen(
        [sys.executable, "-c", "import os; fd=os.open(os.sys.argv[1], os.O_RDWR); os.lockf(fd, os.F_LOCK, 0);"
         "print('held', flush=True); os.read(0, 1)", entry.path("record")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    holder.stdout.readline()
    cancel = Cancel()
    cancel.cancel("enough")
    done = attach(entry, place.options(timeout_s=0.1, grace_s=0.0), cancel)
    assert ("lost", None) == (done.end, stranger.poll())
    for process in (stranger, holder):
        process.kill()
        process.communicate()
    os.close(fd)


def test_an_entry_that_was_withdrawn_is_not_run(place: Place) -> None:
    """Once it was said that a command never began, no supervisor begins it, however late it comes."""
    entry = place.new()
    assert (True, True) == (entry.withdraw(), entry.withdraw())
    entry.make = lambda: None  # type: ignore[method-assign]
    with pytest.raises(Refusal, match="ended before it began"):
        run_supervised(Command.shell("touch ran"), place.options(), entry, place.launcher)
    assert (False, True) == ((place.work / "ran").exists(), entry.read().is_withdrawn)


def test_one_that_has_begun_cannot_be_withdrawn(place: Place) -> None:
    """Neither while it runs nor after its end."""
    entry = place.run_and_die("sleep 0.5", until=has_begun)
    assert not entry.withdraw()
    attach(entry, place.options())
    assert not entry.withdraw()


def test_a_supervisor_without_a_whole_order_does_nothing(place: Place) -> None:
    """When plait dies before or while it gives the order, nothing is run and nobody is left."""
    for part in (b"", b"100\0half", b"nonsense"):
        started = place.launcher.take()
        started._orders.write(part)
        started.let_go()
        assert started.fetch(10)
    assert [] == place.spool.names()


@pytest.mark.parametrize("mask", [0o000, 0o027, 0o777])
def test_files_are_their_owners_whatever_the_umask(place: Place, mask: int) -> None:
    """Folder 0700, files 0600; the command itself has the umask of whoever runs plait."""
    Path(place.spool.folder, "locks").unlink()
    before = os.umask(mask)
    try:
        place.spool.prepare()
        done = place.run("umask", separates_errors=True)
    finally:
        os.umask(before)
    assert f"{mask:04o}\n" == done.output.head
    place.spool.prepare()
    kept = Path(place.spool.folder)
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in (kept, *kept.rglob("*"))}
    assert {True: 0o700, False: 0o600} == modes


def test_it_runs_with_closed_streams_and_without_a_home(place: Place) -> None:
    """Neither a terminal, nor standard streams, nor a home directory is needed."""
    home = place.work / "home"
    home.mkdir(mode=0o500)
    code = "import os\nfor fd in (0, 1, 2): os.close(fd)\n" + _RUN
    entry = place.new()
    done = subprocess.run(
        [sys.executable, "-c", code, str(place.work), place.spool.folder, entry.mark, "echo in; cat; echo out", "20"],
        env={**python_environment(), "HOME": str(home)},
    )
    assert 0 == done.returncode
    assert "in\nout\n" == attach(entry, place.options()).output.head
    assert [] == list(home.iterdir())


def test_nothing_in_the_workspace_or_the_environment_reaches_the_supervisor(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that lie in the workspace, and variables that change Python, are the command's affair."""
    for name in ("os.py", "select.py", "process_tree.py", "sitecustomize.py"):
        (place.work / name).write_text("open('planted', 'w')\n")
    monkeypatch.chdir(place.work)
    monkeypatch.setenv("PYTHONPATH", str(place.work))
    monkeypatch.setenv("PYTHONSTARTUP", str(place.work / "os.py"))
    done = place.run("echo $PYTHONPATH; sleep 60", timeout_s=0.5, environment={"PYTHONPATH": "x", "PATH": "/bin"})
    assert ("timed_out", "x\n") == (done.end, done.output.head)
    assert not (place.work / "planted").exists()


def test_the_supervisor_that_waits_ends_with_its_process(place: Place) -> None:
    """One that was started ahead is gone when plait is killed, without having been told."""
    code = """
import sys, time
from plait.hands.launcher import Launcher
launcher = Launcher(sys.argv[1])
launcher.prepare()
print(launcher._ready._process.pid, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, place.spool.mark], env=python_environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert is_alive(pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not is_alive(pid))


def test_no_supervisor_is_left_unfetched(place: Place) -> None:
    """What has ended is fetched soon after, and not only when the next command comes."""
    place.run("true")
    place.launcher.prepare_soon()
    (used,) = place.launcher._running
    wait_for(lambda: used._process.returncode is not None)
    place.launcher.close()
    place.launcher.prepare_soon()
    assert place.launcher._ready is None


def test_a_full_disk_costs_output_and_not_the_end(small_disk: Path, tmp_path: Path) -> None:
    """What no longer fits in the spool is dropped; the command goes on, and its exit code is known."""
    made = Place(small_disk)
    try:
        made.work = tmp_path
        done = made.run("head -c 3000000 /dev/zero; exit 4")
        assert ("exited", 4, 3_000_000) == (done.end, done.exit_code, done.output.total_bytes)
        assert not done.output.is_spill_whole
    finally:
        made.close()
