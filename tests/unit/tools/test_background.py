"""The background shell: what a model reads of its jobs, with real ones and with a clock that does not wait."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from plait.core.cancel import Cancel
from plait.hands.jobs import Job, JobState, JobTerms
from plait.hands.spool import Entry
from plait.kernel.tools import ToolContext, as_result
from plait.testing.clock import VirtualClock
from plait.tools.answer import Reply
from plait.tools.background import TOLD, Background, completion_notice, with_default_timeout
from plait.tools.board import KEPT_MAX, Board
from plait.tools.shell import Shell, ShellOptions
from plait.tools.spill import Spill
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.unit.hands.test_supervised import is_alive, wait_for

Open = Callable[[], Toolbox]


@pytest.fixture
def opens(root: Path, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a toolbox over one session's folders, as each of its processes does."""
    opened: list[Toolbox] = []
    spool, spill = tmp_path / "s" / "spool", tmp_path / "s" / "spill"

    def open_it() -> Toolbox:
        opened.append(Toolbox(root, ToolboxOptions(spool=spool, spill_dir=spill, grace_s=0.1, job_grace_s=0.1)))
        return opened[-1]

    yield open_it
    for box in opened:
        box.close()


@pytest.fixture
def box(opens: Open) -> Toolbox:
    """Return a toolbox whose jobs are kept."""
    return opens()


def read(reply: Reply, *, ok: bool = True) -> dict[str, Any]:
    """Return what a model reads, which is one JSON object."""
    result = as_result("c", reply)
    assert ok is not result.is_error, result.content
    told = json.loads(result.content)
    assert isinstance(told, dict)
    return told


def start(box: Toolbox, command: str, *args: Any) -> dict[str, Any]:
    """Start a job and return what is told of it."""
    return read(box.background.nohup(command, *args))


def test_e21_a_job_is_started_asked_about_and_waited_for(box: Toolbox) -> None:
    """The start returns at once, a second look sends to nohup_wait, and the wait has the end and the output."""
    background = box.background
    job = start(box, "cat; echo hi; exit 5")
    assert ["tool_exec_id", "pid", "started_at", "cwd", "stdin_localfile", "stdout_localfile", "stderr_localfile"] == [
        *job
    ]
    known = job["tool_exec_id"]
    assert (12, box.root, True) == (len(known), job["cwd"], is_alive(job["pid"]))

    looked = read(background.query(known))
    assert (False, None, 0, 0) == tuple(
        looked[name] for name in ("completed", "returncode", "stdout_localfile_size", "stderr_localfile_localsize")
    )
    assert {"started_at", "cwd", "duration_time", "stdin_localfile"} <= looked.keys()
    again = read(background.query(known))
    assert ({"error", "hint", "tool_exec_id"}, True) == (again.keys(), "nohup_wait" in again["hint"])

    waited = read(background.wait(known, 0.001))
    assert {"tool_exec_id", "completed", "waited_seconds", "activity", "hint"} == waited.keys()
    assert {"cpu_seconds", "cpu_percent", "io_bytes", "note"} == waited["activity"].keys()
    assert {"rchar", "wchar", "read_bytes", "write_bytes"} == waited["activity"]["io_bytes"].keys()

    box.shell.exec_shell(f"printf 'in\\n\\004' > {job['stdin_localfile']}")
    done = read(background.wait(known, 20))
    assert (True, 5, "in\nhi\n", "", ["in", "hi"], []) == tuple(
        done[name] for name in ("completed", "returncode", "stdout", "stderr", "stdout_last_lines", "stderr_last_lines")
    )
    assert (known, "cat; echo hi; exit 5") == (done["tool_exec_id"], done["command"])
    assert {"duration_time", "stdout_localfile", "stderr_localfile"} <= done.keys()
    assert "in\nhi" in as_result("c", box.read_file(done["stdout_localfile"])).content
    assert (5, "in\nhi\n", None) == tuple(
        read(background.query(known))[name] for name in ("returncode", "stdout", "stdin_localfile")
    )


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a start wait for an end that comes at once, however busy the machine is."""
    monkeypatch.setattr("plait.tools.background.ASYNC_FAST_THRESHOLD_S", 20.0)


@pytest.mark.usefixtures("patient")
def test_what_ends_at_once_is_told_at_once(box: Toolbox) -> None:
    """The first answer has the exit code and both outputs, short ones in full, and says so to programs."""
    reply = box.background.nohup("echo out; seq 2000 >&2; exit 7")
    told = read(reply)
    assert (True, 7, "out\n") == (told["completed"], told["returncode"], told["stdout"])
    assert ("stderr" in told, 8_893) == (False, os.path.getsize(told["stderr_localfile"]))
    assert [told["tool_exec_id"]] == (as_result("c", reply).data or {})[TOLD]
    assert [] == box.background.board.take_untold()


@pytest.mark.parametrize(
    "command, args, said",
    [
        ("cd / && pwd && FOO=1 sleep 61", (0.6, "s"), {"returncode": 124, "timed_out": True, "stdout": "/\n"}),
        ("a() { sleep 62; }; a; echo no", (0.6, "s"), {"returncode": 124, "timed_out": True, "stdout": ""}),
        ("kill -TERM $$", (), {"returncode": -15, "signal": 15}),
    ],
)
def test_e21_the_end_is_told_as_it_was(box: Toolbox, command: str, args: Any, said: dict[str, object]) -> None:
    """The limit holds for the whole line, a list or a function too, and is told from an exit and from a signal."""
    job = start(box, command, *args)
    done = read(box.background.wait(job["tool_exec_id"], 20))
    assert said == {name: done.get(name) for name in said}
    assert ("timed_out" in said) is ("timed_out" in done)


def test_e22_a_job_can_begin_later(box: Toolbox) -> None:
    """It is told at once when it will begin; until then a look says so again, and a wait that it is scheduled."""
    job = start(box, "echo never", 1, "s", 300)
    assert {"tool_exec_id", "scheduled_for", "starts_in_seconds", "cwd", "command"} <= job.keys()
    assert (True, "pid" in job) == (295 < job["starts_in_seconds"] <= 300, False)
    known = job["tool_exec_id"]
    for _ in range(2):
        assert {"scheduled_for", "starts_in_seconds"} <= read(box.background.query(known)).keys()
    waited = read(box.background.wait(known, 0))
    assert (False, True) == (waited["completed"], waited["scheduled"])
    assert waited["starts_in_seconds"] > 290

    soon = start(box, "sleep 0.3; echo done", 5, "s", 0.4)
    done = read(box.background.wait(soon["tool_exec_id"], 20))
    assert (0, "done\n", True) == (done["returncode"], done["stdout"], 0.2 < done["duration_time"] < 5)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda it: it.nohup("true", 1, "y"), "unit of time"),
        (lambda it: it.nohup("true", 0), "0 seconds"),
        (lambda it: it.nohup("true", -5, "s"), "-5 seconds"),
        (lambda it: it.nohup("true", float("nan")), "no length of time"),
        (lambda it: it.nohup("true", 1_000, "w"), "seconds"),
        (lambda it: it.nohup("true", 1, "m", -1), "cannot begin in -1"),
        (lambda it: it.nohup("true", 1, "m", 3_601), "cannot begin in 3601"),
        (lambda it: it.nohup("a\0b"), "NUL"),
        (lambda it: it.query("nobody"), "'nobody'"),
        (lambda it: it.wait("nobody"), "'nobody'"),
        (lambda it: it.wait("nobody", 61, "m"), "3660 seconds"),
        (lambda it: it.wait("nobody", -1), "-1 seconds"),
        (lambda it: it.wait("nobody", 1, "x"), "unit of time"),
    ],
)
def test_what_cannot_be_is_an_error_that_says_so(box: Toolbox, call: Callable[[Background], Reply], error: str) -> None:
    """A mistake is a failed call with one JSON object; nothing is started."""
    assert error in read(call(box.background), ok=False)["error"]
    assert [] == box.background.board.jobs.all()


def test_a_wait_ends_for_the_user_and_for_a_cancel_and_the_job_runs_on(box: Toolbox) -> None:
    """Both end it at once; the job is alive, and its later end is still to be told."""
    background = box.background
    job = start(box, "cat; echo done")
    known = job["tool_exec_id"]
    background.board.interrupt = lambda: True
    assert (False, "user_input") == tuple(
        read(background.wait(known))[name] for name in ("completed", "interrupted_by")
    )
    background.board.interrupt = None
    cancel = Cancel()
    threading.Timer(0.1, cancel.cancel, ("interrupted",)).start()
    stopped = as_result("c", background.wait(known, call=ToolContext("c", "k", cancel)))
    assert ("cancelled", "interrupted") == (stopped.status, json.loads(stopped.content)["interrupted_by"])
    assert is_alive(job["pid"])
    box.shell.exec_shell(f"printf '\\004' > {job['stdin_localfile']}")
    wait_for(lambda: background.board.untold() != [])
    (done,) = background.board.take_untold()
    assert (known, 0, "cat; echo done") == (done["tool_exec_id"], done["returncode"], done["command"])
    text = completion_notice([done])
    assert text.startswith("[background] 1 nohup execution(s) finished while you were not waiting")
    assert all(str(done[name]) in text for name in ("tool_exec_id", "command", "stdout_localfile"))
    assert ([], "") == (background.board.take_untold(), completion_notice([]))


def test_a_wait_names_what_else_has_ended(box: Toolbox) -> None:
    """Others that ended meanwhile come with it, once, and are told then."""
    board = box.background.board
    other, main = start(box, "read line; exit 3"), start(box, "read line")
    box.shell.exec_shell(f"echo > {other['stdin_localfile']}")
    wait_for(lambda: len(board.untold()) == 1)
    reply = as_result("c", box.background.wait(main["tool_exec_id"], 0))
    (told,) = json.loads(reply.content)["also_completed"]
    assert (other["tool_exec_id"], 3) == (told["tool_exec_id"], told["returncode"])
    assert [other["tool_exec_id"]] == (reply.data or {})[TOLD]
    assert "also_completed" not in read(box.background.wait(main["tool_exec_id"], 0))


def test_no_answer_is_longer_than_a_result_may_be(box: Toolbox) -> None:
    """Bytes that nobody can read, a command without end: the JSON stays whole."""
    job = start(box, "head -c 4096 /dev/zero; head -c 4096 /dev/zero >&2; cat # " + "x" * 50_000)
    box.shell.exec_shell(f"printf '\\004' > {job['stdin_localfile']}")
    text = as_result("c", box.background.wait(job["tool_exec_id"], 20)).content
    told = json.loads(text)
    assert (4_096, "\ufffd", True) == (len(told["stdout"]), told["stdout"][0], told["command"].endswith("x…"))
    assert len(text) < 32_000


@pytest.mark.usefixtures("patient")
def test_no_credential_reaches_a_job(box: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is the one that a command of exec_shell has."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert {"returncode": 0, "stdout": "-\n"}.items() <= start(box, "echo ${OPENAI_API_KEY--}").items()


def test_a_call_whose_end_nobody_saw_is_found_and_never_runs_twice(box: Toolbox, opens: Open) -> None:
    """A job that was started is told as it stands, one that was not is said to be not run, and never will."""
    recovery = box.recovery("nohup")
    assert recovery is not None
    words = {"command": "echo x >> ran; cat"}
    bare = ToolContext("c", "k", Cancel())
    intents = [recovery.intend(words, bare), recovery.intend(words, bare)]
    calls = [ToolContext("c", "k", Cancel(), intent=intent) for intent in intents]
    job = read(box.background.nohup(words["command"], call=calls[0]))

    later = opens()
    settle = later.recovery("nohup")
    assert settle is not None
    found = read(settle.settle(words, calls[0]))
    assert (job["tool_exec_id"], job["pid"]) == (found["tool_exec_id"], found["pid"])
    lost = as_result("c", settle.settle(words, calls[1]))
    assert ("cancelled", "not_run") == (lost.status, (lost.data or {})["recovered"])
    assert "exists already" in read(box.background.nohup(words["command"], call=calls[1]), ok=False)["error"]
    assert "x\n" == Path(box.root, "ran").read_text()
    later.shell.exec_shell(f"printf '\\004' > {found['stdin_localfile']}")
    assert 0 == read(later.background.wait(job["tool_exec_id"], 20))["returncode"]


def test_the_oldest_of_many_completed_jobs_go_with_their_files(root: Path, tmp_path: Path) -> None:
    """Sixty-four are kept, the newest."""
    board = Board(Spill(tmp_path / "spill"))
    board.keep_in(tmp_path / "spool")
    folder = Path(board.jobs.folder)
    for number in range(KEPT_MAX + 3):
        entry = Entry(str(folder / f"{number:012x}{0:020}"))
        os.makedirs(entry.folder)
        terms = {"command": "x", "cwd": "/", "timeout_s": 1, "wait_before_s": 0, "made_at": number, "boot": ""}
        Path(entry.path("job")).write_text(json.dumps(terms))
        Path(entry.path("record")).write_text("began pid=1 start=1\nended end=exited status=0 ms=1\n")
        Path(entry.path("out")).write_text("x")
        board.link(Job(entry, JobTerms.read(entry)))  # type: ignore[arg-type]
    assert KEPT_MAX + 3 == len(os.listdir(tmp_path / "spill"))
    board.prune()
    assert [KEPT_MAX] * 3 == [len(board.jobs.all()), len(os.listdir(folder)), len(os.listdir(tmp_path / "spill"))]
    assert [f"{number:012x}" for number in range(3, KEPT_MAX + 3)] == [job.id for job in board.jobs.all()]


def test_a_spec_may_give_its_jobs_another_time(box: Toolbox) -> None:
    """What the schema says holds where a call says nothing."""
    from plait.tools.background_specs import NOHUP

    tool = with_default_timeout(NOHUP.tool(box.background.nohup), 0.005)
    job = read(tool.fn(command="sleep 63"))
    assert 124 == read(box.background.wait(job["tool_exec_id"], 20))["returncode"]
    assert "call" == tool.context_parameter


class _Planned(Job):
    """A job that ends when its time has come on a clock that does not wait."""

    def __init__(self, number: int, clock: VirtualClock, lasts_s: float) -> None:
        super().__init__(Entry(f"/nowhere/{number:012x}"), JobTerms("x", "/", 1, 0, number, ""))
        self._clock, self.ends_at_s = clock, clock.monotonic_s() + lasts_s

    def state(self) -> JobState:
        if self._clock.monotonic_s() < self.ends_at_s:
            return JobState("running", 1, None, 0.0)
        return JobState("over", 1, None, 0.0, "exited", 0, None, 1.0)


class _PlannedJobs:
    """Jobs that only end."""

    def __init__(self) -> None:
        self.made: list[Job] = []

    def all(self) -> list[Job]:
        return self.made

    def find(self, id: str) -> Job | None:
        return next((job for job in self.made if job.id == id), None)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.floats(0.1, 50)),
        st.tuples(st.just("query"), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.integers(0, 2), st.floats(0, 20)),
        st.tuples(st.just("pass"), st.floats(0, 20)),
        st.tuples(st.just("notice")),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=_STEPS)
def test_every_end_is_told_once_unasked_and_looks_never_repeat(steps: list[tuple[Any, ...]]) -> None:
    """Whatever is asked in whatever order, a look that repeats itself is sent to wait, no wait is longer than it may
    be, and the end of a job comes unasked at most once."""
    clock, jobs, unasked = VirtualClock(), _PlannedJobs(), list[str]()
    board = Board(Spill("/nowhere"), clock, _jobs=jobs)  # type: ignore[arg-type]
    background = Background(Shell("/", ShellOptions(), board.spill), board)
    last = ""
    for name, *args in steps:
        if name == "start":
            board.looked_elsewhere()
            jobs.made.append(_Planned(len(jobs.made), clock, args[0]))
            last = ""
        elif name == "pass":
            clock.advance(args[0])
        elif name == "notice":
            unasked += [str(done["tool_exec_id"]) for done in board.take_untold()]
        elif args[0] < len(jobs.made):
            job = jobs.made[args[0]]
            was_over = job.state().phase == "over"
            began_s = clock.monotonic_s()
            told = json.loads(as_result("c", _asked(background, name, job.id, *args[1:])).content)
            unasked += [done["tool_exec_id"] for done in told.get("also_completed", ())]
            if name == "query":
                assert ("error" in told) is (not was_over and last == job.id)
                last = "" if was_over else job.id
            else:
                assert clock.monotonic_s() - began_s <= args[1] + 0.001
                assert told["completed"] is (job.state().phase == "over")
                last = ""
            if told.get("completed"):
                assert job.id not in [str(done["tool_exec_id"]) for done in map(board.completion, board.untold())]
    assert len(unasked) == len(set(unasked))


def _asked(background: Background, name: str, known: str, *args: Any) -> Reply:
    return background.query(known) if name == "query" else background.wait(known, *args)


def test_a_wait_without_a_budget_takes_an_hour_at_most() -> None:
    """The job runs on, and the answer says how long was waited."""
    clock, jobs = VirtualClock(), _PlannedJobs()
    board = Board(Spill("/nowhere"), clock, _jobs=jobs)  # type: ignore[arg-type]
    jobs.made.append(_Planned(0, clock, 1e9))
    told = read(Background(Shell("/", ShellOptions(), board.spill), board).wait(jobs.made[0].id))
    assert (False, 3_600.0) == (told["completed"], told["waited_seconds"])
