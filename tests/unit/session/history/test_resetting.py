"""A conversation is emptied or made shorter between two turns, for good."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError, ModelUnavailable, SessionBusy
from plait.core.facts import Reset
from plait.core.messages import ToolCall
from plait.engine.cache.ledger import CacheLedger
from plait.events.named import NamedEvent
from plait.kernel.effects import Ask
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from plait.kernel.tools import Tool
from plait.models.chat_model import chat_model
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.history.resetting import clear_session, compact_session
from plait.session.history.rewinding import rewind
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptServer
from plait.testing.faults import Status
from plait.wire.profile import WireName
from tests.helpers.warm import run_warm

LONG = "It is a long story. " * 60
SUMMARY = "Objective: tell a story."
TOO_LONG = Status(
    400, {"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 10 tokens."}}
)


@pytest.fixture(autouse=True)
def state(work: Path) -> Path:
    """Keep sessions here, and work elsewhere."""
    return work.parent / "state"


@contextmanager
def talk(server: ScriptServer, tasks: int = 0, **options: Any) -> Iterator[tuple[Session, Any]]:
    """Open the session `s` at a server, hold some turns of it, and give it."""
    spec = built_in_spec("any", server.url)
    options = {"session_id": "s", "strict_cache_proof": False, **options}
    with create_client(spec) as client, init_session(spec, **options) as session:
        for number in range(tasks):
            assert "completed" == run_turn(client, "any", session, f"task {number + 1}").status
        yield session, client


def place() -> SessionFolder:
    """Return where the session is kept."""
    return Sessions.of(os.environ).place_of("s")


def said(session: Session) -> list[str]:
    """Return what stands in the conversation, the system prompt left out."""
    return [str(item["content"]) for item in session["messages"] if item["role"] != "system"]


def asked(server: ScriptServer, number: int = -1) -> list[str]:
    """Return the messages of a request, the system prompt left out."""
    return [str(item["content"]) for item in server.requests[number].json["messages"] if item["role"] != "system"]


def resets() -> list[str]:
    """Return why history was replaced, as the journal has it."""
    return [fact.why for fact in load_journal(place().journal).facts if isinstance(fact, Reset)]


def look(**_: object) -> str:
    """Look at something."""
    return LONG


LOOK = Tool("look", "Look.", look, parameters={"type": "object"}, idempotent=True)


# clear


def test_a_cleared_session_stays_cleared() -> None:
    """The list keeps the system prompt alone, the next request has nothing else, and so it is after a resume."""
    with ScriptServer(["First.", "Second.", "Third."]) as server:
        with talk(server, 1) as (session, client):
            system = session["messages"][0]
            assert 2 == clear_session(session)
            assert [system] == session["messages"]
            assert 0 == session["usage_totals"]["total"]
            run_turn(client, "any", session, "anew")
            assert ["anew"] == asked(server)
            assert 2 == clear_session(session)
        with talk(server) as (session, client):
            assert [system] == session["messages"]
            assert 0 == session["usage_totals"]["total"]
            run_turn(client, "any", session, "once more")
            assert ["once more"] == asked(server)
            assert session["usage_totals"]["total"] > 0
        assert ["clear", "clear"] == resets()
        assert replay_session(place(), built_in_spec("any", server.url)).is_same


def test_a_cleared_session_can_be_taken_back() -> None:
    """What was said is in the journal: a rewind goes to before it was cleared."""
    with ScriptServer(["First.", "Second."]) as server, talk(server, 2) as (session, _):
        clear_session(session)
        assert 0 == len(said(session))
        rewind(session, 1)
        assert ["task 1", "First."] == said(session)
        rewind(session, 2)
        assert ["task 1", "First.", "task 2", "Second."] == said(session)


def test_what_a_host_put_into_the_list_is_cleared_too() -> None:
    """Edits that no request has seen go with the rest, and leave nothing behind that the next turn would record."""
    with ScriptServer(["First.", "Second."]) as server, talk(server, 1) as (session, client):
        session["messages"].append({"role": "user", "content": "by the way"})
        clear_session(session)
        session["messages"].append({"role": "user", "content": "once more"})
        clear_session(session)
        run_turn(client, "any", session, "anew")
        assert ["anew"] == asked(server)
        assert ["anew", "Second."] == said(session)
        assert ["clear"] == resets()


def test_a_session_that_was_never_used_leaves_nothing(state: Path) -> None:
    """Clearing and compacting nothing records nothing."""
    with ScriptServer([]) as server, talk(server) as (session, client):
        assert 0 == clear_session(session)
        assert not state.exists()
        assert not compact_session(client, "any", session)


def test_a_turn_that_waits_is_closed_by_clearing() -> None:
    """A call that waits for an answer does not run any more, and the session goes on with an empty history."""

    class Later:
        def approve(self, call: ToolCall, tool: Tool) -> Ask:
            return Ask("r1")

    gated = Tool("gated", "Ask first.", look, parameters={"type": "object"}, mutates=True)
    script: list[Any] = [Say(calls=[Call("gated")]), "Done."]
    with ScriptServer(script) as server, talk(server, tools=[gated], approver=Later()) as (session, client):
        assert "waiting" == run_turn(client, "any", session, "go").status
        with pytest.raises(ConfigError, match="unfinished"):
            compact_session(client, "any", session)
        clear_session(session)
        assert not session.is_unfinished
        assert "Done." == run_turn(client, "any", session, "anew").final_reply
        assert ["anew"] == asked(server)


def test_an_unkept_session_is_cleared_as_well() -> None:
    """Without a journal the same holds as long as the session lives; usage of before it was restored is gone too."""
    with ScriptServer(["First.", "Second."]) as server, talk(server, 1, durable=False) as (session, client):
        earlier = dict(session)
        spec = built_in_spec("any", server.url)
        with init_session(spec, session=earlier, durable=False, strict_cache_proof=False) as restored:
            assert restored["usage_totals"]["total"] > 0
            clear_session(restored)
            assert 0 == restored["usage_totals"]["total"]
            run_turn(client, "any", restored, "anew")
            assert ["anew"] == asked(server)


def test_only_an_open_idle_session_is_cleared() -> None:
    """In the middle of a turn it is busy, and its dict is no session."""
    told: list[str] = []

    def during(**_: object) -> str:
        for attempt in (lambda: clear_session(session), lambda: compact_session(client, "any", session)):
            with pytest.raises(SessionBusy):
                attempt()
            told.append("busy")
        return "ok"

    tool = Tool("during", "Try.", during, parameters={"type": "object"})
    with (
        ScriptServer([Say(calls=[Call("during")]), "Done."]) as server,
        talk(server, tools=[tool]) as (
            session,
            client,
        ),
    ):
        run_turn(client, "any", session, "go")
        assert ["busy", "busy"] == told
        with pytest.raises(ConfigError, match="open session"):
            clear_session(dict(session))  # type: ignore[arg-type]


# compact


def test_old_turns_become_a_summary() -> None:
    """History is the summary and the last turns; the summary counts, is told of, and survives a resume."""
    events: list[NamedEvent] = []
    with ScriptServer([LONG, LONG, "Third.", SUMMARY, "Fourth.", "Fifth."]) as server:
        with talk(server, 3, on_event=lambda _, event: events.append(event)) as (session, client):
            before = session["usage_totals"]["total"]
            told = compact_session(client, "any", session, keep_last_turns=1)
            assert told
            assert ("completed", SUMMARY, "", None) == (told.status, told.summary, told.reason, told.error)
            assert (6, 3) == (told.messages_before, told.messages_after)
            assert told.chars_before - told.chars_after > 2_000
            assert told.usage.total
            assert before + told.usage.total == session["usage_totals"]["total"]
            assert [SUMMARY, "task 3", "Third."] == said(session)
            assert session["messages"][1]["compacted_summary"] is True
            (told_event,) = [event for event in events if event.type == "compaction"]
            assert (SUMMARY, 4) == (told_event["summary"], told_event["compacted_turns"])
            # The request for it goes on from the last one, and names its own purpose.
            assert asked(server, 2) == asked(server, 3)[:5]
            assert server.requests[2].json["tools"] == server.requests[3].json["tools"]
            run_turn(client, "any", session, "task 4")
            used = session["usage_totals"]["total"]
        with talk(server) as (session, client):
            assert used == session["usage_totals"]["total"]
            run_turn(client, "any", session, "task 5")
            assert [SUMMARY, "task 3", "Third.", "task 4", "Fourth.", "task 5"] == asked(server)
        assert ["compaction"] == resets()
        assert replay_session(place(), built_in_spec("any", server.url)).is_same
        with talk(server) as (session, _):
            rewind(session, 2)
            assert ["task 1", LONG.strip(), "task 2", LONG.strip()] == [text.strip() for text in said(session)]


def test_one_long_turn_is_compacted_by_its_steps() -> None:
    """Its task stays word for word, and so do its last steps."""
    steps = [Say(calls=[Call("look")]) for _ in range(5)]
    with ScriptServer([*steps, "Done.", SUMMARY]) as server, talk(server, 1, tools=[LOOK]) as (session, client):
        assert compact_session(client, "any", session)
        assert ["task 1", SUMMARY, "None", LONG.strip(), "Done."] == [text.strip() for text in said(session)]
        assert fault_in(fold(load_journal(place().journal).facts).history) is None


def test_all_turns_may_go() -> None:
    """With nothing kept the summary is all there is, and the next question follows it."""
    with ScriptServer([LONG, SUMMARY, "Second."]) as server, talk(server, 1) as (session, client):
        assert compact_session(client, "any", session, keep_last_turns=0)
        assert [SUMMARY] == said(session)
        run_turn(client, "any", session, "go on")
        assert [SUMMARY, "go on"] == asked(server)


@pytest.mark.parametrize("answer", [LONG, ""], ids=["longer", "empty"])
def test_what_gains_nothing_is_paid_for_all_the_same(answer: str) -> None:
    """The history stays, the tokens count, also after a resume."""
    events: list[str] = []
    script: list[Any] = ["One.", "Two.", "Three.", answer]
    with ScriptServer(script) as server:
        with talk(server, 3, on_event=lambda name, _: events.append(name)) as (session, client):
            before, history = session["usage_totals"]["total"], said(session)
            told = compact_session(client, "any", session, keep_last_turns=1)
            assert not told
            assert told.reason
            assert ("completed", None) == (told.status, told.error)
            assert history == said(session)
            used = session["usage_totals"]["total"]
            assert before + (told.usage.total or 0) == used > before
            assert 1 == events.count("compaction_skipped")
        with talk(server) as (session, client):
            assert used == session["usage_totals"]["total"]
            assert history == said(session)


def test_nothing_older_is_nothing_to_do() -> None:
    """No request is made where there is nothing to summarise."""
    events: list[str] = []
    with ScriptServer(["One.", "Two."]) as server:
        with talk(server, 2, on_event=lambda name, _: events.append(name)) as (session, client):
            told = compact_session(client, "any", session)
            assert ("", "there is nothing older than what is kept") == (told.summary, told.reason)
            assert "compaction_skipped" == events[-1]
        assert 2 == len(server.requests)


def test_a_request_that_fails_changes_nothing() -> None:
    """The error that no waiting helps against is on the result and told of; the history is as it was."""
    events: list[NamedEvent] = []
    away = Status(503, headers={"Retry-After": "3600"})
    script: list[Any] = [LONG, LONG, "Three.", away, SUMMARY]
    with (
        ScriptServer(script) as server,
        talk(server, 3, on_event=lambda _, event: events.append(event)) as (
            session,
            client,
        ),
    ):
        history = said(session)
        told = compact_session(client, "any", session)
        assert not told
        assert "error" == told.status
        assert isinstance(told.error, ModelUnavailable)
        assert history == said(session)
        assert "error" == events[-1].type
        with pytest.raises(ModelUnavailable):
            told.raise_for_status()
        assert compact_session(client, "any", session).raise_for_status()


def test_what_does_not_fit_is_sent_in_part() -> None:
    """When the whole is too long only what goes is sent; when that is too long as well, a list of it stands in."""
    script: list[Any] = [LONG, LONG, "Three.", TOO_LONG, SUMMARY, LONG, "Five.", TOO_LONG, TOO_LONG]
    with ScriptServer(script) as server, talk(server, 3) as (session, client):
        assert SUMMARY == compact_session(client, "any", session, keep_last_turns=1).summary
        assert 5 == len(asked(server))
        for task in ("task 4", "task 5"):
            run_turn(client, "any", session, task)
        summary = compact_session(client, "any", session, keep_last_turns=1).summary
        assert SUMMARY in summary
        assert "Asked: task 4" in summary


def test_a_summary_can_be_given_up() -> None:
    """Its deadline ends the wait, and nothing is replaced."""
    with ScriptServer([LONG, LONG, "Three.", Say(SUMMARY, delay_s=30)]) as server, talk(server, 3) as (session, client):
        history = said(session)
        told = compact_session(client, "any", session, timeout=0.2)
        assert "interrupted" == told.status
        assert not told
        assert history == said(session)


def test_an_answers_type_does_not_hold_for_a_summary() -> None:
    """A session whose answers are values is summarised in words, and its answers are values after it."""
    value = Say(calls=[Call("final_answer", {"words": LONG})])
    script: list[Any] = [value, value, value, SUMMARY, Say(calls=[Call("final_answer", {"words": "x"})])]
    schema = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
    with ScriptServer(script) as server, talk(server, 3, output_type=schema) as (session, client):
        name = server.requests[0].json["tools"][-1]["function"]["name"]
        assert "final_answer" == name
        assert SUMMARY == compact_session(client, "any", session).summary
        assert "none" == server.requests[3].json["tool_choice"]
        value_of: Any = run_turn(client, "any", session, "last").output
        assert {"words": "x"} == value_of


def test_numbers_that_mean_nothing_are_refused() -> None:
    """Fewer than no turns cannot be kept, nor can a deadline lie in the past."""
    with ScriptServer([]) as server, talk(server) as (session, client):
        with pytest.raises(ValueError, match="-1 turns"):
            compact_session(client, "any", session, keep_last_turns=-1)
        with pytest.raises(ValueError, match="-1 seconds"):
            compact_session(client, "any", session, timeout=-1)


def test_the_cache_is_told_why() -> None:
    """The first request after either leaves the one before it where history was replaced, and names the reason."""
    with ScriptServer([LONG, LONG, "Three.", SUMMARY, "Four.", "Five."]) as server:
        with talk(server, 3) as (session, client):
            compact_session(client, "any", session)
            run_turn(client, "any", session, "task 4")
            clear_session(session)
        with talk(server) as (session, client):
            run_turn(client, "any", session, "task 5")
    journal = load_journal(place().journal)
    requests = CacheLedger().take_all(journal.facts, journal.told.times_ms)
    assert ["step", "step", "step", "compaction", "step", "step"] == [request.purpose for request in requests]
    departures = [None if request.departure is None else request.departure.why for request in requests]
    assert [None, None, None, None, "compaction", "clear"] == departures


WIRES: list[WireName] = ["chat", "responses", "anthropic"]


@pytest.mark.parametrize("wire", WIRES)
def test_every_wire_takes_what_is_left(wire: WireName) -> None:
    """After a compaction in the middle of calls the history is one that each wire's providers take."""
    round_ = Say("I look.", calls=[Call("look"), Call("look")])
    script: list[Any] = [round_, round_, "One.", round_, round_, round_, "Two.", SUMMARY, "Three.", SUMMARY, "Four."]
    with ScriptServer(script) as server, talk(server, tools=[LOOK]) as (session, _):
        model = chat_model("any", server.url, wire=wire, api_key="k")
        for task in ("task 1", "task 2"):
            assert "completed" == run_turn(model, "any", session, task).status
        assert compact_session(model, "any", session, keep_last_turns=1)
        assert "Three." == run_turn(model, "any", session, "task 3").final_reply
        assert_valid(wire, server.requests[-1].json)
        assert compact_session(model, "any", session, keep_last_turns=0)
        assert "Four." == run_turn(model, "any", session, "task 4").final_reply
        assert_valid(wire, server.requests[-1].json)
        model.close()


def assert_valid(wire: WireName, body: Any) -> None:
    """Check what providers of a wire refuse: results without calls, calls without results, a model's word first."""
    if wire == "responses":
        calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        results = [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
        assert calls == results
        return
    messages = [message for message in body["messages"] if message["role"] != "system"]
    assert "user" == messages[0]["role"]
    if wire == "anthropic":
        assert all(one["role"] != "assistant" or other["role"] == "user" for one, other in pairwise(messages))
    open_calls: list[str] = []
    for message in messages:
        parts = message["content"] if isinstance(message["content"], list) else []
        results = [part["tool_use_id"] for part in parts if part.get("type") == "tool_result"]
        if message["role"] == "tool":
            assert open_calls.pop(0) == message["tool_call_id"]
            continue
        assert open_calls == results
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        open_calls += [part["id"] for part in parts if part.get("type") == "tool_use"]
    assert [] == open_calls


KILLED = """
import os, signal, sys
from plait import create_client, init_session, run_turn
from plait.cli.specs import built_in_spec
from plait.session.history.resetting import clear_session, compact_session

url, what = sys.argv[1:]
spec = built_in_spec("any", url)
client = create_client(spec)
session = init_session(spec, session_id="s", strict_cache_proof=False)
for number in range(3):
    run_turn(client, "any", session, f"task {number + 1}")
if what == "clear":
    clear_session(session)
else:
    assert compact_session(client, "any", session)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("what", ["clear", "compact"])
def test_it_is_safe_when_it_returns(what: str) -> None:
    """A process that is killed right after leaves a session that stays as it was told to be."""
    left = [] if what == "clear" else [SUMMARY, "task 2", LONG.strip(), "task 3", "Three."]
    script: list[Any] = [LONG, LONG, "Three.", *([SUMMARY] if left else []), "Four."]
    with ScriptServer(script) as server:
        killed = run_warm([sys.executable, "-c", KILLED, server.url, what], check=False, timeout=60)
        assert -signal.SIGKILL == killed.returncode
        with talk(server) as (session, client):
            assert left == [text.strip() for text in said(session)]
            run_turn(client, "any", session, "task 4")
            assert [*left, "task 4"] == [text.strip() for text in asked(server)]
        assert replay_session(place(), built_in_spec("any", server.url)).is_same


KILLED_WITHIN = """
import os, signal, sys
from plait import Tool, create_client, init_session, run_turn
from plait.cli.specs import built_in_spec

def die():
    "Die."
    os.kill(os.getpid(), signal.SIGKILL)

spec = built_in_spec("any", sys.argv[1])
tool = Tool("die", "Die.", die)
session = init_session(spec, session_id="s", strict_cache_proof=False, tools=[tool])
run_turn(create_client(spec), "any", session, "go")
"""


def test_a_turn_that_a_crash_left_is_closed_by_clearing() -> None:
    """It is not gone on with, its calls are not run again, and compacting asks to finish it first."""
    with ScriptServer([Say(calls=[Call("die")]), "Anew."]) as server:
        killed = run_warm([sys.executable, "-c", KILLED_WITHIN, server.url], check=False, timeout=60)
        assert -signal.SIGKILL == killed.returncode
        with talk(server) as (session, client):
            assert [True] == [session.is_unfinished]
            with pytest.raises(ConfigError, match="unfinished"):
                compact_session(client, "any", session)
            assert 3 == clear_session(session)
            assert [False] == [session.is_unfinished]
        with talk(server) as (session, client):
            run_turn(client, "any", session, "anew")
            assert ["anew"] == asked(server)
        assert replay_session(place(), built_in_spec("any", server.url)).told.difference is None
