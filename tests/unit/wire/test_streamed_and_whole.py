"""A streamed answer is the answer that the same server gives in one document, and what was shown is what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from plait.core.exchange import ProviderFailed, Reply
from plait.core.messages import Message, Reasoning, ToolCall
from plait.core.strict_json import dump
from plait.core.usage import Usage
from plait.wire.decode import decoder_for, pieces_of
from plait.wire.profile import WireName, WireProfile
from tests.unit.wire.conversations import FEWER, ORIGIN, assistants
from tests.unit.wire.servers import streamed, whole

WIRES: tuple[WireName, ...] = ("chat", "responses", "anthropic")
EXPECTED = Usage(input=9, output=4, cache_read=5)


def reply_to(body: bytes, wire: WireName) -> tuple[Reply, dict[str, str]]:
    """The reply, and the texts that were shown before it, joined by kind."""
    decoder, shown = decoder_for(WireProfile(wire=wire, origin=ORIGIN)), {"content": "", "reasoning": ""}
    for piece in [*pieces_of(body, range(50, len(body), 50))]:
        for kind, text in decoder.feed(piece):
            shown[kind] = shown.get(kind, "") + text
    for kind, text in decoder.close():
        shown[kind] = shown.get(kind, "") + text
    return decoder.finish(), shown


def comparable(message: Message) -> Message:
    """The message with compact arguments and without records of the provider's."""
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            part = replace(part, raw=dump(part.arguments))
        parts.append(Reasoning(part.text) if isinstance(part, Reasoning) else part)
    return replace(message, parts=tuple(parts))


@pytest.mark.parametrize("wire", WIRES)
@FEWER
@given(assistants(), st.integers(1, 9))
def test_stream_and_document_agree(wire: WireName, message: Message, size: int) -> None:
    """Message, stop, usage and what was shown are the same for both, and are what the server meant."""
    from_stream, shown = reply_to(streamed(message, wire, size), wire)
    from_whole, _ = reply_to(whole(message, wire), wire)
    assert comparable(message) == comparable(from_stream.message) == comparable(from_whole.message)
    assert from_stream.stop == from_whole.stop == ("tool_calls" if message.tool_calls else "end_turn")
    assert from_stream.usage == from_whole.usage
    assert EXPECTED == replace(from_stream.usage, cache_write=None)
    assert (message.content, message.reasoning) == (shown["content"], shown["reasoning"])


@pytest.mark.parametrize("wire", WIRES)
@FEWER
@given(assistants(), st.data())
def test_stream_cut_anywhere_is_never_taken_for_the_answer(
    wire: WireName, message: Message, data: st.DataObject
) -> None:
    """A stream that ends early is a failure with the beginning of the message, or, after its finish, the answer."""
    body = streamed(message, wire, 5)
    cut = data.draw(st.integers(0, len(body)))
    decoder = decoder_for(WireProfile(wire=wire, origin=ORIGIN))
    decoder.feed(body[:cut])
    is_settled = decoder.is_settled
    try:
        assert comparable(message) == comparable(decoder.finish().message)
    except ProviderFailed as failed:
        assert not is_settled
        assert ("incomplete_stream", True) == (failed.detail, failed.retryable)  # noqa: PT017 - the other outcome
        partial = failed.partial or Message("assistant")
        assert message.content.startswith(partial.content)
        assert message.reasoning.startswith(partial.reasoning)
