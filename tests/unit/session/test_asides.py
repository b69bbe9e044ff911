"""A question beside the conversation: it sees everything, costs what it says, and leaves nothing behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import AuthenticationError, ConfigError
from plait.core.facts import Observation, Reset
from plait.kernel.tools import Tool
from plait.session.asides import PREAMBLE, side_query
from plait.session.clients import create_client
from plait.session.history.reducing import StepReduction
from plait.session.history.replaying import replay_session
from plait.session.history.resetting import clear_session
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Request, Say, ScriptedModel, ScriptServer
from plait.testing.faults import Status

LONG = "nothing in it. " * 60

pytestmark = pytest.mark.usefixtures("work")


@contextmanager
def talk(server: ScriptServer, **options: Any) -> Iterator[tuple[Session, Any]]:
    spec = built_in_spec("any", server.url)
    options = {"session_id": "s", "strict_cache_proof": False, **options}
    with create_client(spec) as client, init_session(spec, **options) as session:
        yield session, client


def is_aside(request: Request) -> bool:
    return request.json.get("tool_choice") == "none"


def notes() -> list[Any]:
    facts = load_journal(Sessions.of(os.environ).place_of("s").journal).facts
    return [fact.data for fact in facts if isinstance(fact, Observation) and fact.data.get("event") == "side_query"]


def test_e34_each_step_is_digested_by_the_model_itself() -> None:
    """Steps become what side queries say of them; these share the prefix and count; a word of theirs ends the turn."""
    heard: list[tuple[str, Any]] = []
    digests = iter(["saw nothing in a", "saw nothing in b", "DONE: it is in c"])

    def digest(session: Session, step: list[dict[str, Any]], *, client: object, model: str) -> Any:
        said = side_query(client, model, session, "Digest the step.", max_tokens=90, preamble=None, count_usage=True)
        if said.startswith("DONE: "):
            return StepReduction([], said.removeprefix("DONE: "))
        return [{"role": "assistant", "content": said}, {"role": "user", "content": "Go on."}]

    def script(request: Request) -> Any:
        return next(digests) if is_aside(request) else Call("look", {"at": request.number})

    look = Tool("look", "Look.", lambda at: LONG, parameters={"type": "object"}, idempotent=True)
    with ScriptServer(script) as server:
        with talk(server, tools=[look], step_reducer=digest, on_event=lambda *told: heard.append(told)) as (
            session,
            client,
        ):
            result = run_turn(client, "any", session, "Where is it?")
            assert ("completed", "it is in c") == (result.status, result.final_reply)
            said = [item["content"] for item in session["messages"][1:]]
            assert ["Where is it?", "saw nothing in a", "Go on.", "saw nothing in b", "Go on.", "it is in c"] == said
            totals = dict(session["usage_totals"])
        steps = [request for request in server.requests if not is_aside(request)]
        asides = [request for request in server.requests if is_aside(request)]
        assert (3, 3) == (len(steps), len(asides))
        for step, aside in zip(steps, asides, strict=True):
            assert step.json["tools"] == aside.json["tools"]
            assert aside.body.startswith(step.body.partition(b'],"stream"')[0])
            assert (90, "Digest the step.") == (aside.json["max_tokens"], aside.json["messages"][-1]["content"])
            assert aside.json.get("prompt_cache_key") == step.json.get("prompt_cache_key")
        spent = [dict(event) for name, event in heard if name == "usage"]
        assert 3 == sum(event["purpose"] == "side_query" for event in spent)
        assert totals == {name: sum(event[name] for event in spent) for name in totals}
        assert ["saw nothing in a", "saw nothing in b", "DONE: it is in c"] == [note["answer"] for note in notes()]
        with talk(server) as (session, _):
            assert totals == session["usage_totals"]
            assert said == [item["content"] for item in session["messages"][1:]]
        whys = [
            fact.why
            for fact in load_journal(Sessions.of(os.environ).place_of("s").journal).facts
            if isinstance(fact, Reset)
        ]
        assert ["step_reducer"] * 3 == whys
        assert replay_session("s", built_in_spec("any", server.url)).told.difference is None


def test_another_thread_asks_while_a_tool_runs() -> None:
    """A call that still runs is shown as running; the turn goes on as if nothing had been asked."""
    gate, asked = threading.Event(), threading.Event()
    answers: list[str] = []

    def wait() -> str:
        asked.set()
        assert gate.wait(20)
        return "waited"

    def script(request: Request) -> Any:
        if is_aside(request):
            return "It waits."
        return Say(calls=[Call("wait")]) if request.number == 1 else "done"

    with ScriptServer(script) as server, talk(server, tools=[Tool("wait", "Wait.", wait)]) as (session, client):

        def aside() -> None:
            assert asked.wait(20)
            answers.append(side_query(client, "any", session, "What is going on?"))
            gate.set()

        other = threading.Thread(target=aside)
        other.start()
        assert "done" == run_turn(client, "any", session, "go").final_reply
        other.join(20)
        assert ["It waits."] == answers
        (request,) = filter(is_aside, server.requests)
        shown = request.json["messages"]
        assert "[still running: wait]" == shown[-2]["content"]
        assert f"{PREAMBLE}\n\nWhat is going on?" == shown[-1]["content"]
        assert ["go", "waited", "done"] == [
            item["content"]
            for item in session["messages"][1:]
            if item["role"] != "assistant" or item["content"] == "done"
        ]
        last = server.requests[-1]
        assert "still running" not in last.body.decode()


def test_between_turns_and_before_the_first() -> None:
    """It is noted and not counted unless that was asked for; a clear counts anew; the next turn knows nothing of it."""
    with ScriptServer(["Nothing yet.", "One.", " It was asked. ", "", "Two."]) as server:
        with talk(server) as (session, client):
            assert "Nothing yet." == side_query(client, "any", session, "What was said?")
            assert ["What was said?"] == [
                str(item["content"]).splitlines()[-1] for item in server.requests[0].json["messages"][1:]
            ]
            run_turn(client, "any", session, "one")
            before = dict(session["usage_totals"])
            assert "It was asked." == side_query(client, "any", session, "What?", preamble="")
            assert before == session["usage_totals"]
            assert "" == side_query(client, "any", session, "What?", count_usage=True)
            assert before["prompt"] < session["usage_totals"]["prompt"]
            run_turn(client, "any", session, "two")
            assert ["one", "One.", "two"] == [item["content"] for item in server.requests[-1].json["messages"][1:]]
            clear_session(session)
        with talk(server) as (session, _):
            assert 0 == session["usage_totals"]["total"]
        assert ["Nothing yet.", "It was asked.", ""] == [note["answer"] for note in notes()]


def test_what_fails_is_raised_and_leaves_nothing() -> None:
    """A refusal is an error of its type, a wait is waited; numbers and dicts that mean nothing are refused."""
    busy = Status(429, headers={"Retry-After": "0"})
    with ScriptServer(["One.", busy, "After all.", Status(401)]) as server, talk(server) as (session, client):
        run_turn(client, "any", session, "one")
        assert "After all." == side_query(client, "any", session, "well?")
        with pytest.raises(AuthenticationError):
            side_query(client, "any", session, "well?")
        with pytest.raises(ValueError, match="0 tokens"):
            side_query(client, "any", session, "well?", max_tokens=0)
        with pytest.raises(ConfigError, match="open session"):
            side_query(client, "any", dict(session), "well?")  # type: ignore[arg-type]
        assert 1 == len(notes())


def test_a_model_of_ones_own_is_asked_as_well() -> None:
    """Whatever answers turns answers these: a model in memory, and another model than the turn's."""
    with (
        ScriptedModel(["One.", "Aside."]) as model,
        init_session(built_in_spec("m", "http://127.0.0.1:1/v1")) as session,
    ):
        run_turn(model, "m", session, "one")
        assert "Aside." == side_query(model, "m", session, "well?")
        with ScriptedModel(["Another."]) as other:
            assert "Another." == side_query(other, "n", session, "well?")
        assert session._live.model is not None
        assert session._live.model[0] is model
