"""An answer that never ends is stopped: by its text, its events or its calls, on every wire."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from plait.core.exchange import ProviderFailed
from plait.wire import bounds
from plait.wire.decode import decode_body, decoder_for
from plait.wire.profile import WireName, WireProfile


def event(**document: Any) -> bytes:
    """Return one event of a stream."""
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def chat(**delta: Any) -> bytes:
    """Return one chunk of the chat wire."""
    return event(choices=[{"index": 0, "delta": delta}])


def call_on(wire: WireName, number: int) -> bytes:
    """Return the beginning of one call."""
    if wire == "chat":
        function = {"name": "f", "arguments": "{}"}
        return chat(tool_calls=[{"index": number, "id": f"c{number}", "function": function}])
    if wire == "anthropic":
        block = {"type": "tool_use", "id": f"c{number}", "name": "f", "input": {}}
        return event(type="content_block_start", index=number, content_block=block)
    item = {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}
    return event(type="response.output_item.added", output_index=number, item=item)


def failure_after(wire: WireName, piece: bytes, reads: int) -> ProviderFailed:
    """Feed a piece until the decoder has enough; return why."""
    decoder = decoder_for(WireProfile(wire=wire))
    for _ in range(reads):
        decoder.feed(piece)
        if decoder.done:
            break
    assert decoder.done
    with pytest.raises(ProviderFailed) as caught:
        decoder.finish()
    return caught.value


TEXTS: Mapping[str, tuple[WireName, bytes]] = {
    "content": ("chat", chat(content="x" * 100_000)),
    "thoughts": ("chat", chat(reasoning_content="x" * 100_000)),
    "refusal": ("chat", chat(refusal="x" * 100_000)),
    "records": ("chat", chat(reasoning_details=[{"type": "reasoning.encrypted", "data": "x" * 100_000}])),
    "arguments": ("chat", chat(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "x" * 100_000}}])),
    "anthropic": (
        "anthropic",
        event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "x" * 100_000}),
    ),
    "responses": ("responses", event(type="response.output_text.delta", output_index=0, delta="x" * 100_000)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_without_an_end_is_stopped(name: str) -> None:
    """Whatever it is that grows: a typed failure says the bound, and that asking again is of no use."""
    failed = failure_after(*TEXTS[name], reads=120)

    assert f"the answer is longer than {bounds.TEXT_CHARS_MAX:,} characters" == failed.message
    assert ("protocol", "too_large", False) == (failed.kind, failed.detail, failed.retryable)


def test_events_without_an_end_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few letters fill memory long before their letters do."""
    monkeypatch.setattr(bounds, "EVENTS_MAX", 1_000)
    failed = failure_after("chat", chat(content="ab") * 100, reads=20)

    assert "the answer has more than 1,000 events" == failed.message


@pytest.mark.parametrize("wire", ["chat", "anthropic", "responses"])
def test_calls_without_an_end_are_stopped(wire: WireName) -> None:
    """One call more than an answer may have is a failure; as many as it may have are none."""
    fits = b"".join(call_on(wire, number) for number in range(bounds.CALLS_MAX))
    decoder = decoder_for(WireProfile(wire=wire))
    decoder.feed(fits)
    assert not decoder.done
    decoder.feed(call_on(wire, bounds.CALLS_MAX))
    assert decoder.done
    with pytest.raises(ProviderFailed, match="more than 1,024 tool calls"):
        decoder.finish()


def test_a_document_with_too_many_calls_is_refused() -> None:
    """A server that does not stream gets no further."""
    calls = [{"id": f"c{number}", "function": {"name": "f", "arguments": "{}"}} for number in range(3_000)]
    body = json.dumps({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}).encode()
    answer = decode_body(body, WireProfile())

    assert answer.failure is not None
    assert "the answer has more than 1,024 tool calls" == answer.failure.message
    assert bounds.CALLS_MAX + 1 == len(answer.calls)


def test_a_packed_body_is_left_when_the_verdict_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed body still holds is not unpacked."""
    packer = zlib.compressobj(wbits=31)
    body = b"".join(packer.compress(bytes(1_000_000)) for _ in range(60)) + packer.flush()
    read = 0
    unpack = zlib.decompressobj

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._own = unpack(wbits=wbits)
            self.eof, self.unused_data = False, b""

        def copy(self) -> Counting:
            return self

        def decompress(self, data: bytes) -> bytes:
            nonlocal read
            plain = self._own.decompress(data)
            read += len(plain)
            return plain

    monkeypatch.setattr("plait.wire.gunzip.zlib.decompressobj", Counting)
    answer = decode_body(body, WireProfile())

    assert answer.failure is not None
    assert "larger than" in answer.failure.message
    assert read < 40_000_000
