"""How scripted answers look on the chat completions wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plait.testing.dialects import ChatDialect
from plait.testing.request import Request
from plait.testing.steps import Call, Say

CHAT = ChatDialect()
SAID = Say("one two", reasoning="hm", calls=[Call("look", {"path": "a" * 40}, id="c1"), Call("run", "{}", id="c2")])


def request(**body: Any) -> Request:
    """Return a chat request with these members."""
    whole = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **body}
    return Request(3, "POST", "/v1/chat/completions", {}, json.dumps(whole).encode(), 1)


def events(say: Say, **body: Any) -> list[dict[str, Any]]:
    """Return the parsed events of a streamed answer, and check that [DONE] is the last."""
    pieces = CHAT.render(say, request(stream=True, **body), {"prompt_tokens": 5}).pieces
    assert b"data: [DONE]\n\n" == pieces[-1]
    assert all(piece.startswith(b"data: ") and piece.endswith(b"\n\n") for piece in pieces)
    return [json.loads(piece[6:]) for piece in pieces[:-1]]


def test_a_document_holds_the_whole_answer() -> None:
    """Without `stream` the answer is one document with text, reasoning, calls and usage."""
    response = CHAT.render(SAID, request(), {"prompt_tokens": 5})
    body = json.loads(response.body)
    message = body["choices"][0]["message"]

    assert ("length", "application/json") == (response.framing, response.headers["Content-Type"])
    assert ("m", {"prompt_tokens": 5}) == (body["model"], body["usage"])
    assert ("one two", "hm", "tool_calls") == (
        message["content"],
        message["reasoning_content"],
        body["choices"][0]["finish_reason"],
    )
    assert {"id": "c2", "type": "function", "function": {"name": "run", "arguments": "{}"}} == message["tool_calls"][1]


def test_a_stream_adds_up_to_the_answer() -> None:
    """With `stream` the deltas of text, reasoning and arguments are the answer in pieces."""
    deltas = [event["choices"][0]["delta"] for event in events(SAID)]
    fragments = [call for delta in deltas for call in delta.get("tool_calls", ())]

    assert "one two" == "".join(delta.get("content") or "" for delta in deltas)
    assert "hm" == "".join(delta.get("reasoning_content", "") for delta in deltas)
    assert [("c1", "look"), ("c2", "run")] == [(f["id"], f["function"]["name"]) for f in fragments if "id" in f]
    assert json.dumps({"path": "a" * 40}, separators=(",", ":")) == "".join(
        fragment["function"]["arguments"] for fragment in fragments if fragment["index"] == 0
    )


def test_usage_is_streamed_only_when_asked_for() -> None:
    """A stream reports usage in an event of its own, if the request includes it."""
    asked = events(Say("hi"), stream_options={"include_usage": True})

    assert {"prompt_tokens": 5} == asked[-1]["usage"]
    assert [] == asked[-1]["choices"]
    assert not any("usage" in event for event in events(Say("hi")))


def test_an_empty_usage_is_not_sent() -> None:
    """An answer without usage has no such member."""
    assert "usage" not in json.loads(CHAT.render(Say("hi"), request(), {}).body)


def test_the_prompt_of_a_longer_conversation_extends_the_shorter() -> None:
    """What the model reads begins with the tools, and one more message only adds bytes at the end."""
    first = {"role": "user", "content": "hi"}
    short = CHAT.prompt(request(messages=[first], tools=[{"name": "t"}]))
    longer = CHAT.prompt(request(messages=[first, {"role": "user", "content": "ho"}], tools=[{"name": "t"}]))

    assert short.startswith(b'[{"name": "t"}]')
    assert longer.startswith(short)


@pytest.mark.parametrize("body", [{"messages": None}, {"messages": "hi"}, {"messages": {}}])
def test_a_request_without_messages_is_refused(body: dict[str, Any]) -> None:
    """A request whose messages are no list is a ValueError."""
    with pytest.raises(ValueError, match="no list of messages"):
        CHAT.prompt(request(**body))


def test_the_end_can_be_taken_away() -> None:
    """Without its finish reason or its [DONE] a stream is otherwise the same."""
    pieces = CHAT.render(Say("hi"), request(stream=True), {}).pieces
    unfinished = b"".join(CHAT.without_finish(pieces))

    assert pieces[:-1] == CHAT.without_done(pieces)
    assert b'"finish_reason":"' not in unfinished
    assert unfinished.endswith(b"data: [DONE]\n\n")


def test_text_that_utf8_cannot_carry_is_sent_as_an_escape() -> None:
    """A lone surrogate travels as an escape."""
    pieces = CHAT.render(Say(["\ud83d"]), request(stream=True), {}).pieces

    assert any(rb"\ud83d" in piece for piece in pieces)


def test_errors_are_in_the_words_of_the_api() -> None:
    """A refusal is an object `error` with message and type."""
    body = json.loads(CHAT.error(429, "slow down").body)

    assert ("slow down", "invalid_request_error") == (body["error"]["message"], body["error"]["type"])
