"""The client in OpenAI's shape over our transport."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import AuthenticationError, ContextWindowExceededError, ModelRequestError, ModelUnavailable
from plait.kernel.effects import Interrupted
from plait.kernel.ports import Setup
from plait.kernel.rules import Retry
from plait.models.openai_client import OpenAI
from plait.testing import Call, Request, Say, ScriptServer, faults, unused_url
from tests.unit.models.talking import ask_of

HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
AT_ONCE = Retry(base_s=0.0)


def test_a_completion_has_the_attributes_that_programs_read() -> None:
    """Choices, message, calls and usage are where OpenAI's client has them."""
    say = Say("Look:", calls=[Call("look", {"at": "sea"}, id="c1")], usage={"prompt_tokens": 9, "completion_tokens": 2})
    with ScriptServer([say]) as server, OpenAI(api_key="k", base_url=server.url) as client:
        answer = client.chat.completions.create(model="m", messages=HI)
        assert "127.0.0.1" == client.base_url.host
    (choice,) = answer.choices
    assert ("assistant", "Look:", "tool_calls") == (choice.message.role, choice.message.content, choice.finish_reason)
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert ("c1", "function", "look", '{"at":"sea"}') == (
        call.id,
        call.type,
        call.function.name,
        call.function.arguments,
    )
    assert answer.usage is not None
    assert (9, 2, 11, False) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
        answer.usage.total_tokens,
        answer.usage.has_cache_proof,
    )


def test_the_request_holds_what_was_given_and_nothing_else() -> None:
    """Temperature is 0 unless told, None is not sent, members of any name are."""
    with ScriptServer(["a", "b"]) as server:
        client = OpenAI(api_key="k", base_url=f"{server.url}/")
        client.chat.completions.create(model="m", messages=HI, max_tokens=None, extra_body={"thinking": {"type": "on"}})
        client.chat.completions.create(model="m", messages=HI, temperature=1, top_p=0.5, user="u")
        client.close()
    first, second = (request.json for request in server.requests)
    assert {"model": "m", "messages": HI, "temperature": 0, "thinking": {"type": "on"}} == first
    assert {"model": "m", "messages": HI, "temperature": 1, "top_p": 0.5, "user": "u"} == second


@pytest.mark.parametrize("header, value", [("Authorization", "Bearer k"), ("x-api-key", "k")])
def test_the_key_stands_in_its_header(header: str, value: str) -> None:
    """Only `Authorization` says Bearer."""
    with ScriptServer(["a"]) as server, OpenAI(api_key="k", base_url=server.url, auth_header=header) as client:
        client.chat.completions.create(model="m", messages=HI)
    assert value == server.requests[0].headers[header.lower()]


def test_a_callback_makes_it_stream() -> None:
    """Words and thoughts go to their callbacks as they come, and the whole answer is returned."""
    words: list[str] = []
    thoughts: list[str] = []
    with ScriptServer([Say("One two.", reasoning="Hm.")]) as server, OpenAI(base_url=server.url) as client:
        answer = client.chat.completions.create(
            model="m", messages=HI, on_content_delta=words.append, on_reasoning_delta=thoughts.append
        )
    assert server.requests[0].json["stream"] is True
    assert len(words) > 1
    assert "One two." == "".join(words) == answer.choices[0].message.content
    assert "Hm." == "".join(thoughts) == answer.reasoning


def test_a_rate_limit_is_waited_out_and_told() -> None:
    """A stated wait is announced with the time it ends, then the request is made again; every attempt is told."""
    waits: list[tuple[Any, ...]] = []
    attempts: list[dict[str, Any]] = []
    raw: list[dict[str, Any]] = []
    limited = faults.Status(429, headers={"Retry-After": "0.05"})
    with ScriptServer([limited, "fine"]) as server, OpenAI(base_url=server.url) as client:
        client.chat.completions.create(
            model="m",
            messages=HI,
            on_rate_limit_wait=lambda *event: waits.append(event),
            on_request_attempt=attempts.append,
            on_raw_response=raw.append,
        )
    ((delay_s, resume_at, text),) = waits
    assert 0.05 == delay_s
    assert isinstance(resume_at, datetime)
    assert resume_at.tzinfo is not None
    assert "rate limited" in text
    assert [1, 2] == [event["attempt"] for event in attempts]
    assert [429, 200] == [event["status"] for event in raw]
    assert "fine" in raw[1]["body"]


def test_what_passes_is_tried_again_and_what_does_not_is_raised() -> None:
    """A server error is retried, a refused request is raised at once with its class."""
    with ScriptServer([faults.Status(503), faults.Reset("mid_event"), "fine", faults.Status(400)]) as server:
        client = OpenAI(base_url=server.url, retry=AT_ONCE)
        assert "fine" == client.chat.completions.create(model="m", messages=HI).choices[0].message.content
        with pytest.raises(ModelRequestError):
            client.chat.completions.create(model="m", messages=HI)
        client.close()
        assert 4 == len(server.requests)


def test_retries_end() -> None:
    """After the last attempt the failure is raised as what it is."""
    with pytest.raises(ModelUnavailable):
        OpenAI(base_url=unused_url(), retry=Retry(attempts_max=3, base_s=0.0)).chat.completions.create(
            model="m", messages=HI
        )


def test_an_overflow_carries_its_numbers() -> None:
    """A full window is an error of its own, with what was asked and what fits."""
    text = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    body = {"error": {"message": text, "code": "context_length_exceeded"}}
    with ScriptServer([faults.Status(400, body)]) as server, pytest.raises(ContextWindowExceededError) as overflow:
        OpenAI(base_url=server.url).chat.completions.create(model="m", messages=HI)
    assert (9000, 8192) == (overflow.value.requested_tokens, overflow.value.limit_tokens)


def test_a_wait_can_be_cancelled() -> None:
    """A cancel ends the wait before the next attempt."""
    cancel = Cancel()

    def script(_request: Request) -> faults.Status:
        threading.Timer(0.2, cancel.cancel, ["enough"]).start()
        return faults.Status(429, headers={"Retry-After": "60"})

    with ScriptServer(script) as server, OpenAI(base_url=server.url) as client, pytest.raises(Interrupted):
        client.chat.completions.create(model="m", messages=HI, cancel=cancel)
    assert 1 == len(server.requests)


def test_a_key_is_in_no_text() -> None:
    """Neither the client nor its errors show the key."""

    def script(request: Request) -> faults.Status:
        return faults.Status(401, {"error": {"message": f"bad key {request.headers['authorization']}"}})

    with ScriptServer(script) as server:
        client = OpenAI(api_key="very-secret", base_url=server.url)
        with pytest.raises(AuthenticationError) as refused:
            client.chat.completions.create(model="m", messages=HI)
    assert "very-secret" not in f"{client!r} {refused.value} {refused.value.hint} {refused.value.to_dict()}"


def test_it_is_a_model_as_well() -> None:
    """A conversation over the client's endpoint shares its connection."""
    with ScriptServer(["one", "two"]) as server, OpenAI(base_url=server.url) as client:
        client.chat.completions.create(model="m", messages=HI)
        from plait.core.messages import user

        channel = client.as_model("m").open(Setup())
        assert "two" == channel.think(ask_of([user("hi")]), None, Cancel()).message.content
        assert 1 == server.connections
