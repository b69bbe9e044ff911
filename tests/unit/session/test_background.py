"""Background jobs of sessions: whose they are, who finds them after a kill, and that their ends are told once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import async_toolkit
from plait.cli.entry import run_command_line
from plait.core.errors import ConfigError
from plait.core.facts import Observation, ToolEnd
from plait.engine.agent import Agent
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import default_specification
from plait.session.background import drain_completions
from plait.session.defaults import LIBRARY
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptedModel
from plait.tools.background import completion_notice
from plait.tools.background_specs import enable_nohup
from plait.tools.toolbox import Toolbox
from tests.helpers.warm import run_warm
from tests.unit.hands.ground import python_environment
from tests.unit.hands.test_supervised import is_alive, wait_for

NOTICE = "[background] 1 nohup execution(s) finished"


def spec() -> AgentSpec:
    """Return a spec with the four basic tools and the background shell."""
    made = default_specification("m", "http://127.0.0.1:1/v1")
    enable_nohup(made)
    return made


def opened(name: str, **options: Any) -> Session:
    """Open a session that is kept."""
    return init_session(spec(), session_id=name, strict_cache_proof=False, **options)


def ask(session: Session, *script: Any, task: str | None = "Go on.") -> ScriptedModel:
    """Run a turn on a script and return the model, which knows what it was asked."""
    with ScriptedModel([*script]) as model:
        assert run_turn(model, "m", session, task).error is None
    return model


def results(session: Session) -> list[dict[str, Any]]:
    """Return what its background tools have answered."""
    return [json.loads(item["content"]) for item in session["messages"] if item["role"] == "tool"]


def started(session: Session, command: str, **more: object) -> dict[str, Any]:
    """Have the model start a job, and return what it is told."""
    ask(session, Say(calls=[Call("nohup", {"command": command, **more})]), "started")
    return results(session)[-1]


def question(model: ScriptedModel) -> str:
    """Return the last words of the user in the first request of a script."""
    return next(message.content for message in reversed(model.requests[0].messages) if message.role == "user")


def has_ended(session: Session) -> Callable[[], bool]:
    """Return what says whether a job has ended that was not told of."""
    return lambda: session._live.toolbox.background.board.untold() != []


def test_an_end_is_told_with_the_next_question_once(here: Path) -> None:
    """What ended while nobody waited stands before the user's next words, and nowhere after that."""
    with opened("one") as session:
        job = started(session, "cat; exit 3")
        os.system(f"printf '\\004' > {job['stdin_localfile']}")
        wait_for(has_ended(session))
        told = question(ask(session, "Thanks."))
        assert (True, True) == (told.startswith(NOTICE), told.endswith("\n\nGo on."))
        assert all(text in told for text in (job["tool_exec_id"], "returncode 3", "cat; exit 3"))
        assert "Go on." == question(ask(session, "Again."))
    with opened("one") as session:
        assert "Go on." == question(ask(session, "Later."))
        assert [] == drain_completions(session)


def test_what_a_result_has_told_is_not_told_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inline end, a look and a wait count as told, in a later process too; a drain is recorded."""
    with opened("two") as session:
        with monkeypatch.context() as patient:
            patient.setattr("plait.tools.background.ASYNC_FAST_THRESHOLD_S", 20.0)
            assert started(session, "true")["completed"]
        job = started(session, "read line")
        os.system(f"echo > {job['stdin_localfile']}")
        wait_for(has_ended(session))
        assert [job["tool_exec_id"]] == [done["tool_exec_id"] for done in drain_completions(session)]
        assert [] == drain_completions(session)
        assert "Go on." == question(ask(session, "No news."))
    journal = load_journal(Sessions.of(os.environ).place_of("two").journal)
    told = [fact.data for fact in journal.facts if isinstance(fact, Observation) and fact.type == "background"]
    assert [{"jobs_told": [job["tool_exec_id"]]}] == told
    with opened("two") as session:
        assert "Go on." == question(ask(session, "Still none."))
    with pytest.raises(ConfigError, match="open session"):
        drain_completions(dict(session))  # type: ignore[arg-type]


def test_a_notice_counts_only_with_its_question(here: Path) -> None:
    """A journal that ends between the two has told nothing, so that the next question tells it."""
    from plait.core.facts import TurnStart
    from plait.session.background import _told_in

    notice = Observation("background", {"jobs_told": ["a"], "with_question": True})
    with opened("three") as session:
        ask(session, "Hello.")
        words = load_journal(Sessions.of(os.environ).place_of("three").journal).facts
    (asked, *_) = [fact for fact in words if getattr(getattr(fact, "message", None), "role", "") == "user"]
    assert [set(), set(), {"a"}] == [_told_in(facts) for facts in ([notice], [notice, TurnStart()], [notice, asked])]


def test_two_sessions_have_their_own_jobs_which_end_with_them(here: Path) -> None:
    """No session finds, hears of or ends a job of another; closing one ends its own."""
    with opened("left") as left:
        mine = started(left, "cat")
        with opened("right") as right:
            theirs = started(right, "cat")
            ask(right, Say(calls=[Call("nohup_query", {"tool_exec_id": mine["tool_exec_id"]})]), "nobody")
            assert f"no background job here has the id {mine['tool_exec_id']!r}" in right["messages"][-2]["content"]
        assert (False, True) == (is_alive(theirs["pid"]), is_alive(mine["pid"]))
        os.system(f"printf '\\004' > {mine['stdin_localfile']}")
        wait_for(has_ended(left))
        assert [] == plait.drain_completions()
    assert not is_alive(mine["pid"])


def test_jobs_that_are_kept_are_there_when_the_session_is_opened_again(here: Path) -> None:
    """`close(keep_jobs=True)` leaves them to their own time limit, the plain one that follows ends them."""
    session = opened("kept")
    job = started(session, "cat")
    session.close(keep_jobs=True)
    session.close()
    assert is_alive(job["pid"])
    with opened("kept") as session:
        ask(session, Say(calls=[Call("nohup_wait", {"tool_exec_id": job["tool_exec_id"], "howmuch": 0})]), "it runs")
        assert not results(session)[-1]["completed"]
    assert not is_alive(job["pid"])


def test_a_session_that_is_deleted_leaves_nothing_running(here: Path) -> None:
    """What goes on without plait ends when nobody could find it any more."""
    session = opened("gone")
    job = started(session, "cat")
    session.close(keep_jobs=True)
    assert 0 == run_command_line(["sessions", "delete", "gone", "--yes"])
    assert not is_alive(job["pid"])


_LIFE = """
import json, os, signal, sys
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel
from plait.tools import background
from tests.unit.session.test_background import opened
kind, calls = sys.argv[1], json.loads(sys.argv[2])
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "in the call":
    background.Background._started = die
steps = [Say(calls=[Call("nohup", call) for call in calls])]
def answer(asked):
    return steps.pop() if steps else die()
session = opened("killed")
run_turn(ScriptedModel(answer), "m", session, "Start.")
"""


def lives_and_is_killed(kind: str, *calls: dict[str, object]) -> None:
    """Have another process start jobs in a session, and die by SIGKILL."""
    arguments = [sys.executable, "-c", _LIFE, kind, json.dumps(calls)]
    environment = python_environment()
    environment["PYTHONPATH"] += f":{Path(__file__).parents[3]}"
    done = run_warm(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert -signal.SIGKILL == done.returncode, done.stderr


def test_e21_jobs_survive_a_kill_of_plait_and_are_waited_for_in_another(here: Path) -> None:
    """After kill -9 between start and wait a resume finds the job that ran, the one that is to begin, their output."""
    commands: list[dict[str, object]] = [
        {"command": "cat; echo $PPID > watcher; exit 4"},
        {"command": "echo later", "wait_before_s": 1},
        {"command": "read line; echo alone"},
    ]
    lives_and_is_killed("between", *commands)
    with opened("killed") as session:
        first, later, alone = results(session)
        assert (True, "pid" in later) == (is_alive(first["pid"]), False)
        os.system(f"printf 'in\\n\\004' > {first['stdin_localfile']}; echo > {alone['stdin_localfile']}")
        calls = [Call("nohup_wait", {"tool_exec_id": job["tool_exec_id"], "howmuch": 20}) for job in (first, later)]
        ask(session, *(Say(calls=[call]) for call in calls), "waited", task=None)
        one, two = results(session)[-2:]
        assert (True, 4, "in\n") == (one["completed"], one["returncode"], one["stdout"])
        assert (True, 0, "later\n") == (two["completed"], two["returncode"], two["stdout"])
        also = [done["tool_exec_id"] for told in (one, two) for done in told.get("also_completed", ())]
        assert [alone["tool_exec_id"]] == also
        assert "Go on." == question(ask(session, "All is told."))
    with opened("killed") as session:
        assert "Go on." == question(ask(session, "Nothing new."))


def test_a_kill_inside_the_call_starts_nothing_twice(here: Path) -> None:
    """The job that was started is found and is the call's result; what ends after another kill is told once."""
    lives_and_is_killed("in the call", {"command": "echo x >> ran; cat"})
    with opened("killed") as session:
        ask(session, "I see.", task=None)
        (job,) = results(session)
        assert (True, "x\n") == (is_alive(job["pid"]), Path("ran").read_text())
        os.system(f"printf '\\004' > {job['stdin_localfile']}")
        wait_for(has_ended(session))
        assert question(ask(session, "Good.")).startswith(NOTICE)
    with opened("killed") as session:
        assert "Go on." == question(ask(session, "Nothing new."))
        journal = load_journal(Sessions.of(os.environ).place_of("killed").journal)
        assert 1 == sum(isinstance(fact, ToolEnd) for fact in journal.facts)


@pytest.fixture
def default_hook() -> Iterator[None]:
    """Put the process's default back."""
    yield
    async_toolkit.wait_interrupt_hook = None
    LIBRARY.board.close()


@pytest.mark.usefixtures("default_hook")
def test_e23_the_process_wide_functions_and_their_hook(here: Path) -> None:
    """A hook that says so ends a wait within 0.2 s, the job runs on, and its end is drained and told."""
    job = json.loads(async_toolkit.t_nohup("read line; exit 2")[0])
    async_toolkit.wait_interrupt_hook = lambda: True
    began = time.monotonic()
    waited = json.loads(async_toolkit.t_nohup_wait(job["tool_exec_id"])[0])
    assert (False, "user_input") == (waited["completed"], waited["interrupted_by"])
    assert time.monotonic() - began < 10
    assert is_alive(job["pid"])
    os.system(f"echo > {job['stdin_localfile']}")
    wait_for(lambda: LIBRARY.board.untold() != [])
    text = completion_notice(async_toolkit.drain_completions())
    assert (True, True) == (text.startswith(NOTICE), "returncode 2" in text)
    assert [] == plait.drain_completions()
    plain = json.loads(async_toolkit.t_execute_async("echo now", 300)[0])
    assert "scheduled_for" in json.loads(async_toolkit.t_query_exec(plain["tool_exec_id"])[0])


@pytest.mark.usefixtures("default_hook")
def test_a_session_with_a_hook_of_its_own_does_not_ask_the_default(here: Path) -> None:
    """The default counts until a session is given its own."""
    plait.set_wait_interrupt_hook(lambda: True)
    with opened("four") as session:
        job = started(session, "cat")
        wait = Say(calls=[Call("nohup_wait", {"tool_exec_id": job["tool_exec_id"], "howmuch": 0.15})])
        ask(session, wait, "interrupted")
        assert "user_input" == results(session)[-1]["interrupted_by"]
        session.wait_interrupt_hook = lambda: False
        ask(session, wait, "waited")
        assert "interrupted_by" not in results(session)[-1]


def test_an_event_loop_goes_on_while_a_job_is_waited_for(tmp_path: Path) -> None:
    """In an async agent a wait holds its own thread, not the loop, and a cancel ends it."""
    box = Toolbox(tmp_path)

    async def run() -> int:
        beats = 0
        job = json.loads(box.background.nohup("cat")[0])  # type: ignore[index]
        wait = Say(calls=[Call("nohup_wait", {"tool_exec_id": job["tool_exec_id"]})])
        agent = Agent(ScriptedModel([wait, "unused"], allow_unused=True), box.background.tools())
        task = asyncio.create_task(agent.arun("Wait."))
        for _ in range(20):
            await asyncio.sleep(0.005)
            beats += 1
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_alive(job["pid"])
        return beats

    try:
        assert 20 == asyncio.run(run())
    finally:
        box.close()
