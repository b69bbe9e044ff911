"""A spec's endpoint fields reach the endpoint, and whatever a host calls a client is one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from plait.core.errors import AgentSpecInvalidError, AuthenticationError, ConfigError
from plait.engine.spec import default_specification
from plait.models.openai_client import OpenAI
from plait.session.clients import Wishes, create_client, model_for
from plait.session.tasks import run_task
from plait.testing import ScriptedModel, ScriptServer
from tests.unit.session.clients import OwnClient


def sent(**fields: object) -> Any:
    """Run a task with a spec that has these fields; return the request."""
    with ScriptServer(["done"]) as server:
        result = run_task({**default_specification("m", server.url), **fields}, "x")
        assert "completed" == result.status, result.error
        (request,) = server.requests
        return request


def test_headers_and_parameters() -> None:
    """Extra headers, forced body fields of any name and the output limit are sent."""
    request = sent(
        extra_headers={"X-Team": "core"}, request_params={"top_p": 0.5, "thinking": {"on": True}}, max_output_tokens=9
    )

    assert "core" == request.headers["x-team"]
    assert (0.5, {"on": True}, 9) == (request.json["top_p"], request.json["thinking"], request.json["max_tokens"])


def test_nothing_is_sent_that_was_not_asked_for() -> None:
    """Without a setting there is no temperature, no limit, and nothing of the session's own in a message."""
    body = sent().json

    assert {"model", "tools", "messages", "stream", "stream_options"} == set(body)
    assert [{"role", "content"}, {"role", "content"}] == [set(message) for message in body["messages"]]


def test_the_key_of_a_variable() -> None:
    """`key_env` names the variable whose key is sent, in the header that the spec names."""
    os.environ["MY_KEY"] = "k-1"

    assert "Bearer k-1" == sent(key_env="MY_KEY").headers["authorization"]
    assert "k-1" == sent(key_env="MY_KEY", auth_header="X-Key").headers["x-key"]


def test_a_key_that_is_not_there() -> None:
    """A missing key is the turn's error and names the variable; nothing is sent."""
    with ScriptServer([]) as server:
        result = run_task({**default_specification("m", server.url), "key_env": "NO_SUCH_KEY"}, "x")

    assert isinstance(result.error, AuthenticationError)
    assert "NO_SUCH_KEY" in str(result.error)
    assert () == server.requests


def test_an_endpoint_that_does_not_stream() -> None:
    """A spec may say that its endpoint cannot stream; then the answer comes in one piece."""
    no = {"streaming": {"supported": False}}

    assert (True, False) == (sent().stream, sent(provider_api_support=no).stream)


def test_an_unknown_kind_of_auth_is_refused() -> None:
    """`auth` never holds a key; what it may be is said, and what was there is not repeated."""
    with pytest.raises(AgentSpecInvalidError, match="unknown 'auth'") as caught:
        create_client({**default_specification("m", "http://127.0.0.1:1/v1"), "auth": "sk-123"})

    assert "sk-123" not in f"{caught.value}{caught.value.hint}"


def test_an_address_that_is_none() -> None:
    """An endpoint that is no address is a ConfigError before anything is sent."""
    with pytest.raises(ConfigError):
        run_task(default_specification("m", "ftp://nowhere"), "x")


def test_an_endpoint_that_nobody_answers() -> None:
    """A refused connection is the turn's error, in one sentence with advice."""
    from plait.kernel.rules import Retry
    from plait.testing import unused_url

    result = run_task(default_specification("m", unused_url()), "x", retry=Retry(attempts_max=1))

    assert ("error", "ModelUnavailable") == (result.status, type(result.error).__name__)
    assert result.error is not None
    assert "\n" not in str(result.error)
    assert result.error.hint


def test_a_subclass_of_the_client_has_its_own_say() -> None:
    """A client that overrides `create` is asked through it, although it is one of plait's own."""
    asked: list[str] = []

    class Watching(OpenAI):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            create = self.chat.completions.create

            def watch(**request: Any) -> Any:
                asked.append(request["model"])
                return create(**request)

            self.chat.completions.create = watch  # type: ignore[method-assign]

    with ScriptServer(["done"]) as server:
        result = run_task(default_specification("m", server.url), "x", client=Watching(base_url=server.url, api_key=""))

    assert ("done", ["m"]) == (result.final_reply, asked)


def test_a_model_is_a_client() -> None:
    """Anything with the two lines of a model is asked as one, under another name where it has several."""
    model = ScriptedModel([])

    assert model is model_for(model, "other", Wishes(structured=True, streams=False))
    client = OpenAI(base_url="http://127.0.0.1:1/v1")
    named = model_for(client.as_model("a"), "b", Wishes(structured=True, streams=False))
    assert "b" == named.name


@pytest.mark.parametrize("thing", [None, 3, object(), "http://x/v1"])
def test_what_is_no_client(thing: object) -> None:
    """Anything else is refused with what a client is."""
    with pytest.raises(ConfigError, match="is no client") as caught:
        run_task(default_specification("m", "http://127.0.0.1:1/v1"), "x", client=thing or ())

    assert "chat.completions.create" in caught.value.hint


def test_a_client_of_ones_own_that_fails() -> None:
    """An exception of a client is the turn's error and says that it is the client's own."""
    result = run_task(default_specification("m", "http://127.0.0.1:1/v1"), "x", client=OwnClient(KeyError("choices")))

    assert "error" == result.status
    assert "KeyError" in str(result.error)
