"""Turns that end before they are done, or in trouble: what the caller gets, and what is left."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import (
    ConfigError,
    ContextWindowExceededError,
    LimitReached,
    ModelUnavailable,
    SessionBusy,
)
from plait.core.messages import ToolCall
from plait.engine.limits import Limits
from plait.events.named import NamedEvent
from plait.kernel.effects import Ask
from plait.kernel.history import fault_in
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool, ToolContext
from plait.session.cancelling import CancelToken
from plait.session.subscribing import subscribe
from plait.session.turns import run_turn
from plait.testing import Asked, Call, Fail, Say, ScriptedModel, Silence
from tests.unit.session.clients import OwnClient
from tests.unit.session.echoing import HI, echo, opened, roles


def test_a_failed_turn_has_no_reply_and_its_error() -> None:
    """An error of the model is on the result; the answer of an earlier turn is never taken for this one's."""
    session = opened(retry=Retry(attempts_max=1))

    with ScriptedModel(["FIRST", Fail("unavailable", "no route"), "THIRD"]) as model:
        first, second, third = (run_turn(model, "m", session, text) for text in "abc")

    assert ("FIRST", None, "THIRD") == (first.final_reply, second.final_reply, third.final_reply)
    assert ("error", ModelUnavailable) == (second.status, type(second.error))
    assert "b\n\nc" == session["messages"][-2]["content"]
    with pytest.raises(ModelUnavailable, match="no route"):
        second.raise_for_status()


def test_an_overflow_that_cannot_be_mended_is_told() -> None:
    """A conversation that does not fit is an error with the numbers the provider gave."""
    with ScriptedModel([Fail("context_overflow", "too long", tokens=(10, 5))]) as model:
        result = run_turn(model, "m", opened(), "x")

    assert isinstance(result.error, ContextWindowExceededError)
    assert (10, 5) == (result.error.requested_tokens, result.error.limit_tokens)


def test_a_limit_of_steps() -> None:
    """A turn that takes too many answers ends as `limit`, without a reply, with a valid history."""
    session = opened(limits=Limits(max_steps=2))

    with ScriptedModel([HI, HI]) as model:
        result = run_turn(model, "m", session, "x")

    assert ("limit", None, 2) == (result.status, result.final_reply, result.steps)
    assert isinstance(result.error, LimitReached)
    assert "tool" == roles(session)[-1]


def test_a_session_has_no_limit_of_steps() -> None:
    """Unless told otherwise a turn goes on as long as the model does."""
    calls = [Call("echo", {"text": str(number)}) for number in range(40)]

    with ScriptedModel([*calls, "done"]) as model:
        result = run_turn(model, "m", opened(), "x")

    assert ("completed", 41) == (result.status, result.steps)


def test_a_budget_of_tokens() -> None:
    """Tokens that no cache held count; when they are spent the turn ends, with an event that says how many."""
    session = opened(max_turn_tokens=100)
    heard: list[NamedEvent] = []
    subscribe(session, "token_limit", lambda _, event: heard.append(event))
    cheap = Say(calls=[HI], usage={"input": 200, "cache_read": 180, "output": 10})

    with ScriptedModel([cheap, cheap, cheap, cheap]) as model:
        result = run_turn(model, "m", session, "x")

    assert ("limit", 4) == (result.status, result.steps)
    assert "token budget" in str(result.error)
    assert [{"used": 120, "limit": 100, "raw_total": 840, "cached_total": 720}] == [dict(event) for event in heard]


def test_a_cancel_from_another_thread() -> None:
    """A token that is given stops the request at once; what was said is kept, and the next turn goes on."""
    session, token = opened(), CancelToken()
    subscribe(session, "content_delta", lambda *_: threading.Thread(target=token.cancel).start())

    with ScriptedModel([Silence(after=["I was say"]), "again"]) as model:
        result = run_turn(model, "m", session, "x", cancel=token)
        after = run_turn(model, "m", session, "y")

    assert ("interrupted", None, None) == (result.status, result.final_reply, result.error)
    assert "I was say\n[interrupted]" == session["messages"][2]["content"]
    assert ("again", True) == (after.final_reply, token.cancelled)


def test_a_token_that_was_given_before() -> None:
    """A turn with a token that is given already ends before anything is sent."""
    cancel = Cancel()
    cancel.cancel("shutdown")

    with ScriptedModel([]) as model:
        result = run_turn(model, "m", opened(), "x", cancel=cancel)

    assert "interrupted" == result.status


def test_a_deadline_stops_a_running_tool() -> None:
    """When the time is up the running tool is told to stop, its call has a result, and the error says which limit."""

    waited: list[str] = []

    def wait(context: ToolContext) -> str:
        assert context.cancel.wait(60)
        waited.append(str(context.cancel.reason))
        return "stopped"

    # On a machine that is busy the time may be up before the tool runs: then it was too short for this.
    for timeout_s in (0.1, 1.0, 10.0):
        with ScriptedModel([Call("wait")]) as model:
            session = opened(tools=[Tool("wait", "Wait.", wait)])
            result = run_turn(model, "m", session, "x", timeout=timeout_s)
        if waited:
            break

    assert ["timeout"] == waited
    assert ("interrupted", "timeout") == (result.status, result.error and result.error.context["limit"])
    assert "tool" == roles(session)[-1]


def test_a_deadline_in_the_past_is_refused() -> None:
    """A negative timeout is a mistake, told before the turn begins."""
    session = opened()
    with pytest.raises(ValueError, match="-1 seconds"):
        run_turn(OwnClient(), "m", session, "x", timeout=-1)
    assert ["system"] == roles(session)


def test_a_handler_that_raises_ends_the_turn_first() -> None:
    """An exception of a handler comes out of `run_turn`, after the history is closed; the session can go on."""
    session = opened()

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    subscribe(session, "tool_call", fail)
    with ScriptedModel([HI, "after"]) as model:
        with pytest.raises(ZeroDivisionError):
            run_turn(model, "m", session, "x")
        assert fault_in(session._live.conversation.state.history) is None
        assert session._live.conversation.state.in_turn is False
        assert "after" == run_turn(model, "m", session, "y").final_reply


def test_every_handler_hears_an_event_though_one_raises() -> None:
    """A handler that fails does not keep the others from hearing the event."""
    heard: list[str] = []

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    session = opened(on_event=lambda name, _: heard.append(name))
    subscribe(session, "final_answer", fail)
    subscribe(session, "final_answer", lambda name, _: heard.append(f"own:{name}"))

    with ScriptedModel(["done"]) as model, pytest.raises(ZeroDivisionError):
        run_turn(model, "m", session, "x")

    assert ["own:final_answer", "final_answer", "session_usage", "turn_end"] == heard[-4:]


def test_an_approver_that_raises_ends_the_turn_first() -> None:
    """An exception of an approver comes out once every open call has its result."""

    class Broken:
        def approve(self, call: ToolCall, tool: Tool) -> bool:
            raise OSError("no terminal")

    session = opened(approver=Broken(), tools=[Tool("echo", "x", echo, requires_approval=True)])
    with ScriptedModel([HI]) as model, pytest.raises(OSError, match="no terminal"):
        run_turn(model, "m", session, "x")

    assert fault_in(session._live.conversation.state.history) is None


def test_a_call_that_waits_for_its_answer() -> None:
    """An approver that has to ask elsewhere leaves the turn waiting; the next task closes the question."""

    class Later:
        def approve(self, call: ToolCall, tool: Tool) -> Ask:
            return Ask("r1", "May I?")

    session = opened(approver=Later(), tools=[Tool("echo", "x", echo, requires_approval=True)])
    heard: list[NamedEvent] = []
    subscribe(session, "approval_required", lambda _, event: heard.append(event))
    with ScriptedModel([HI, "fine"]) as model:
        waiting = run_turn(model, "m", session, "x")
        session["messages"].append({"role": "user", "content": "edited"})
        with pytest.raises(ConfigError, match="waits for its answer"):
            run_turn(model, "m", session, "y")
        session["messages"].pop()
        after = run_turn(model, "m", session, "never mind")

    assert ("waiting", None) == (waiting.status, waiting.final_reply)
    assert [("echo", "r1", "May I?")] == [(e["name"], e["request"], e["question"]) for e in heard]
    assert "fine" == after.final_reply
    assert fault_in(session._live.conversation.state.history) is None


def test_one_turn_at_a_time() -> None:
    """A second turn while one runs is refused, from a tool of the first as from another thread."""
    problems: list[Exception] = []
    session = opened(tools=[Tool("again", "x", lambda: str(inner()))])

    def inner() -> object:
        try:
            return run_turn(OwnClient(), "m", session, "inner")
        except SessionBusy as error:
            problems.append(error)
            return error

    with ScriptedModel([Call("again"), "done"]) as model:
        assert not session.is_busy
        result = run_turn(model, "m", session, "x")

    assert ("done", 1) == (result.final_reply, len(problems))
    assert "middle of a turn" in session["messages"][-2]["content"]


def test_a_dict_is_no_session() -> None:
    """A restored dict has to be opened first, and the error says how."""
    with pytest.raises(ConfigError, match="needs an open session") as caught:
        run_turn(OwnClient(), "m", dict(opened()), "x")  # type: ignore[arg-type]

    assert "init_session" in caught.value.hint


def test_the_line_to_the_model_stays_open() -> None:
    """Turns with the same client share one line, which holds the bytes that were sent; closing gives it back."""
    session, opens = opened(), 0

    with ScriptedModel(["one", "two"]) as model:
        run_turn(model, "m", session, "a")
        channel = session._live.conversation._channel
        run_turn(model, "m", session, "b")
        assert channel is session._live.conversation._channel
        session.close()
        session.close()

    assert opens == model.open_channels


def test_a_wait_of_a_client_is_told() -> None:
    """A client that waits by itself for a rate limit is heard as an event."""
    session = opened()
    heard: list[NamedEvent] = []
    subscribe(session, "rate_limit_wait", lambda _, event: heard.append(event))

    class Waiting(OwnClient):
        def create(self, **request: Any) -> Any:
            request.pop("on_rate_limit_wait")(1.5, "2026-01-01T00:00:00+00:00", "wait")
            return super().create(**request)

    client = Waiting("done")
    client.chat.completions.create = client.create
    run_turn(client, "m", session, "x")

    assert [(1.5, "2026-01-01T00:00:00+00:00")] == [(event["delay"], event["resume_at"]) for event in heard]


def test_a_turn_that_fails_half_way_leaves_the_tool_results() -> None:
    """What tools did before the model failed stays in the history, each call with its result."""

    def script(asked: Asked) -> Any:
        return HI if asked.number == 1 else Fail("auth", "expired", status=401)

    session = opened()
    result = run_turn(ScriptedModel(script), "m", session, "x")

    assert "error" == result.status
    assert ["system", "user", "assistant", "tool"] == roles(session)
