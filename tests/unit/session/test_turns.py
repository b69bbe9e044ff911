"""A turn of a session: from a task to its answer."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from plait.core.errors import (
    ConfigError,
    UnsupportedFeature,
)
from plait.core.messages import Image
from plait.events.named import NamedEvent
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.subscribing import subscribe
from plait.session.turns import run_turn
from plait.testing import Call, Fail, Say, ScriptedModel
from tests.unit.session.clients import OwnClient
from tests.unit.session.echoing import ECHO, HI, SPEC, opened, roles


def test_a_completed_turn() -> None:
    """The result has this turn's answer, the session's usage and list, and how many answers it took."""
    session = opened()

    script = [Say(calls=[HI], usage={"input": 10, "output": 2, "cache_read": 0}), Say("done", usage={"input": 20})]

    with ScriptedModel(script) as model:
        result = run_turn(model, "m", session, "x")

    assert ("completed", "done", None, 2) == (result.status, result.final_reply, result.error, result.steps)
    assert {"prompt": 30, "completion": 2, "total": 32, "cached": 0, "cache_write": 0} == result.usage
    assert result.messages is session["messages"]
    assert (["system", "user", "assistant", "tool", "assistant"], 2) == (roles(session), session["llm_call_count"])
    assert result.raise_for_status() is result


def test_a_retry_is_told_and_its_fragments_withdrawn() -> None:
    """A request that is made again says so, and the answer that counts is the whole one."""
    session = opened(retry=Retry(base_s=0.001))
    heard: list[str] = []
    for name in ("content_delta", "retry_scheduled", "attempt_reset", "final_answer"):
        subscribe(session, name, lambda kind, event: heard.append(str(event.get("text", kind))))

    with ScriptedModel([Fail("timeout", "slow", after=["hal"]), Say(["hello"])]) as model:
        result = run_turn(model, "m", session, "x")

    assert "hello" == result.final_reply
    assert ["hal", "retry_scheduled", "attempt_reset", "hello", "hello"] == heard


def test_the_transcript_as_it_stands() -> None:
    """Without a task the conversation is sent again as it is: the way on after a failure."""
    session = opened(retry=Retry(attempts_max=1))

    with ScriptedModel([Fail("unavailable"), "answer"]) as model:
        run_turn(model, "m", session, "question")
        result = run_turn(model, "m", session, None)

    assert "answer" == result.final_reply
    assert ["question"] == [message.content for message in model.requests[1].messages]


def test_a_question_that_was_never_answered_becomes_part_of_the_next() -> None:
    """Two questions in a row are sent as one message, and the replacement is a fact that can be heard."""
    session = opened(retry=Retry(attempts_max=1))
    heard: list[NamedEvent] = []
    subscribe(session, "reset_messages", lambda _, event: heard.append(event))

    with ScriptedModel([Fail("unavailable"), "answer"]) as model:
        run_turn(model, "m", session, "one")
        run_turn(model, "m", session, "two")

    assert ["one\n\ntwo"] == [message.content for message in model.requests[1].messages]
    assert [("user_merge", 0, 1, 0)] == [(e["reason"], e["start"], e["end"], e["count"]) for e in heard]


def test_a_hosts_edit_is_recorded_before_the_next_request() -> None:
    """What a host changed in the list between two turns is in the next request, and in the history as a fact."""
    session = opened()
    heard: list[NamedEvent] = []
    subscribe(session, "reset_messages", lambda _, event: heard.append(event))

    with ScriptedModel(["one", "two"]) as model:
        run_turn(model, "m", session, "a")
        session["messages"][1]["content"] = "changed"
        session["messages"].append({"role": "user", "content": "and this"})
        run_turn(model, "m", session, None)

    assert ["changed", "one", "and this"] == [message.content for message in model.requests[1].messages]
    assert ["host_edit"] == [event["reason"] for event in heard]


def test_a_hosts_edit_in_the_middle_of_a_turn() -> None:
    """A handler may change the list while the turn runs: the next request shows it."""
    session = opened()

    def censor(_: str, event: NamedEvent) -> None:
        session["messages"][-1]["content"] = "censored"

    subscribe(session, "tool_result", censor)
    with ScriptedModel([HI, "done"]) as model:
        result = run_turn(model, "m", session, "x")

    assert "censored" == model.requests[1].messages[-1].tool_results[0].content
    assert "done" == result.final_reply


def test_handlers_see_the_list_as_it_is_then() -> None:
    """When an event is heard, the list already shows what it tells of."""
    session = opened()
    seen: list[tuple[str, str]] = []
    for name in ("tool_call", "tool_result", "final_answer"):
        subscribe(session, name, lambda kind, _: seen.append((kind, session["messages"][-1]["role"])))

    with ScriptedModel([HI, "done"]) as model:
        run_turn(model, "m", session, "x")

    assert [("tool_call", "assistant"), ("tool_result", "tool"), ("final_answer", "assistant")] == seen


def test_another_system_prompt_is_sent_from_the_next_turn_on() -> None:
    """A host may change or remove the first message; requests begin with what it says."""
    session = opened()

    with ScriptedModel(["one", "two", "three"]) as model:
        run_turn(model, "m", session, "a")
        session["messages"][0]["content"] = "Be brief."
        run_turn(model, "m", session, "b")
        del session["messages"][0]
        run_turn(model, "m", session, "c")

    assert ["Be brief.", ""] == [request.setup.system for request in model.requests[1:]]
    assert 2 == len(model.requests[1].messages) - 1


def test_what_is_no_list_of_messages_is_refused() -> None:
    """A host that puts something else where the list was is told so, and nothing is sent."""
    session = opened()
    session["messages"] = "text"

    with ScriptedModel([]) as model, pytest.raises(ConfigError, match="is 'text'"):
        run_turn(model, "m", session, "x")


def test_sync_and_async_tools_in_any_surroundings() -> None:
    """A turn runs in the main thread, in another, and inside a running event loop, with tools of either kind."""

    async def slow_echo(text: str) -> str:
        await asyncio.sleep(0)
        return f"async:{text}"

    def turn() -> list[str]:
        both = [HI, Call("slow_echo", {"text": "hi"})]
        with ScriptedModel([both, "done"]) as model:
            session = opened(tools=[ECHO, Tool("slow_echo", "x", slow_echo)])
            run_turn(model, "m", session, "x")
            return [message["content"] for message in session["messages"][3:5]]

    async def inside() -> list[str]:
        return turn()

    elsewhere: list[list[str]] = []
    thread = threading.Thread(target=lambda: elsewhere.append(turn()))
    thread.start()
    thread.join()

    expected = ["echo:hi", "async:hi"]
    assert [expected, expected, expected] == [turn(), asyncio.run(inside()), *elsewhere]


def test_tools_side_by_side() -> None:
    """A spec may let all calls of a message run at the same time; results stand in call order."""
    meet = threading.Barrier(3, timeout=10)

    def wait(number: int) -> str:
        meet.wait()
        time.sleep(0.01 * (3 - number))
        return str(number)

    spec = {**SPEC, "parallel_tool_dispatch": True}
    session = init_session(spec, tools=[Tool("wait", "x", wait)])
    with ScriptedModel([[Call("wait", {"number": n}) for n in range(3)], "done"]) as model:
        run_turn(model, "m", session, "x")

    assert ["0", "1", "2"] == [message["content"] for message in session["messages"][3:6]]


def test_who_asks() -> None:
    """Somebody other than the user is named above the task, in the record and in the list."""
    session = opened()
    heard: list[NamedEvent] = []
    subscribe(session, "turn_start", lambda _, event: heard.append(event))

    with ScriptedModel(["done", "again"]) as model:
        run_turn(model, "m", session, "Go on.", sender={"kind": "supervisor", "name": "kimi-k3"})
        run_turn(model, "m", session, "x", sender={"kind": "human"})

    assert "[This turn is from the supervisor kimi-k3, not typed by the operator.]\nGo on." == (
        model.requests[0].messages[0].content
    )
    assert ["supervisor:kimi-k3", ""] == [event["sender"] for event in heard]
    assert {"kind": "supervisor", "name": "kimi-k3"} == session["messages"][1]["sender"]
    assert "sender" not in session["messages"][3]


def test_pictures() -> None:
    """Pictures go with the task, and are refused for a model that takes none."""
    picture = Image.from_url("http://x/a.png")

    with ScriptedModel(["a cat"], supports_images=True) as model:
        run_turn(model, "m", opened(), "what is it?", images=[picture])
    with pytest.raises(UnsupportedFeature):
        run_turn(ScriptedModel([]), "m", opened(), "what is it?", images=[picture])

    assert (picture,) == model.requests[0].messages[0].images


def test_what_can_be_changed_between_turns() -> None:
    """`max_output_tokens` and `cache_key` are read again at each turn."""
    session = opened(max_output_tokens=100)

    with ScriptedModel(["one", "two"]) as model:
        run_turn(model, "m", session, "a")
        session["max_output_tokens"] = 50
        session["cache_key"] = "mine"
        run_turn(model, "m", session, "b")

    options = [request.setup.options for request in model.requests]
    assert [(100, session["session_id"]), (50, "mine")] == [(o.max_output_tokens, o.cache_key) for o in options]


def test_another_model_for_one_session() -> None:
    """The next turn may go to another client; it gets the whole conversation."""
    session = opened()
    other = OwnClient("two")

    with ScriptedModel(["one"]) as model:
        run_turn(model, "m", session, "a")
        result = run_turn(other, "n", session, "b")

    assert ("two", "n") == (result.final_reply, other.requests[0]["model"])
    assert ["system", "user", "assistant", "user"] == [message["role"] for message in other.messages(0)]
