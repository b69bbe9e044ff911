"""Shell commands that outlive plait, through the tools: what is recorded, what is found, what is forgotten."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.facts import ToolStart
from plait.core.messages import ToolResult
from plait.hands.process_tree import stop_marked
from plait.hands.spool import Spool
from plait.kernel.tools import Recovery, ToolContext, as_result
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.helpers.warm import Warm

from .test_shell import is_alive, until


def recovery_of(box: Toolbox, name: str) -> Recovery:
    """Return how a tool finds out."""
    recovery = box.recovery(name)
    assert recovery is not None
    return recovery


class Called:
    """One call of a shell tool as a durable host makes it."""

    def __init__(self, box: Toolbox, command: str, name: str = "exec_shell", timeout_s: float | None = None) -> None:
        self.name, self.command, self.timeout_s = name, command, timeout_s
        self.keywords = {"command": command, "timeout_s": timeout_s}
        self.intent = recovery_of(box, name).intend(self.keywords, self.context())

    def context(self, cancel: Cancel | None = None) -> ToolContext:
        """Return what the tool may know of the call."""
        return ToolContext("c1", "s/r/c1", cancel or Cancel(), "s", getattr(self, "intent", None))

    def run(self, box: Toolbox) -> ToolResult:
        """Run it."""
        fn: Callable[..., object] = getattr(box, self.name)
        return as_result("c1", fn(self.command, self.timeout_s, self.context()))

    def settle(self, box: Toolbox, cancel: Cancel | None = None) -> ToolResult:
        """Find out what became of it."""
        return as_result("c1", recovery_of(box, self.name).settle(self.keywords, self.context(cancel)))

    def run_and_die(self, box: Toolbox, *, until: Callable[[], bool]) -> None:
        """Run it in another process, and kill that when `until` holds."""
        process = Warm([sys.executable, "-c", _RUN, box.root, str(box.options.spool), repr(vars(self))])
        try:
            deadline = time.monotonic() + 30
            while not until():
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()


_RUN = """
import ast, sys
from plait.core.cancel import Cancel
from plait.kernel.tools import ToolContext
from plait.tools.toolbox import Toolbox, ToolboxOptions
call = ast.literal_eval(sys.argv[3])
box = Toolbox(sys.argv[1], ToolboxOptions(spool=sys.argv[2], grace_s=0.1))
getattr(box, call["name"])(call["command"], call["timeout_s"], ToolContext("c1", "k", Cancel(), "s", call["intent"]))
"""

MakeBox = Callable[[], Toolbox]


@pytest.fixture
def make_box(root: Path, tmp_path: Path) -> Iterator[MakeBox]:
    """Return a function that opens a toolbox over the same workspace and spool, as each process of a session does."""
    opened: list[Toolbox] = []

    def open_it() -> Toolbox:
        opened.append(Toolbox(root, ToolboxOptions(spool=tmp_path / "s" / "spool", grace_s=0.1)))
        return opened[-1]

    yield open_it
    for box in opened:
        box.close()
    stop_marked(Spool(tmp_path / "s" / "spool").mark)


@pytest.fixture
def box(make_box: MakeBox) -> Toolbox:
    """Return a toolbox with a spool."""
    return make_box()


def entries(box: Toolbox) -> list[str]:
    """Return the names of what commands have left."""
    assert box.shell.kept is not None
    return box.shell.kept.spool.names()


def record(box: Toolbox, called: Called) -> str:
    """Return what the record of a call says."""
    assert called.intent is not None
    path = Path(str(box.options.spool), str(called.intent["spool"]), "record")
    return path.read_text() if path.exists() else ""


def is_held(box: Toolbox, called: Called) -> bool:
    """Say whether a supervisor is still at work."""
    assert box.shell.kept is not None
    assert called.intent is not None
    return box.shell.kept.spool.entry(str(called.intent["spool"])).is_held()


def test_the_intent_names_the_entry_and_the_record_the_process(box: Toolbox) -> None:
    """What is recorded before a command leads to its supervisor: by id, start time and session."""
    called = Called(box, "true", timeout_s=7)
    assert called.intent is not None
    assert {"spool", "timeout_s", "boot"} == called.intent.keys()
    assert ([], 7.0) == (entries(box), called.intent["timeout_s"])
    called.run(box)
    began = dict(word.split("=") for word in record(box, called).splitlines()[0].split()[1:])
    assert {"pid", "start", "session", "at"} == began.keys()
    assert began["pid"] == began["session"] != str(os.getpid())


@pytest.mark.parametrize("name", ["exec_shell", "bash"])
def test_a_collected_result_is_the_one_it_would_have_been(box: Toolbox, name: str) -> None:
    """What is told of a command afterwards is, word for word, what would have been told in time."""
    called = Called(box, "echo out; echo err >&2; exit 3", name)
    in_time = called.run(box)
    later = called.settle(box)
    assert (in_time.content, in_time.status) == (later.content, later.status)
    assert {**(in_time.data or {}), "recovered": "ended"} == later.data


def test_a_command_that_outlived_plait_is_waited_for(make_box: MakeBox, root: Path) -> None:
    """Killed during `sleep 1; echo done > f`, it ran once, and the next process has its answer."""
    first, second = make_box(), make_box()
    called = Called(first, "echo x >> ran; sleep 1; echo done > f; echo finished")
    called.run_and_die(first, until=lambda: (root / "ran").exists())
    assert not (root / "f").exists()
    assert "finished" == called.settle(second).content
    assert ("done\n", "x\n") == ((root / "f").read_text(), (root / "ran").read_text())
    assert "finished" == called.settle(second).content


def test_a_command_that_never_began_never_will(make_box: MakeBox, root: Path) -> None:
    """Recorded and not begun: the model is told that it did not run, and a latecomer does not run it either."""
    called = Called(make_box(), "touch ran")
    told = called.settle(make_box())
    assert ("cancelled", True) == (told.status, told.content.startswith("Not run: "))
    late = called.run(make_box())
    assert ("error", False) == (late.status, (root / "ran").exists())
    assert told == called.settle(make_box())


def test_a_stopped_resume_stops_the_command(make_box: MakeBox, root: Path) -> None:
    """Cancel while an earlier process's command is waited for ends it, and says so."""
    first, second = make_box(), make_box()
    called = Called(first, "echo $$ > pid; sleep 60")
    called.run_and_die(first, until=lambda: (root / "pid").exists() and bool((root / "pid").read_text()))
    cancel = Cancel()
    cancel.cancel("enough")
    assert "cancelled" == called.settle(second, cancel).status
    assert not is_alive(int((root / "pid").read_text()))


def test_a_lost_supervisor_is_told_as_unknown(make_box: MakeBox, root: Path) -> None:
    """A command whose supervisor was killed has an unknown end; what is left of it does not go on unwatched."""
    first, second = make_box(), make_box()
    called = Called(first, "echo begun; echo $$ > pid; sleep 60")
    called.run_and_die(first, until=lambda: (root / "pid").exists() and bool((root / "pid").read_text()))
    began = dict(word.split("=") for word in record(first, called).splitlines()[0].split()[1:])
    os.kill(int(began["pid"]), signal.SIGKILL)
    told = called.settle(second)
    assert ("unknown", True) == (told.status, "Check before repeating it" in told.content)
    assert until(lambda: not is_alive(int((root / "pid").read_text())))


@pytest.mark.parametrize("left", ["nothing", "began", "ended", "safe"])
def test_after_a_restart_of_the_machine(box: Toolbox, left: str) -> None:
    """Only an end that was on disk is believed after a power loss; anything else is unknown, once and for all."""
    called = Called(box, "echo out")
    if left != "nothing":
        called.run(box)
        assert called.intent is not None
        path = Path(str(box.options.spool), str(called.intent["spool"]), "record")
        assert until(lambda: "safe" in path.read_text())
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[: {"began": 1, "ended": 2, "safe": 3}[left]]))
    assert box.shell.kept is not None
    box.shell.kept.boot = "another start"
    told = called.settle(box)
    assert "restarted" in told.content
    assert ("ok" if left == "safe" else "unknown") == told.status
    assert ("out\n" in told.content) == (left == "safe")


def test_entries_are_forgotten_once_their_end_is_recorded(box: Toolbox) -> None:
    """A result may be lost until a later call begins; from then on its entry is gone, and the spool does not grow."""
    called = [Called(box, "true")]
    called[0].run(box)
    assert 1 == len(entries(box))
    for _ in range(5):
        called.append(Called(box, "true"))
        assert until(lambda: not is_held(box, called[-2]))
        assert str((called[-2].intent or {})["spool"]) in entries(box)
        called[-1].run(box)
    assert [str((called[-1].intent or {})["spool"])] == entries(box)


def test_commands_side_by_side_keep_theirs(box: Toolbox) -> None:
    """Of calls that were begun together none is forgotten while another one runs."""
    together = [Called(box, "true") for _ in range(3)]
    for called in together:
        called.run(box)
    assert 3 == len(entries(box))


def test_sweeping_keeps_what_is_still_needed(make_box: MakeBox) -> None:
    """A session that is opened removes what nobody will ask for, and nothing else."""
    first = make_box()
    needed, recorded = Called(first, "echo needed"), Called(first, "true")
    needed.run(first)
    recorded.run(first)
    assert until(lambda: not is_held(first, recorded))
    second = make_box()
    second.sweep([ToolStart("c1", intent=needed.intent), ToolStart("c2"), ToolStart("c3", intent={"path": "f"})])
    assert [str((needed.intent or {})["spool"])] == entries(second)
    assert "needed" == needed.settle(second).content


def test_what_an_earlier_process_left_in_the_background_ends_with_the_session(make_box: MakeBox, root: Path) -> None:
    """Closing ends background children of the process before, once the session was taken over, and not before."""
    first, watcher, second = make_box(), make_box(), make_box()
    called = Called(first, "sleep 60 & echo $! > pid; sleep 61")
    called.run_and_die(first, until=lambda: (root / "pid").exists() and bool((root / "pid").read_text()))
    pid = int((root / "pid").read_text())
    watcher.close()
    assert is_alive(pid)
    Called(second, "true").run(second)
    second.close()
    assert until(lambda: not is_alive(pid))


def test_where_starts_of_the_machine_are_not_told_apart(make_box: MakeBox) -> None:
    """Without a boot id an end is collected and a command that runs is waited for; one without a record is unknown."""
    box, later = make_box(), make_box()
    for each in (box, later):
        assert each.shell.kept is not None
        each.shell.kept.boot = ""
    ended, never = Called(box, "echo out"), Called(box, "echo out")
    ended.run(box)
    assert ("out", "ok") == ((told := ended.settle(later)).content, told.status)
    told = never.settle(later)
    assert ("unknown", True) == (told.status, "no record" in told.content)


@pytest.mark.parametrize("kind", ["a file is in its place", "no supervisor", "no locks"])
def test_without_a_spool_commands_run_all_the_same(
    box: Toolbox, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Where nothing can be kept, nothing is promised: the command runs in this process, without an intent."""
    if kind == "no supervisor":
        monkeypatch.setattr(sys, "executable", "")
        box = Toolbox(root, ToolboxOptions(spool=tmp_path / "other"))
    elif kind == "no locks":

        def refuse(*_: object) -> None:
            raise OSError(37, "no locks here")

        monkeypatch.setattr(os, "lockf", refuse)
    else:
        (tmp_path / "s").write_text("in the way")
    called = Called(box, "echo hi")
    assert (None, "hi") == (called.intent, called.run(box).content)
    box.close()


@pytest.mark.parametrize(
    "intent",
    [{}, {"spool": "../../etc", "timeout_s": 1, "boot": ""}, {"spool": "0" * 32, "timeout_s": "x", "boot": ""}],
    ids=["empty", "another-place", "no-number"],
)
def test_a_damaged_intent_reaches_nothing(box: Toolbox, intent: Mapping[str, object]) -> None:
    """Whatever stands in a journal, no other place than an entry of the spool is looked at."""
    called = Called(box, "true")
    called.intent = intent
    with pytest.raises(Exception, match=r"spool|float|0000"):
        called.settle(box)
    assert [] == entries(box)


def test_the_kept_output_of_a_long_answer_can_be_read(make_box: MakeBox) -> None:
    """What is cut out of an answer is in a file that the next process's `read_file` opens."""
    first, second = make_box(), make_box()
    called = Called(first, "seq 100000")
    called.run(first)
    told = called.settle(second)
    assert "truncated" in told.content
    text, _ = second.read_file(str((told.data or {})["spill"]), 50_000, 1)  # type: ignore[misc]
    assert text.startswith("50000\n")
