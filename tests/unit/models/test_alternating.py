"""Endpoints that want user and assistant in turn get them, and nothing that was sent is changed for it."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.cancel import Cancel
from plait.core.exchange import View
from plait.core.messages import Message, Opaque, Text, ToolCall, ToolResult, assistant, user
from plait.engine.spec import default_specification
from plait.kernel.ports import Setup
from plait.kernel.tools import Tool
from plait.models.alternating import BRIDGE, Bridged
from plait.models.chat_model import chat_model
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.history.resetting import compact_session
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.store.sessions import Sessions
from plait.testing import Call, Request, ScriptServer, faults
from plait.testing.faults import Step
from plait.wire.profile import WireProfile
from tests.unit.models.talking import ask_of

SUMMARY = Message("summary", (Text("What was before."),))
CALL = Message("assistant", (ToolCall("c", "look", "{}"),))
RESULT = Message("tool", (ToolResult("c", "seen"),))
MUTE = Message("user", (Opaque("chat", {"role": "system", "tools": []}),))
KINDS = st.sampled_from([SUMMARY, user("q"), assistant("a"), assistant(" "), RESULT, CALL, MUTE])
REFUSAL = "Conversation roles must alternate user/assistant/user/assistant/..."


def roles(request: Request) -> list[str]:
    """Return who speaks in a request."""
    return [str(message["role"]) for message in request.messages if message["role"] != "system"]


def strict(request: Request) -> Step:
    """Answer as a server with such a template does."""
    spoken = roles(request)
    if any(pair == ("user", "user") for pair in itertools.pairwise(spoken)):
        return faults.Status(500, {"error": {"code": 500, "message": REFUSAL, "type": "server_error"}})
    return f"Answer {len(spoken)}."


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_refusal_is_learnt_from_once(colour: str) -> None:
    """The request is made again with a bridge, later ones extend it, other conversations begin with what was learnt."""
    history = [SUMMARY, user("One?")]
    with ScriptServer(strict) as server:
        model = chat_model("any", server.url)

        async def converse() -> None:
            channel = model.aopen(Setup())
            for _ in range(2):
                history.extend(((await channel.think(ask_of(history), None, Cancel())).message, user("More?")))
            await channel.aclose()
            await model.aclose()

        if colour == "async":
            asyncio.run(converse())
        else:
            channel = model.open(Setup())
            for _ in range(2):
                history.extend((channel.think(ask_of(history), None, Cancel()).message, user("More?")))
        model.open(Setup()).think(ask_of([SUMMARY, user("Else?")]), None, Cancel())
        refused, first, second, other = server.requests
    assert ["user", "user"] == roles(refused)
    assert ["user", "assistant", "user"] == roles(first) == roles(other)
    assert "Understood." == first.messages[1]["content"]
    assert first.messages == second.messages[: len(first.messages)]
    assert ["user", "assistant"] * 2 + ["user"] == roles(second)


def test_a_session_goes_on_after_a_compaction_and_is_proved() -> None:
    """Its own request for a summary, the question after it, and a resume: each is asked twice at most, and replayed."""
    with ScriptServer(strict) as server:
        spec = default_specification("any", server.url)
        options: dict[str, Any] = {"session_id": "s", "strict_cache_proof": False}
        with create_client(spec) as client, init_session(spec, **options) as session:
            for task in ("One? " * 400, "Two?"):
                assert run_turn(client, "any", session, task).error is None
            assert compact_session(client, "any", session, keep_last_turns=0)
            assert run_turn(client, "any", session, "Three?").error is None
            assert ["system", "user", "user", "assistant"] == [item["role"] for item in session["messages"]]
        with create_client(spec) as client, init_session(spec, **options) as session:
            assert run_turn(client, "any", session, "Four?").error is None
        assert 7 == len(server.requests)
        found = replay_session(Sessions.of(os.environ).place_of("s"), spec)
    assert found.is_same
    assert (4, 4) == (found.told.requests, found.told.proved)


@given(st.lists(KINDS, max_size=12), st.data())
def test_a_bridge_stands_wherever_one_is_wanted_and_stays(history: list[Message], data: st.DataObject) -> None:
    """Nobody of the user's speaks twice in a row, without the bridges it is the history, and it only ever grows."""
    bridged = Bridged(WireProfile())
    sizes = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=3)))
    before: list[Message] = []
    for size in [*sizes, len(history)]:
        view = bridged.over(View(1, history, size, (user("extra"),)))
        shown = list(view.history[: view.length])
        assert before == shown[: len(before)]
        before = shown
        places = [index for index, message in enumerate(shown) if message is not BRIDGE]
        assert [shown[index] for index in places] == history[:size]
        assert list(range(size)) == [bridged.index_of(index) for index in places]
        spoken = [
            message
            for message in [*shown, *view.extra]
            if message.content.strip() or message.tool_calls or message.tool_results
        ]
        said = ["user" if message.role == "summary" else message.role for message in spoken]
        assert ("user", "user") not in list(itertools.pairwise(said))
    assert [SUMMARY] == list(bridged.over(View(2, [SUMMARY], 1)).history)


def test_a_long_turn_is_refused_once_and_its_cache_holds() -> None:
    """Summaries in the middle of a turn stand before its task: one refusal teaches that, for this turn and the next.

    After it each request begins with the one before, but for the first after a summary.
    """
    steps = itertools.count(1)
    refused: list[int] = []

    def script(request: Request) -> Step:
        answer = strict(request)
        if isinstance(answer, faults.Status):
            refused.append(request.number)
            return answer
        if request.json.get("tool_choice") == "none":
            return "Objective: look. Next: the others."
        return Call("look", {"n": number}) if (number := next(steps)) % 30 else f"Done at {number}."

    look = Tool("look", "Look.", lambda n: f"{n}: " + "fine. " * 70, parameters={"type": "object"}, idempotent=True)
    with ScriptServer(script) as server:
        spec = default_specification("any", server.url)
        options: dict[str, Any] = {"strict_cache_proof": False, "compaction_trigger_tokens": 1_500, "tools": [look]}
        with create_client(spec) as client, init_session(spec, session_id="s", **options) as session:
            for task in ("One?", "Two?"):
                assert "completed" == run_turn(client, "any", session, task).status
        requests = server.requests
    summaries = [request.number for request in requests if request.json.get("tool_choice") == "none"]
    assert len(summaries) > 4
    assert 1 == len(refused)
    moved = [
        after.number
        for before, after in itertools.pairwise(requests)
        if before.number not in (*summaries, *refused) and before.messages != after.messages[: len(before.messages)]
    ]
    assert [] == moved
