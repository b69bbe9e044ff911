"""A session that is kept: what is on disk when, who may open it, and what a resume finds."""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from plait.core.errors import ConfigError, JournalFull, JournalPoisoned, SessionBusy
from plait.core.facts import Decided, Fact, MessageAdded, Observation, Reset, ToolEnd, ToolStart, TurnEnd, TurnStart
from plait.core.messages import Message, Text, ToolCall, user
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import default_specification
from plait.events.named import NamedEvent
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.tasks import run_task
from plait.session.turns import run_turn
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal, open_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Fail, Say, ScriptedModel, ScriptServer

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
ECHO = Tool("echo", "Say it again.", lambda text: f"echo:{text}", parameters={"type": "object"}, mutates=True)
HI = Call("echo", {"text": "hi"})


def opened(**options: Any) -> Session:
    """Return a session with the tool `echo`."""
    return init_session(SPEC, **{"tools": [ECHO], "strict_cache_proof": False, **options})


def ask(session: Session, *script: Any, task: str | None = "Go on.") -> ScriptedModel:
    """Run a turn on a script and return the model, which knows what it was asked."""
    with ScriptedModel([*script]) as model:
        assert run_turn(model, "m", session, task).error is None
    return model


def place(name: str) -> SessionFolder:
    """Return where a session is kept."""
    return Sessions.of(os.environ).place_of(name)


def facts(name: str) -> list[Fact]:
    """Return what the journal of a session holds."""
    return load_journal(place(name).journal).facts


def files() -> list[str]:
    """Return what there is below the state folder."""
    home = Path(os.environ["PLAIT_HOME"])
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def left_open(name: str, *what: Fact) -> None:
    """Leave a journal as a crash leaves it."""
    log = open_journal(place(name).path, name, lambda: 1).log
    log.append(what)
    log.close()


def called(*calls: str) -> MessageAdded:
    """Return an answer that calls `echo`."""
    return MessageAdded(Message("assistant", tuple(ToolCall(call, "echo", '{"text": "x"}') for call in calls)))


def test_a_session_that_is_not_used_leaves_nothing() -> None:
    """Opening and closing one makes no file, and no folder."""
    with opened(), opened(session_id="named"):
        pass

    assert not Path(os.environ["PLAIT_HOME"]).exists()


def test_e36_what_happened_is_in_the_journal_in_order() -> None:
    """A call's start stands before it runs, its end after; the folder and the files are the user's alone."""
    seen: list[str] = []

    def look() -> str:
        seen.extend(type(fact).__name__ for fact in facts("s"))
        return "looked"

    tool = Tool("look", "", look, parameters={"type": "object"}, mutates=True)
    with opened(session_id="s", tools=[tool]) as session:
        ask(session, Call("look", {}), "Done.", task="Look.")

    assert ["Observation", "TurnStart", "MessageAdded", "MessageAdded", "ToolStart"] == seen
    names = [*seen, "ToolEnd", "RoundClosed", "MessageAdded", "TurnEnd", "Observation"]
    assert names == [type(fact).__name__ for fact in facts("s")]
    assert {0o700, 0o600} == {place("s").path.stat().st_mode & 0o777, place("s").journal.stat().st_mode & 0o777}
    start, end = facts("s")[0], facts("s")[-1]
    assert isinstance(start, Observation)
    assert isinstance(end, Observation)
    assert ("session_start", "session_end") == (start.type, end.type)
    assert ("m", SPEC["endpoint"], {}, os.getcwd()) == tuple(
        start.data[name] for name in ("model", "endpoint", "key", "cwd")
    )


def test_e37_a_session_that_is_not_to_be_kept() -> None:
    """Neither the caller's word nor the spec's leaves a file."""
    with opened(durable=False) as session:
        ask(session, "ok")
    with init_session(AgentSpec({**SPEC, "durable": False}), strict_cache_proof=False) as session:
        ask(session, "ok")

    assert [] == files()
    assert session.kept_in is None


def test_a_named_session_goes_on() -> None:
    """Under its name everything is as it was: messages, system prompt, usage, counts; and it is told."""
    with opened(session_id="s", system_prompt_supplement="Be old.") as session:
        ask(session, HI, Say("One.", usage={"input": 10, "output": 2}), task="Begin.")
        before = dict(session)
    heard: list[NamedEvent] = []
    with opened(session_id="s", system_prompt_supplement="Be new.", on_event=lambda _, e: heard.append(e)) as session:
        same = ("messages", "usage_totals", "llm_call_count", "session_id", "cache_key")
        assert [before[name] for name in same] == [session[name] for name in same]
        assert abs(before["session_start_ts"] - session["session_start_ts"]) < 60
        model = ask(session, "Two.")
        assert before["usage_totals"]["prompt"] < session["usage_totals"]["prompt"]
        assert 3 == session["llm_call_count"]

    assert ["session_resumed", "journal_recovered"] == [event.type for event in heard[:2]]
    assert ("s", 5, None, "") == tuple(
        heard[0][name] for name in ("session_id", "messages_loaded", "source_model", "notice")
    )
    assert (0, False, 0) == tuple(heard[1][name] for name in ("pending", "mid_turn", "torn_bytes"))
    assert model.requests[0].setup.system.endswith("Be old.")
    assert ["Begin.", "", "", "One.", "Go on."] == [message.content for message in model.requests[0].messages]


def test_a_name_that_nobody_has_begins_a_session() -> None:
    """It is told with no messages, and the journal has that name."""
    heard: list[NamedEvent] = []
    with opened(session_id="new", on_event=lambda _, event: heard.append(event)) as session:
        ask(session, "ok")

    assert ("session_resumed", 0) == (heard[0].type, heard[0]["messages_loaded"])
    assert "new" == load_journal(place("new").journal).conversation


@pytest.mark.parametrize("text", ["begun-lately", "begun", "folder"])
def test_what_resumed_from_may_be(text: str) -> None:
    """A name, the beginning of one that only it has, or the folder."""
    with opened(session_id="begun-lately") as session:
        ask(session, "One.")
    with opened(resumed_from=str(place("begun-lately").path) if text == "folder" else text) as session:
        assert ("begun-lately", 3) == (session["session_id"], len(session["messages"]))


def test_names_that_contradict_each_other_or_cannot_be() -> None:
    """Two sessions at once, or a name with a slash in it, are refused before anything is made."""
    for options in ({"session_id": "a", "resumed_from": "b"}, {"session_id": "a/b"}, {"resumed_from": "./nothing"}):
        with pytest.raises(ConfigError):
            opened(**options)

    assert [] == files()


def test_a_session_has_one_writer() -> None:
    """A second opener is told the process that has it; reading goes on; closed or dropped, it is free."""
    session = opened(session_id="s")
    ask(session, "One.")
    with pytest.raises(SessionBusy) as caught:
        opened(session_id="s")
    assert os.getpid() == caught.value.owner_pid
    assert facts("s")
    session.close()
    again = opened(session_id="s")
    del again
    gc.collect()
    with opened(session_id="s") as session:
        ask(session, "Two.")


def test_two_new_sessions_of_one_name() -> None:
    """The one whose turn begins first has it; the other is told, and nothing is mixed."""
    with opened(session_id="s") as one, opened(session_id="s") as other:
        ask(one, "One.", task="first")
        with pytest.raises(SessionBusy):
            ask(other, task="second")
        one.close()
        with pytest.raises(SessionBusy, match="begun by somebody else"):
            ask(other, task="second")

    assert ["first"] == [
        f.message.content for f in facts("s") if isinstance(f, MessageAdded) and f.message.role == "user"
    ]


def test_edits_of_the_host_survive() -> None:
    """Messages that were changed, taken out or cleared are so after a resume, the system prompt too."""
    with opened(session_id="s") as session:
        ask(session, "One.", task="Begin.")
        session["messages"][0]["content"] = "Be terse."
        session["messages"][1]["content"] = "Begin better."
        ask(session, "Two.")
    with opened(session_id="s") as session:
        assert ["Be terse.", "Begin better.", "One.", "Go on.", "Two."] == [m["content"] for m in session["messages"]]
        del session["messages"][1:]
        model = ask(session, "Three.", task="Anew.")
        assert ["Anew."] == [message.content for message in model.requests[0].messages]
        assert "Be terse." == model.requests[0].setup.system
    with opened(session_id="s") as session:
        assert ["Be terse.", "Anew.", "Three."] == [message["content"] for message in session["messages"]]


def test_e41_a_session_goes_on_where_it_began() -> None:
    """The earliest start decides: its endpoint and its key; what is not used is told, the given spec stays as it is."""
    seen: list[str | None] = []
    os.environ.update(KEY_A="secret-a", KEY_B="secret-b")
    with ScriptServer(["One.", "Two."]) as server:
        spec = AgentSpec({**SPEC, "endpoint": server.url, "key_env": "KEY_A"})
        run_task(spec, "Begin.", session_id="s", strict_cache_proof=False)
        other = AgentSpec({**SPEC, "endpoint": "http://127.0.0.1:9/v1", "key_env": "KEY_B"})
        before = json.dumps(other)
        heard: list[NamedEvent] = []
        result = run_task(
            other, "Go on.", session_id="s", strict_cache_proof=False, on_event=lambda _, event: heard.append(event)
        )
        seen = [request.headers.get("authorization") for request in server.requests]

    assert ("Two.", before) == (result.final_reply, json.dumps(other))
    assert ["Bearer secret-a"] * 2 == seen
    notice = str(heard[0]["notice"])
    assert all(
        word in notice
        for word in (server.url, "key_env KEY_A", "not used: endpoint http://127.0.0.1:9/v1, key_env KEY_B")
    )
    assert b"secret" not in place("s").journal.read_bytes()


def test_e42_another_model_goes_on_with_a_copy() -> None:
    """The session itself is byte for byte as it was; the copy says where it is from, and goes on by itself."""
    with opened(session_id="s") as session:
        ask(session, HI, "One.", task="Begin.")
    before = place("s").journal.read_bytes()
    other = AgentSpec({**SPEC, "model": "n", "endpoint": "http://127.0.0.1:2/v1"})
    heard: list[NamedEvent] = []
    ids = []
    for _ in range(2):
        with init_session(
            other, session_id="s", tools=[ECHO], strict_cache_proof=False, on_event=lambda _, event: heard.append(event)
        ) as session:
            ids.append(session["session_id"])
            model = ask(session, "Two.")
            assert ("n", "http://127.0.0.1:2/v1") == (session["model"], session["endpoint"])

    assert before == place("s").journal.read_bytes()
    assert 1 == len(set(ids))
    assert ids[0].startswith("s-")
    assert "m" == heard[0]["source_model"]
    start = facts(ids[0])[0]
    assert isinstance(start, Observation)
    assert {"session_id": "s", "model": "m", "endpoint": SPEC["endpoint"]} == start.data["ported_from"]
    assert ["Begin.", "", "", "One.", "Go on.", "Two.", "Go on."] == [m.content for m in model.requests[0].messages]


def test_what_a_crash_left_is_looked_into_once() -> None:
    """A finished call is not run again and its whole result is used, a lost one is unknown, once and for good."""
    left_open("s", TurnStart(), MessageAdded(user("Begin.")), called("a", "b"), ToolStart("a"))
    with opened(session_id="s") as session:
        session._live.log.append((ToolEnd(result_of("a", "whole " * 500)),))
        session._live.conversation.state.apply(ToolEnd(result_of("a", "whole " * 500)))
        session._live.log.append((ToolStart("b"),))
        session._live.conversation.state.apply(ToolStart("b"))
    ran: list[str] = []
    tool = Tool("echo", "", lambda text: ran.append(text), parameters={"type": "object"}, mutates=True)
    heard: list[NamedEvent] = []
    with opened(session_id="s", tools=[tool], on_event=lambda _, event: heard.append(event)) as session:
        assert session.is_unfinished
        model = ask(session, "Recovered.", "And more.")
        assert not session.is_unfinished
    results = model.requests[0].messages[2].tool_results

    assert [] == ran
    assert [("ok", "whole " * 500), "unknown"] == [(results[0].status, results[0].content), results[1].status]
    assert (1, True) == (heard[1]["pending"], heard[1]["mid_turn"])
    assert ["Begin.", "", "", "Recovered.", "Go on."] == [message.content for message in model.requests[1].messages]
    with opened(session_id="s", on_event=lambda _, event: heard.append(event)) as session:
        ask(session, "Later.")
    assert 1 == sum(isinstance(fact, Observation) and fact.type == "recovered" for fact in facts("s"))
    assert 2 == sum(isinstance(fact, ToolEnd) for fact in facts("s"))
    assert (0, False) == tuple(
        [e for e in heard if e.type == "journal_recovered"][1][name] for name in ("pending", "mid_turn")
    )


def result_of(call_id: str, text: str) -> Any:
    """Return a good result."""
    from plait.core.messages import ToolResult

    return ToolResult(call_id, text)


def test_only_the_unfinished_turn_goes_on() -> None:
    """Without a task the turn that was left open comes to its end, and nothing follows."""
    left_open("s", TurnStart(), MessageAdded(user("Begin.")))
    with opened(session_id="s") as session:
        model = ask(session, "One.", task=None)

    assert ["Begin."] == [message.content for message in model.requests[0].messages]
    assert 1 == sum(isinstance(fact, TurnStart) for fact in facts("s"))


def test_a_turn_whose_question_was_lost_is_over() -> None:
    """A start without its message was never told to be safe: it is closed, and what is asked now is asked."""
    left_open("s", TurnStart())
    with opened(session_id="s") as session:
        assert not session.is_unfinished
        model = ask(session, "One.", task="Begin.")

    assert ["Begin."] == [message.content for message in model.requests[0].messages]
    assert ["interrupted", "completed"] == [fact.reason for fact in facts("s") if isinstance(fact, TurnEnd)]


def test_a_failed_question_is_asked_again_after_a_resume() -> None:
    """An unanswered question becomes part of the next one, in the journal as in memory."""
    with opened(session_id="s") as session, ScriptedModel([Fail("bad_request")]) as failing:
        assert "error" == run_turn(failing, "m", session, "First.").status
    with opened(session_id="s") as session:
        model = ask(session, "Both.", task="Second.")

    assert ["First.\n\nSecond."] == [message.content for message in model.requests[0].messages]
    assert any(isinstance(fact, Reset) and fact.why == "user_merge" for fact in facts("s"))


def test_a_restored_dict_goes_on_in_its_journal() -> None:
    """Where the dict says something else than the journal, that is an edit of its host."""
    with opened(session_id="s") as session:
        ask(session, "One.", task="Begin.")
    stored = json.loads(json.dumps(session))
    stored["messages"][1]["content"] = "Begin better."
    with opened(session=stored) as session:
        model = ask(session, "Two.")

    assert ["Begin better.", "One.", "Go on."] == [message.content for message in model.requests[0].messages]
    assert any(isinstance(fact, Reset) and fact.why == "host_edit" for fact in facts("s"))


def test_a_dict_without_a_journal_begins_one() -> None:
    """A session that was kept nowhere is, from its next turn on, with all it had."""
    with opened(durable=False) as session:
        ask(session, "One.", task="Begin.")
    with opened(session=dict(session)) as again:
        assert [] == files()
        ask(again, "Two.")
    with opened(session_id=session["session_id"]) as third:
        assert ["Begin.", "One.", "Go on.", "Two."] == [message["content"] for message in third["messages"][1:]]


def test_a_session_that_was_handed_on_writes_no_more() -> None:
    """Two writers of one journal there are never: the old one is told to be opened again."""
    with opened(session_id="s") as old:
        ask(old, "One.")
        with opened(session=old) as new:
            ask(new, "Two.")
        with pytest.raises(JournalPoisoned, match="closed"):
            ask(old, task="Three.")


def test_e38_a_folder_of_ones_own() -> None:
    """`session_dir` holds the session, whatever the state folder is; its name is its own."""
    with opened(session_dir="kept/here", session_id="s") as session:
        ask(session, "One.")
        with pytest.raises(SessionBusy):
            opened(session_dir="kept/here")
    with opened(session_dir=Path("kept/here").absolute()) as session:
        assert ("s", 3) == (session["session_id"], len(session["messages"]))
    with pytest.raises(ConfigError, match="holds the session 's'"):
        opened(session_dir="kept/here", session_id="t")

    assert [] == files()
    assert Path("kept/here/journal.jsonl").is_file()


def test_a_home_that_cannot_be_written(unprivileged: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    """The turn is not begun without its journal; the error is typed and says where."""
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    code = """
import sys
from plait import JournalError, default_tool_spec, init_session, run_turn
from plait.testing import ScriptedModel
spec = {"model": "m", "endpoint": "http://127.0.0.1:1/v1", "tool_specs": default_tool_spec()[0]}
with ScriptedModel(["one"], allow_unused=True) as model, init_session(spec) as session:
    try:
        run_turn(model, "m", session, "hi")
    except JournalError as error:
        print(type(error).__name__, len(model.requests), error.message)
"""
    ran = unprivileged(code, cwd=tmp_path, env={**os.environ, "PLAIT_HOME": str(home)})

    assert ran.stdout.startswith("JournalError 0 "), ran
    assert "Permission denied" in ran.stdout


def test_a_full_disk(small_disk: Callable[[int], Path]) -> None:
    """What was committed stays; the session goes on when there is room again."""
    disk = small_disk(256 * 1024)
    os.environ["PLAIT_HOME"] = str(disk / "state")
    session = opened(session_id="s")
    ask(session, "One.", task="Begin.")
    fill(disk / "filler")
    with ScriptedModel(["Two."] * 9, allow_unused=True) as model, pytest.raises(JournalFull):
        talk_on(model, session)
    session.close()
    (disk / "filler").unlink()
    with opened(session_id="s") as again:
        assert "Begin." == again["messages"][1]["content"]
        ask(again, *["Room."] * (1 + again.is_unfinished))


def fill(path: Path) -> None:
    """Leave no room on a disk."""
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


def talk_on(model: ScriptedModel, session: Session) -> None:
    """Run turn after turn."""
    while True:
        run_turn(model, "m", session, "x" * 4_000)


def test_an_approver_is_asked_about_what_is_safe() -> None:
    """The message with the call is in the journal when somebody is asked about it."""
    held: list[list[str]] = []

    class Asked:
        def approve(self, call: ToolCall, tool: Tool) -> bool:
            held.append([type(fact).__name__ for fact in facts("s")])
            return True

    with opened(session_id="s", approver=Asked()) as session:
        ask(session, HI, "One.")

    assert [["Observation", "TurnStart", "MessageAdded", "MessageAdded"]] == held


def test_nothing_that_was_said_is_decided_twice() -> None:
    """A call that was decided elsewhere is not asked about again after a resume."""
    left_open("s", TurnStart(), MessageAdded(user("Begin.")), called("a"), Decided("a", False, "Denied by user."))
    with opened(session_id="s") as session:
        model = ask(session, "One.", task=None)

    assert ["denied"] == [result.status for result in model.requests[0].messages[-1].tool_results]


def test_what_the_model_had_said_is_kept() -> None:
    """The words stay whole, lone surrogates and control characters too."""
    words = "half \ud83d, bell \x07, nul \x00, line \u2028"
    with opened(session_id="s") as session:
        ask(session, HI, Say(words), task=words)
    kept = [fact.message for fact in facts("s") if isinstance(fact, MessageAdded)]

    assert [words, words] == [kept[0].content, kept[-1].content]
    assert Text(words) == kept[-1].parts[0]
