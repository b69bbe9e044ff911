"""Commands: what came of them is exact, and nothing of them lives on when they were stopped."""

from __future__ import annotations

import _thread
import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.environment import child_environment
from plait.hands.process import run
from plait.hands.process_tree import MARK, Tree, stop_marked
from tests.unit.hands.ground import python_environment

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="members are found through /proc")


@pytest.fixture
def sh(tmp_path: Path) -> Iterator[Callable[..., Finished]]:
    """Run a command line; whatever it leaves behind is stopped after the test."""
    marks: list[str] = []

    def call(text: str, cancel: Cancel | None = None, **options: object) -> Finished:
        mark = f"test-{os.getpid()}-{len(marks)}"
        marks.append(mark)
        settings = {"cwd": str(tmp_path), "environment": child_environment(os.environ), "mark": mark, **options}
        return run(Command.shell(text), RunOptions(**settings), cancel)  # type: ignore[arg-type]

    call.marks = marks  # type: ignore[attr-defined]
    yield call
    assert all(stop_marked(mark) for mark in marks)


def living(sh: Callable[..., Finished]) -> list[int]:
    """The processes of the last command that still live."""
    marks: list[str] = sh.marks  # type: ignore[attr-defined]
    return [process.pid for mark in marks[-1:] for process in Tree(0, mark).members()]


def test_output_and_exit_code(sh: Callable[..., Finished]) -> None:
    """Both streams arrive in the order in which they were written, with the exit code."""
    done = sh("echo one; echo two >&2; echo three; exit 3")
    assert ("exited", 3, None, "one\ntwo\nthree\n", None) == (
        done.end,
        done.exit_code,
        done.signal,
        done.output.head,
        done.errors,
    )


def test_streams_can_be_kept_apart(sh: Callable[..., Finished]) -> None:
    """On request stderr is its own."""
    done = sh("echo one; echo two >&2", separates_errors=True)
    assert done.errors is not None
    assert ("one\n", "two\n") == (done.output.head, done.errors.head)


def test_a_signal_is_told(sh: Callable[..., Finished]) -> None:
    """A command that a signal ended has no exit code but the signal."""
    done = sh("kill -USR1 $$")
    assert ("exited", None, signal.SIGUSR1) == (done.end, done.exit_code, done.signal)


@pytest.mark.parametrize("text", ["cat", "read x", "python3 -c 'input()' || true", "echo 'abc ; cat <<EOF"])
def test_nothing_waits_for_input(sh: Callable[..., Finished], text: str) -> None:
    """stdin is empty, and a command line that is not finished is an error at once."""
    assert "exited" == sh(text, timeout_s=5).end


def test_there_is_no_terminal(sh: Callable[..., Finished]) -> None:
    """A command cannot reach the user's terminal: it has a session of its own."""
    assert 0 != sh(": < /dev/tty").exit_code


def test_bytes_that_are_no_text_are_replaced(sh: Callable[..., Finished]) -> None:
    """Invalid UTF-8 costs nothing but itself, and a lone CR stays."""
    assert "\ufffd\ufffd ok\rdone\n" == sh(r"printf '\xff\xfe ok\rdone\n'").output.head


def test_output_is_seen_as_it_comes(sh: Callable[..., Finished]) -> None:
    """The live view gets whole characters, also when one arrives in two pieces."""
    seen: list[tuple[str, str]] = []
    sh(
        r"printf '\xc3'; sleep 0.05; printf '\xa9\n'; sleep 0.05; echo e >&2",
        separates_errors=True,
        on_output=lambda *a: seen.append(a),
    )
    assert "\u00e9\n" == "".join(text for text, name in seen if name == "stdout")
    assert ("e\n", "stderr") in seen


def test_a_live_view_that_fails_stops_the_command(sh: Callable[..., Finished]) -> None:
    """An exception of the caller's own is raised, and the command does not go on behind its back."""

    def fail(*_: str) -> None:
        raise RuntimeError("view")

    with pytest.raises(RuntimeError, match="view"):
        sh("echo one; sleep 30", on_output=fail)
    assert [] == living(sh)


def test_large_output_is_bounded(sh: Callable[..., Finished], tmp_path: Path) -> None:
    """200 MB, in one line or in many, take little memory; the spill has its share, the count is exact."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spill = tmp_path / "spill"
    done = sh(
        "head -c 100000000 /dev/zero; yes | head -c 100000000; echo end",
        spill_path=str(spill),
        limits=CaptureLimits(1_000, 1_000, 5_000_000),
    )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert ("\0" * 1_000, True) == (done.output.head, done.output.tail.endswith("y\nend\n"))
    assert (200_000_004, 200_000_004 - 2_000, 5_000_000, False) == (
        done.output.total_bytes,
        done.output.dropped_bytes,
        spill.stat().st_size,
        done.output.is_spill_whole,
    )
    assert grown < 20_000 * (1024 if sys.platform == "darwin" else 1)


def test_too_much_output_can_end_a_command(sh: Callable[..., Finished]) -> None:
    """With a limit on all output, a command that passes it is stopped with its tree."""
    done = sh("yes", output_bytes_max=1_000_000, grace_s=0.1)
    assert "overflowed" == done.end
    assert [] == living(sh)


STUBBORN = """
trap '' TERM
sleep 30 &
(trap '' TERM; setsid sleep 30 & sleep 30 & wait) &
(setsid sh -c 'trap "" TERM; (sleep 30 &) ; sleep 30; sleep 30' &)
(sh -c '(sh -c "(sleep 30 & sleep 30) & sleep 30" &) ' &)
while :; do :; done
"""


@needs_proc
def test_a_timeout_ends_the_whole_tree(sh: Callable[..., Finished]) -> None:
    """Three generations that ignore TERM, in sessions of their own, orphaned and spinning: all dead, in time."""
    done = sh(STUBBORN, timeout_s=0.3, grace_s=0.2)
    assert ("timed_out", True, signal.SIGKILL) == (done.end, done.timed_out, done.signal)
    assert [] == living(sh)
    assert done.duration_s < 0.3 + 0.2 + 2


RELAY = """
import os, time
end = time.monotonic() + 5  # whatever happens, this ends
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
"""


@needs_proc
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("f() { [ $1 = 0 ] && exec sleep 30; f $(($1-1)) & f $(($1-1)) & wait; }; f 6", id="many"),
        pytest.param(f"for i in 1 2 3 4; do {sys.executable} -S -c '{RELAY}' & done; sleep 30", id="relay"),
    ],
)
def test_a_forking_tree_does_not_outrun_its_end(sh: Callable[..., Finished], text: str) -> None:
    """A hundred processes that are still being forked, and ones that live on only as their own children, all die."""
    done = sh(text, timeout_s=0.15, grace_s=0)
    assert "timed_out" == done.end
    assert [] == living(sh)
    assert done.duration_s < 3


def test_a_command_may_end_in_its_grace(sh: Callable[..., Finished]) -> None:
    """TERM comes first: what a command still writes and how it ends is told."""
    done = sh(
        "trap 'head -c 300000 /dev/zero; echo bye; exit 7' TERM; while :; do sleep 0.01; done", timeout_s=0.2, grace_s=5
    )
    assert ("timed_out", 7, "bye\n") == (done.end, done.exit_code, done.output.tail[-4:])


def test_a_cancel_from_another_thread(sh: Callable[..., Finished]) -> None:
    """The signal of a parent stops the command that was given a child of it."""
    cancel = Cancel()
    threading.Timer(0.1, cancel.cancel, ("user",)).start()
    done = sh("sleep 30 & sleep 30", cancel.child(), grace_s=0)
    assert ("cancelled", True) == (done.end, done.cancelled)
    assert [] == living(sh)


def test_a_cancel_that_came_before_starts_nothing(sh: Callable[..., Finished], tmp_path: Path) -> None:
    """A signal that was given already means that nothing is started."""
    cancel = Cancel()
    cancel.cancel("user")
    assert ("cancelled", None) == ((done := sh("touch f", cancel)).end, done.exit_code)
    assert [] == os.listdir(tmp_path)


def test_commands_run_in_many_threads(sh: Callable[..., Finished]) -> None:
    """Each thread gets its own output, and cancelling one does not touch the others."""
    cancels = [Cancel() for _ in range(8)]
    results: dict[int, Finished] = {}

    def call(number: int) -> None:
        results[number] = sh(f"echo {number}; sleep 0.3; echo {number}", cancels[number], grace_s=0)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    cancels[3].cancel("only this one")
    for thread in threads:
        thread.join()
    assert {n: "cancelled" if n == 3 else "exited" for n in range(8)} == {n: r.end for n, r in results.items()}
    assert {f"{n}\n{n}\n" for n in range(8) if n != 3} == {r.output.head for n, r in results.items() if n != 3}


def test_ctrl_c_ends_the_tree_first(sh: Callable[..., Finished]) -> None:
    """KeyboardInterrupt in the main thread is raised when nothing of the command lives any more; again is no harm."""
    for delay_s in (0.1, 0.15):
        threading.Timer(delay_s, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        sh("trap '' TERM; sleep 30 & sleep 30", grace_s=0.2)
    assert [] == living(sh)
    time.sleep(0.05)


@pytest.mark.parametrize("strikes", [pytest.param(25), pytest.param(1_000, marks=pytest.mark.prove)])
@needs_proc
def test_ctrl_c_at_any_moment(sh: Callable[..., Finished], strikes: int) -> None:
    """Wherever a SIGINT strikes between start and end, no process is left."""
    # Loaded before: an import that a signal strikes leaves its source file to the garbage collector, which says so.
    importlib.import_module("plait.hands.running")
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    struck = 0
    try:
        for number in range(strikes):
            timer = threading.Timer(0.0002 * (number % 50), os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                sh("sleep 0.005", grace_s=0)
                timer.join()
                time.sleep(0.001)
            except KeyboardInterrupt:
                struck += 1
                timer.join()
            assert [] == living(sh)
            del sh.marks[:]  # type: ignore[attr-defined]
    finally:
        signal.signal(signal.SIGINT, handler)
    assert strikes == struck


def test_a_background_child_does_not_hold_the_call(sh: Callable[..., Finished]) -> None:
    """What holds the output open is left alone, its output read and forgotten, and it can be stopped later."""
    done = sh("(while :; do echo noise; sleep 0.01; done) & echo hi", timeout_s=20)
    assert ("exited", 0, "hi") == (done.end, done.exit_code, done.output.head.replace("noise\n", "").strip())
    assert done.duration_s < 5
    assert done.leftover is not None
    time.sleep(0.1)
    assert living(sh)  # a closed pipe would have ended it by now
    assert done.leftover.stop()
    assert [] == living(sh)


@needs_proc
def test_leftovers_can_be_ended_with_the_command(sh: Callable[..., Finished]) -> None:
    """With `kill`, nothing of the tree lives when the call returns, whatever it did to get away."""
    done = sh("sleep 30 & nohup sleep 30 >/dev/null & (setsid sleep 30 &) ; echo hi", leftovers="kill")
    assert ("exited", 0, "hi\n", None) == (done.end, done.exit_code, done.output.head, done.leftover)
    assert [] == living(sh)


def test_no_zombies_are_left(sh: Callable[..., Finished]) -> None:
    """Every command that was started has been fetched."""
    before = children()  # other tests may have left some to this process
    sh("true")
    sh("sleep 30", timeout_s=0.05, grace_s=0)
    assert not children() - before


def children() -> set[str]:
    """Return the ids of this process's children, those included that nobody has fetched."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(stat.parent.name)
    return found


def test_nothing_is_left_open(sh: Callable[..., Finished]) -> None:
    """However commands end, no descriptor stays."""
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("descriptors are counted through /proc")
    before = len(os.listdir("/proc/self/fd"))
    sh("echo hi; exit 1")
    sh("sleep 30", timeout_s=0.05, grace_s=0)
    with pytest.raises(Refusal):
        sh("true", cwd="/no/such/place")
    assert before == len(os.listdir("/proc/self/fd"))


def test_the_environment_is_what_was_given(sh: Callable[..., Finished]) -> None:
    """A command sees the mapping and its own marks, nothing else of this process."""
    os.environ["PLAIT_CANARY"] = "leaked"
    done = sh("env", environment={"PATH": os.environ["PATH"], "ONLY": "this", MARK: "outer"})
    names = dict(line.split("=", 1) for line in done.output.head.splitlines())
    assert {"PATH", "ONLY", MARK} == set(names) - {"PWD", "SHLVL", "_"}
    assert ["outer", *sh.marks] == names[MARK].split(":")[:-1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "command, code",
    [
        (Command(()), "INVALID_INPUT"),
        (Command(("",)), "INVALID_INPUT"),
        (Command(("/bin/echo", "a\0b")), "INVALID_INPUT"),
        (Command(("/bin/echo", "\ud800")), "INVALID_INPUT"),
        (Command(("/no/such/program",)), "NOT_FOUND"),
        (Command(("/etc/passwd",)), "FORBIDDEN"),
        (Command(("/bin/echo", "x" * 3_000_000)), "TOO_LARGE"),
    ],
)
def test_what_cannot_be_started_is_refused(tmp_path: Path, command: Command, code: str) -> None:
    """A command that cannot start says why, and leaves nothing behind."""
    with pytest.raises(Refusal) as caught:
        run(command, RunOptions(cwd=str(tmp_path), environment={}))
    assert code == caught.value.refusal


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """A working directory that is not there is what the refusal names."""
    with pytest.raises(Refusal, match="no/such"):
        run(Command(("/bin/true",)), RunOptions(cwd=str(tmp_path / "no/such"), environment={}))


def test_arguments_are_never_taken_apart(tmp_path: Path) -> None:
    """Without a shell, an argument is one argument."""
    done = run(Command(("/bin/echo", "$(id)", "; ls", "*")), RunOptions(cwd=str(tmp_path), environment={}))
    assert "$(id) ; ls *\n" == done.output.head


def test_a_host_that_ignores_its_children() -> None:
    """When the host process has SIGCHLD ignored, the status is unknown, not a made-up success."""
    code = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from plait.hands.command import Command, RunOptions
from plait.hands.process import run
done = run(Command.shell("echo hi; exit 3"), RunOptions(cwd="/", environment={}))
print(done.end, done.exit_code, done.output.head.strip())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=python_environment(), capture_output=True, text=True, timeout=30
    )
    assert ("exited None hi\n", "") == (done.stdout, done.stderr)


def test_a_system_without_pidfds(sh: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel has no pidfds, ends are noticed by looking, and trees die all the same."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert 5 == sh("sleep 0.1; exit 5").exit_code
    assert "timed_out" == sh(STUBBORN, timeout_s=0.2, grace_s=0.1).end
    assert [] == living(sh)


def test_an_input_is_read_to_its_end_or_not_at_all(sh: Callable[..., Finished]) -> None:
    """A command finds its input on stdin, and an end behind it; one that never reads is not waited for."""
    data = b"line\n" * 200_000

    assert (0, str(len(data))) == (sh("wc -c", input=data).exit_code, sh("wc -c", input=data).output.head.strip())
    assert ("unread", "") == (sh("echo -n unread", input=data).output.head, sh("cat", input=b"").output.head)
