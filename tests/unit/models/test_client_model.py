"""Clients that are not ours as models: what they are called with, and how their answers are read."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import RateLimitError
from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Reply, ToolSchema
from plait.core.usage import Usage
from plait.kernel.effects import Interrupted
from plait.kernel.ports import Options, Setup
from plait.models.client_model import Callbacks, ClientModel
from tests.unit.models.talking import TALKS, Talk, joined, text_of

TOOL = ToolSchema("look", "Look at something.", {"type": "object", "properties": {"at": {"type": "string"}}})


@pytest.fixture(params=["sync", "async"])
def talk(request: pytest.FixtureRequest) -> Talk:
    """A conversation in either colour."""
    return TALKS[request.param]


class FakeClient:
    """Answers what it was given, and remembers what it was asked."""

    def __init__(self, *answers: object) -> None:
        self.base_url = SimpleNamespace(host="models.example")
        self.calls: list[dict[str, Any]] = []
        self._answers = list(answers)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, **kwargs: Any) -> object:
        """Take anything, as the session contract's fakes do."""
        self.calls.append(kwargs)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(**kwargs) if callable(answer) else answer


def says(content: str | None, *calls: object, usage: object = None, finish: str | None = None) -> SimpleNamespace:
    """Make an answer in the shape that such clients return."""
    message = SimpleNamespace(role="assistant", content=content, tool_calls=list(calls) or None)
    return SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason=finish)], usage=usage)


def call(id: str, name: str, arguments: str) -> SimpleNamespace:
    """Make a call in that shape."""
    return SimpleNamespace(id=id, type="function", function=SimpleNamespace(name=name, arguments=arguments))


def test_a_client_is_called_as_the_contract_says(talk: Talk) -> None:
    """Model, messages and tools are arguments; what `create` may not know travels in `extra_body`."""
    client = FakeClient(says("Hello."))
    waits: list[object] = []
    model = ClientModel("m", client, callbacks=Callbacks(on_rate_limit_wait=lambda *event: waits.append(event)))
    options = Options(max_output_tokens=9, temperature=0.0, cache_key="k", extra={"user": "u", "top_p": 0.5})
    (reply,) = talk(model, 1, Setup("Be brief.", (TOOL,), options))
    (asked,) = client.calls
    assert "Hello." == text_of(reply)
    assert [("system", "Be brief."), ("user", "hi")] == [(item["role"], item["content"]) for item in asked["messages"]]
    assert ("m", 9, 0.0, "u", "auto") == tuple(
        asked[name] for name in ("model", "max_tokens", "temperature", "user", "tool_choice")
    )
    assert "look" == asked["tools"][0]["function"]["name"]
    assert {"top_p": 0.5, "prompt_cache_key": "k"} == asked["extra_body"]
    assert callable(asked["on_rate_limit_wait"])
    assert not {"on_content_delta", "on_raw_response", "cancel"} & asked.keys()


def test_calls_and_usage_of_an_answer_are_read(talk: Talk) -> None:
    """Calls keep their ids and arguments; cache numbers count only where the client says that they were reported."""
    usage = SimpleNamespace(
        prompt_tokens=100, completion_tokens=5, total_tokens=105, cached_tokens=0, has_cache_proof=True
    )
    unproved = SimpleNamespace(prompt_tokens=100, completion_tokens=5, cached_tokens=0, has_cache_proof=False)
    client = FakeClient(says("I look.", call("c1", "look", '{"at":"sea"}'), usage=usage), says("Blue.", usage=unproved))
    first, second = talk(ClientModel("m", client), 2, Setup(tools=(TOOL,)))
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert ("I look.", "tool_calls") == (first.message.content, first.stop)
    assert [("c1", '{"at":"sea"}')] == [(item.id, item.raw) for item in first.message.tool_calls]
    assert Usage(input=100, output=5, cache_read=0) == first.usage
    assert Usage(input=100, output=5) == second.usage


def test_answers_may_be_dicts_and_free_text_calls(talk: Talk) -> None:
    """A client that returns plain JSON is read as well, and so is a call whose input is text."""
    custom = {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    document = {"choices": [{"message": {"content": None, "tool_calls": [custom]}}], "provider": "P"}
    (reply,) = talk(ClientModel("m", FakeClient(document)), 1)
    assert isinstance(reply, Reply)
    assert [("patch", "*** Begin", True)] == [(item.name, item.raw, item.custom) for item in reply.message.tool_calls]
    assert {"provider": "P"} == reply.details


def test_fragments_come_through_the_client_s_callbacks(talk: Talk) -> None:
    """A streaming client's words and thoughts reach the one who watches."""

    def stream(*, on_content_delta: Any, on_reasoning_delta: Any, **rest: object) -> object:
        on_reasoning_delta("Hm.")
        on_content_delta("Hel")
        on_content_delta("lo.")
        return says("Hello.")

    pieces: list[Piece] = []
    talk(ClientModel("m", FakeClient(stream), streams=True), 1, None, pieces.extend)
    assert ("Hello.", "Hm.") == (joined(pieces), joined(pieces, "reasoning"))


def test_a_strict_signature_is_respected(talk: Talk) -> None:
    """A client whose `create` names its parameters gets no callback that it does not know."""

    class Strict:
        def __init__(self) -> None:
            self.chat = SimpleNamespace(completions=self)

        def create(self, *, model: str, messages: list[object], extra_body: object = None) -> object:
            return says(f"{model} heard {len(messages)}")

    assert "m heard 1" == text_of(talk(ClientModel("m", Strict()), 1)[0])


def test_an_async_client_is_awaited(talk: Talk) -> None:
    """An async client serves conversations in an event loop."""
    if talk is TALKS["sync"]:
        pytest.skip("an async client cannot be called from a thread")

    class Async:
        def __init__(self) -> None:
            self.chat = SimpleNamespace(completions=self)

        async def create(self, **kwargs: object) -> object:
            return says("awaited")

    assert "awaited" == text_of(talk(ClientModel("m", Async()), 1)[0])


class ApiStatusError(Exception):
    """What client libraries raise for a status."""

    def __init__(self, text: str, status_code: int) -> None:
        super().__init__(text)
        self.status_code = status_code


class APITimeoutError(Exception):
    """The name that OpenAI's client gives to a timeout."""


@pytest.mark.parametrize(
    "error, kind, retryable",
    [
        (ApiStatusError("slow down", 429), "rate_limit", True),
        (ApiStatusError("no such key", 401), "auth", False),
        (ApiStatusError("This model's maximum context length is 8192 tokens", 400), "context_overflow", False),
        (RuntimeError("HTTP 503 from upstream"), "unavailable", True),
        (RateLimitError("slow down", retryable=True, retry_after_s=2.0), "rate_limit", True),
        (APITimeoutError("gone"), "timeout", True),
        (ConnectionRefusedError(111, "refused"), "unavailable", True),
        (RuntimeError("exit code 3: no such binary"), "unavailable", False),
    ],
)
def test_an_exception_of_a_client_has_its_class(talk: Talk, error: Exception, kind: str, retryable: bool) -> None:
    """Whatever a client raises is told by its status, its name or its words, and is never retried blindly."""
    (failed,) = talk(ClientModel("m", FakeClient(error)), 1)
    assert isinstance(failed, ProviderFailed)
    assert (kind, retryable) == (failed.kind, failed.retryable)


def test_a_cancel_is_heard_at_the_next_fragment(talk: Talk) -> None:
    """A streaming client is stopped where it next tells something."""
    cancel = Cancel()

    def stream(*, on_content_delta: Any, **rest: object) -> object:
        on_content_delta("one")
        cancel.cancel("enough")
        on_content_delta("two")
        return says("never")

    with pytest.raises(Interrupted) as interrupted:
        talk(ClientModel("m", FakeClient(stream), streams=True), 1, None, None, cancel)
    assert "enough" == interrupted.value.reason


def test_a_sync_client_runs_in_the_callers_thread_or_in_one_of_its_own(talk: Talk) -> None:
    """A thread's conversation calls the client itself; an event loop never waits for a blocking one."""
    threads: list[threading.Thread] = []

    def look(**rest: object) -> object:
        threads.append(threading.current_thread())
        return says("done")

    talk(ClientModel("m", FakeClient(look)), 1)
    assert (talk is TALKS["sync"]) == (threads == [threading.main_thread()])
