"""What a session's model is told beside questions and results: once, at the end, and as it was recorded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import ConfigError
from plait.engine.spec import default_specification
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.defaults import BENCH
from plait.session.history.replaying import replay_session
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.store.turns import turn_marks
from plait.testing import Call, Say, ScriptedModel, ScriptServer, VirtualClock
from tests.unit.context.test_git_lines import git, tree

__all__ = ["tree"]

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
SENSES = ("user", "system", "git", "time", "token", "change")


def wait() -> str:
    """Let 1.2 seconds go by."""
    BENCH.clock.advance(1.2)  # type: ignore[attr-defined]
    return "waited"


WAIT = Tool("wait", "Wait.", wait)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """Turn the senses on, and let time stand until somebody waits."""
    monkeypatch.delenv("PLAIT_AWARENESS")
    clock = VirtualClock(start_ms=time.time_ns() // 1_000_000)
    monkeypatch.setattr(BENCH, "clock", clock)
    return clock


def only(*names: str, **more: Any) -> dict[str, Any]:
    """Return the keywords that turn on these senses and no others."""
    return {f"{name}_awareness_enabled": name in names for name in SENSES} | {"strict_cache_proof": False} | more


def contents(session: Session, role: str) -> list[str]:
    """Return what messages of a role say."""
    return [item["content"] for item in session["messages"] if item["role"] == role]


def test_e46_each_sense_adds_its_own_text_and_nothing_else(tree: Path) -> None:
    """Without one of them exactly its lines are gone, from the prompt, the question and the result."""
    marks = {
        "user": "User: unix user: ",
        "system": "Working directory: ",
        "git": "Git: on branch main",
        "time": "session elapsed: ",
        "token": "<budget:token_budget>100000</budget:token_budget>",
        "change": "<ground_moved> note",
    }
    for missing in (None, *SENSES):
        names = [name for name in SENSES if name != missing]
        script = ScriptedModel([Call("read_file", {"path": "last"}), "done"])
        with init_session(SPEC, workspace=tree, durable=False, **only(*names)) as session:
            run_turn(script, "m", session, "go").raise_for_status()
            said = json.dumps(session["messages"])
        assert [name for name in SENSES if marks[name] in said] == names
        assert ("time" in names, "token" in names) == ("<tool_time " in said, "<system_warning>" in said)
        assert contents(session, "user")[0].startswith("go\n\n") is True
    with init_session(SPEC, workspace=tree, durable=False, **only()) as session:
        run_turn(ScriptedModel(["done"]), "m", session, "go").raise_for_status()
        assert ["go"] == contents(session, "user")


def test_e46_the_checklist_is_told_at_the_start(tree: Path) -> None:
    """One event with every sense in its order, as six lines; the last thing that opening tells."""
    told: list[Any] = []
    options = only("user", "git", "token") | {"system_awareness_enabled": None}
    init_session(SPEC, durable=False, on_event=lambda name, event: told.append((name, event)), **options).close()
    name, event = told[-1]
    status = {"user": True, "system": True, "git": True, "time": False, "token": True, "change": False}
    assert ("awareness_checklist", status) == (name, event.status)
    assert (
        "👤 user awareness: ✅\n💻 system awareness: ✅\n🌿 git awareness: ✅\n"
        "🕐 time awareness: ❌\n🪙 token awareness: ✅\n🔄 change awareness: ❌"
    ) == event["fmt"]


def test_e46_time_is_told_with_each_question_and_result(clock: VirtualClock) -> None:
    """Since the beginning, of the last call, since the question before; the stamp is no part of what the tool said."""
    told: list[Any] = []
    with init_session(
        SPEC,
        tools=[WAIT],
        durable=False,
        on_event=lambda name, event: told.append(event) if name in ("session_time", "tool_result") else None,
        **only("time"),
    ) as session:
        run_turn(ScriptedModel([Call("wait", {}), "done"]), "m", session, "go").raise_for_status()
        clock.advance(41.9)
        run_turn(ScriptedModel(["done"]), "m", session, "and").raise_for_status()
        first, second = contents(session, "user")
    assert first.endswith(
        "<session_time>session elapsed: 0ms · last tool: n/a · wall since your previous message: n/a</session_time>"
    )
    assert second == (
        "and\n\n<session_time>session elapsed: 43s · last tool: 1.2s · wall since your previous message: 43s"
        "</session_time>"
    )
    result = contents(session, "tool")[0]
    assert re.fullmatch(r'waited\n<tool_time start="[^"]+\+00:00" end="[^"]+" duration="1\.2s" />', result)
    asked, returned, again = told
    assert (0, None, None) == (asked.elapsed_seconds, asked.last_tool_ms, asked.since_previous_message_seconds)
    assert ("waited", 1_200, 43.1) == (returned.result, again.last_tool_ms, again.since_previous_message_seconds)


def test_stamps_can_be_left_out() -> None:
    """`time_awareness_tool_timestamps=False` leaves results as tools gave them, and the lines under questions."""
    options = only("time", time_awareness_tool_timestamps=False)
    with init_session(SPEC, tools=[WAIT], durable=False, **options) as session:
        run_turn(ScriptedModel([Call("wait", {}), "done"]), "m", session, "go").raise_for_status()
        assert (["waited"], True) == (contents(session, "tool"), "<session_time>" in contents(session, "user")[0])


def test_e46_tokens_are_counted_down(tmp_path: Path) -> None:
    """What the endpoint counted is below the first result of each answer; the reminder once, and again after a rise."""
    counts = [40, 95, 97, 50, 96]
    budgets: list[Any] = []
    said = [Say(calls=[Call("wait", {}), Call("wait", {})], usage={"input": count, "output": 1}) for count in counts]
    options = only("token", token_awareness_budget_tokens=100, token_awareness_reminder_tokens=10)
    with init_session(
        SPEC,
        tools=[WAIT],
        session_id="s",
        on_event=lambda name, event: budgets.append(event) if name == "token_budget" else None,
        **options,
    ) as session:
        run_turn(ScriptedModel([*said, "done"]), "m", session, "go").raise_for_status()
        results = contents(session, "tool")
    lines = [
        f"waited\n<system_warning>Token usage: {used}/100; {100 - used} remaining</system_warning>" for used in counts
    ]
    assert lines == [result.split("\n<context")[0] for result in results[::2]]
    assert ["waited"] * 5 == results[1::2]
    assert [False, True, False, False, True] == ["<context_window_reminder>" in result for result in results[::2]]
    assert [(count, 100, 100 - count, count > 90) for count in counts] == [
        (each.used, each.budget, each.remaining, each.below_reminder_threshold) for each in budgets
    ]
    # Another process knows from the journal that the reminder was given.
    with init_session(SPEC, tools=[WAIT], session_id="s", strict_cache_proof=False) as session:
        run_turn(ScriptedModel([said[2], "done"]), "m", session, "go").raise_for_status()
        assert "<context_window_reminder>" not in contents(session, "tool")[-2]


def test_counts_may_come_less_often() -> None:
    """Every third answer is followed by one, where that is wished."""
    said = [Say(calls=[Call("wait", {})], usage={"input": 10, "output": 1}) for _ in range(6)]
    options = only("token", token_awareness_update_every=3)
    with init_session(SPEC, tools=[WAIT], durable=False, limits=None, **options) as session:
        run_turn(ScriptedModel([*said, "done"]), "m", session, "go")
        counted = ["<system_warning>" in result for result in contents(session, "tool")]
    assert [False, False, True, False, False, True] == counted


def test_e46_the_ground_moves_under_others_and_not_under_oneself(tree: Path) -> None:
    """An edit of somebody else's between two turns is noted; a file tool's and a command's are not."""
    moved: list[Any] = []
    calls = [
        Call("read_file", {"path": "last"}),
        Call("write_file", {"path": "src/f1", "content": "mine"}),
        Call("exec_shell", {"command": "echo mine > src/f2; git checkout -qb mine"}),
    ]
    with init_session(
        SPEC,
        workspace=tree,
        durable=False,
        on_event=lambda name, event: moved.append(event) if name == "ground_moved" else None,
        **only("change"),
    ) as session:
        run_turn(ScriptedModel([*(Say(calls=[call]) for call in calls), "done"]), "m", session, "go").raise_for_status()
        run_turn(ScriptedModel(["done"]), "m", session, "quiet").raise_for_status()
        assert ("quiet", []) == (contents(session, "user")[-1], moved)
        (tree / "last").write_text("theirs")
        (tree / "src" / "f5").write_text("theirs")
        git(tree, "checkout", "-qb", "theirs")
        run_turn(ScriptedModel(["done"]), "m", session, "again").raise_for_status()
        assert contents(session, "user")[-1] == (
            "again\n\n<ground_moved>Since your last turn, not by you: git is on branch theirs (was branch mine); "
            "changed files: last, src/f5.</ground_moved>"
        )
    (event,) = moved
    assert (True, ["last", "src/f5"]) == (event.git_changed, event.files)


def test_e47_bare_is_exact(tree: Path) -> None:
    """The supplement alone, the task word for word, raw results, and no checklist, whatever else is asked for."""
    (tree / "AGENTS.md").write_text("Never.")
    told: list[str] = []
    with ScriptServer([Call("read_file", {"path": "last"}), "done", "done"]) as server:
        spec = default_specification("m", server.url)
        options: dict[str, Any] = {f"{name}_awareness_enabled": True for name in SENSES}
        for supplement in ("Only this.", ""):
            with (
                create_client(spec) as client,
                init_session(
                    spec,
                    workspace=tree,
                    bare=True,
                    system_prompt_supplement=supplement,
                    durable=False,
                    on_event=lambda name, event: told.append(name),
                    strict_cache_proof=False,
                    **options,
                ) as session,
            ):
                run_turn(client, "m", session, " the task ").raise_for_status()
        bodies = [request.json for request in server.requests]
    first, second, third = (body["messages"] for body in bodies)
    assert [{"role": "system", "content": "Only this."}, {"role": "user", "content": " the task "}] == first
    assert "x" == second[-1]["content"]
    assert [{"role": "user", "content": " the task "}] == third
    assert "awareness_checklist" not in told


def test_two_sessions_of_a_spec_begin_with_the_same_bytes(tree: Path) -> None:
    """Model, tools and the whole prompt, to the first byte of the question; nothing of the moment is before that."""
    (tree / "AGENTS.md").write_text("Be kind.")
    with ScriptServer(["done", "done"]) as server:
        spec = default_specification("m", server.url)
        for _ in range(2):
            with (
                create_client(spec) as client,
                init_session(spec, workspace=tree, durable=False, strict_cache_proof=False) as session,
            ):
                run_turn(client, "m", session, "go").raise_for_status()
                BENCH.clock.advance(3_600)  # type: ignore[attr-defined]
            (tree / "src" / "f1").write_text("changed in between")
        one, other = (request.body for request in server.requests)
    head = one.index(b'{"role":"user"')
    assert one[:head] == other[:head]
    assert b"Be kind." in one[:head]
    assert b"<environment>" in one[head:]
    assert os.fsencode(tree) not in one[:head]


def test_a_resume_and_a_replay_send_what_was_sent(tree: Path) -> None:
    """A prompt whose files have changed since, times and counts: all of it stands as it was recorded."""
    (tree / "AGENTS.md").write_text("Be kind.")
    script: Sequence[Any] = [Call("read_file", {"path": "last"}), "done", "done"]
    with ScriptServer(script) as server:
        spec = default_specification("m", server.url)
        for task in ("go", "and on"):
            with (
                create_client(spec) as client,
                init_session(spec, workspace=tree, session_id="kept", strict_cache_proof=False) as session,
            ):
                run_turn(client, "m", session, task).raise_for_status()
            (tree / "AGENTS.md").write_text("Be cruel.")
            BENCH.clock.advance(3_690)  # type: ignore[attr-defined]
        bodies = [request.body for request in server.requests]
        prefix = bodies[1][
            : bodies[1].rindex(b"]", 0, bodies[1].index(b'"stream"') if b'"stream"' in bodies[1] else None)
        ]
        assert bodies[2].startswith(prefix)
        last = json.loads(bodies[2])["messages"][-1]["content"]
        assert "The session was opened again." in last
        assert "wall since your previous message: 1h01m" in last
        assert "Git:" not in last
        found = replay_session("kept", spec)
    assert (True, ()) == (found.is_same, found.sections)


def test_a_list_of_sessions_shows_the_question_alone(tree: Path) -> None:
    """What plait has written below it is no part of what the user asked."""
    with init_session(SPEC, workspace=tree, session_id="shown", strict_cache_proof=False) as session:
        run_turn(ScriptedModel(["done"]), "m", session, "go\n\non").raise_for_status()
    (glance,) = Sessions.of(os.environ).listed(None)
    assert "go on" == glance.first_words
    marks = turn_marks(load_journal(Sessions.of(os.environ).find("shown").journal).entries)
    assert "go\n\non" == marks[-1].question


def test_what_was_emptied_is_told_again(tree: Path) -> None:
    """After `clear_session` the next question says where the session is, in full."""
    from plait.session.history.resetting import clear_session

    with init_session(SPEC, workspace=tree, durable=False, **only("system")) as session:
        run_turn(ScriptedModel(["done"]), "m", session, "go").raise_for_status()
        run_turn(ScriptedModel(["done"]), "m", session, "on").raise_for_status()
        assert ["on"] == contents(session, "user")[1:]
        clear_session(session)
        run_turn(ScriptedModel(["done"]), "m", session, "anew").raise_for_status()
        assert "Working directory: " in contents(session, "user")[0]


def test_a_session_that_goes_on_keeps_its_senses() -> None:
    """Neither the environment nor a default changes what it began with; a keyword does."""
    init = {"session_id": "s", "strict_cache_proof": False}
    with init_session(SPEC, **only("time"), session_id="s") as session:
        run_turn(ScriptedModel(["done"]), "m", session, "go").raise_for_status()
    with init_session(SPEC, **init) as session:  # type: ignore[arg-type]
        assert ["time"] == [name for name in SENSES if session[f"{name}_awareness_enabled"]]
        restored = json.loads(json.dumps(session))
    with init_session(SPEC, session=restored, durable=False) as session:
        assert ["time"] == [name for name in SENSES if session[f"{name}_awareness_enabled"]]
    with init_session(SPEC, time_awareness_enabled=False, **init) as session:  # type: ignore[arg-type]
        run_turn(ScriptedModel(["done"]), "m", session, "on").raise_for_status()
        assert "on" == contents(session, "user")[-1]


def test_the_environment_says_what_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """`PLAIT_AWARENESS` turns senses off, or names those that are on; a name that is none is refused."""
    monkeypatch.setenv("PLAIT_AWARENESS", "time, git")
    with init_session(SPEC | {"git_awareness_enabled": False}, durable=False) as session:
        assert ["time"] == [name for name in SENSES if session[f"{name}_awareness_enabled"]]
    monkeypatch.setenv("PLAIT_AWARENESS", "smell")
    with pytest.raises(ConfigError, match="'smell', which is no sense"):
        init_session(SPEC)


@pytest.mark.parametrize(
    "name, value",
    [
        ("git_awareness_enabled", 1),
        ("token_awareness_budget_tokens", 0),
        ("token_awareness_update_every", True),
        ("token_awareness_reminder_tokens", -1),
    ],
)
def test_values_that_mean_nothing_are_refused(name: str, value: object) -> None:
    """A ConfigError names the keyword."""
    with pytest.raises(ConfigError, match=name):
        init_session(SPEC, **{name: value})  # type: ignore[arg-type]


ALL_OF_IT = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event in (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.getaddrinfo",
) else None)
from plait import init_session, run_turn
from plait.engine.spec import default_specification
from plait.testing import Call, Say, ScriptedModel
read = Say(calls=[Call("read_file", {"path": "last"})])
with init_session(default_specification("m", "http://127.0.0.1:1/v1"), workspace=sys.argv[1], durable=False) as session:
    run_turn(ScriptedModel([read, "one", "two"], allow_unused=True), "m", session, "go").raise_for_status()
    open(sys.argv[1] + "/last", "w").write("changed")
    run_turn(ScriptedModel(["two"]), "m", session, "on").raise_for_status()
first, last = session["messages"][1]["content"], session["messages"][-2]["content"]
print(seen, "Git: on branch main" in first, "ground_moved" in last)
"""


def test_no_process_is_started_whatever_git_is_told_to_run(tree: Path) -> None:
    """With every sense on, over two turns, in a repository whose configuration and hooks name programs."""
    evil = f"touch {tree}/evil"
    with (tree / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n\thooksPath = .\n[log]\n\tshowSignature = true\n")
        file.write(f'[gpg]\n\tprogram = {evil}\n[filter "x"]\n\tclean = {evil}\n[alias]\n\tstatus = !{evil}\n')
    (tree / ".gitattributes").write_text("* filter=x diff=x\n")
    done = subprocess.run(
        [sys.executable, "-c", ALL_OF_IT, str(tree)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ("[] True True\n", False) == (done.stdout, (tree / "evil").exists()), done.stderr
