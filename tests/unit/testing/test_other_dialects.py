"""How scripted answers look on the Responses and the Anthropic wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plait.core.exchange import ProviderFailed
from plait.kernel.ports import Setup
from plait.models.chat_model import chat_model
from plait.testing import Call, Say, ScriptServer
from plait.testing.anthropic_dialect import AnthropicDialect
from plait.testing.faults import StreamError
from plait.testing.request import Request
from plait.testing.responses_dialect import ResponsesDialect
from plait.wire.decode import decode_body
from plait.wire.profile import WireName, WireProfile
from tests.unit.models.talking import TALKS, text_of

DIALECTS: dict[WireName, Any] = {"responses": ResponsesDialect(), "anthropic": AnthropicDialect()}
SAID = Say("one two", reasoning="hm so", calls=[Call("look", {"path": "a" * 40}, id="c1"), Call("run", "{}", id="c2")])
USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
WIRES: tuple[WireName, ...] = ("responses", "anthropic")


def request(wire: WireName, **body: Any) -> Request:
    """Return a request on a wire with these members."""
    listed = "input" if wire == "responses" else "messages"
    whole = {"model": "m", listed: [{"role": "user", "content": "hi"}], **body}
    return Request(3, "POST", f"/v1{DIALECTS[wire].path}", {}, json.dumps(whole).encode(), 1)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_is_read_as_it_was_scripted(wire: WireName, stream: bool) -> None:
    """Text, thoughts, calls and counts come out of a document and of a stream alike."""
    rendered = DIALECTS[wire].render(SAID, request(wire, stream=stream), USAGE)

    answer = decode_body(rendered.body, WireProfile(wire=wire))

    assert ("one two", "hm so", "tool_calls") == (answer.content, answer.reasoning, answer.finish)
    assert [("c1", "look", '{"path":"' + "a" * 40 + '"}'), ("c2", "run", "{}")] == [
        (call.id, call.name, call.raw.replace(" ", "")) for call in answer.calls
    ]
    assert answer.usage is not None
    assert (9, 5, 4) == (answer.usage.input, answer.usage.output, answer.usage.cache_read)


@pytest.mark.parametrize("wire", WIRES)
def test_no_usage_means_no_member(wire: WireName) -> None:
    """An empty count is not sent, in neither form."""
    for stream in (False, True):
        rendered = DIALECTS[wire].render(Say("hi"), request(wire, stream=stream), {})
        assert decode_body(rendered.body, WireProfile(wire=wire)).usage is None


@pytest.mark.parametrize("wire", WIRES)
def test_a_prompt_grows_at_its_end(wire: WireName) -> None:
    """One more message only adds bytes; a request without its list is refused."""
    listed = "input" if wire == "responses" else "messages"
    first, second = {"role": "user", "content": "hi"}, {"role": "user", "content": "ho"}
    short = DIALECTS[wire].prompt(request(wire, **{listed: [first], "tools": [{"name": "t"}]}))
    longer = DIALECTS[wire].prompt(request(wire, **{listed: [first, second], "tools": [{"name": "t"}]}))

    assert longer.startswith(short)
    with pytest.raises(ValueError, match="no list"):
        DIALECTS[wire].prompt(request(wire, **{listed: "hi"}))


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("wire", WIRES)
def test_the_server_speaks_the_wire_that_it_is_asked_on(wire: WireName, colour: str) -> None:
    """The end of the path decides, the cache counts, and an error inside a stream is one."""
    script = [
        Say("hello"),
        Say("again", finish_reason="length"),
        StreamError(error={"type": "overloaded_error", "code": "overloaded_error", "message": "busy"}),
    ]
    with ScriptServer(script) as server:
        outcomes = TALKS[colour](chat_model("m", server.url, wire=wire), 3, Setup(system="Be brief. " * 60))

    first, second, third = outcomes
    assert ("hello", "again") == (text_of(first), text_of(second))
    assert "length" == getattr(second, "stop", None)
    assert second.usage.cache_read > 0  # type: ignore[union-attr]
    assert isinstance(third, ProviderFailed)
    assert ("overloaded", "busy") == (third.kind, third.message)
    assert [f"/v1{DIALECTS[wire].path}"] * 3 == [asked.path for asked in server.requests]


@pytest.mark.parametrize("wire", WIRES)
def test_errors_are_in_the_words_of_the_wire(wire: WireName) -> None:
    """A refusal has the members that its clients read."""
    refused = json.loads(DIALECTS[wire].error(429, "slow down").body)

    assert "slow down" == refused["error"]["message"]
    assert b'"slow down"' in DIALECTS[wire].error_event({"type": "overloaded_error", "message": "slow down"})
