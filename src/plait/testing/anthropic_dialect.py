"""How a scripted answer looks on the Anthropic Messages wire.

Floor: testing. Owns: the bytes of answers, events and errors of this wire; never: which step is played.
Source: the Messages reference of Anthropic's API, message object and streaming events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plait.testing.json_body import EVENT_HEADERS, JSON_HEADERS, count_of, dump, named_event, prompt_bytes
from plait.testing.metering import Overflow
from plait.testing.request import Request
from plait.testing.response import Response
from plait.testing.steps import Call, Say, argument_deltas, deltas, joined

_STOPS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_MARKER: Final = re.compile(rb',?"cache_control":\{[^{}]*\}')
_SIGNATURE: Final = "c2lnbmVk"
_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}

Block = tuple[Mapping[str, object], Sequence[Mapping[str, object]]]
"""A content block as it begins, and the deltas that fill it."""


class AnthropicDialect:
    """Messages: `content` blocks, and in a stream one start, deltas and one stop for each."""

    path = "/messages"

    def prompt(self, request: Request) -> bytes:
        # Markers say where to cache and are no part of what is cached.
        return _MARKER.sub(b"", prompt_bytes(request, "tools", "system", listed="messages"))

    def render(self, say: Say, request: Request, usage: Mapping[str, object]) -> Response:
        counts = _counts(usage)
        if request.stream:
            pieces = tuple(self._events(say, request, counts))
            return Response(pieces, EVENT_HEADERS, framing="chunked", gap_s=say.gap_s, delay_s=say.delay_s)
        content = [_whole(*block) for block in _blocks(say)]
        body = {**_envelope(request, counts), "content": content, "stop_reason": _stop(say)}
        return Response((dump(body),), JSON_HEADERS, delay_s=say.delay_s)

    def error(self, status: int, message: str) -> Response:
        kind = _ERRORS.get(status, "api_error")
        body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_script"}
        return Response((dump(body),), JSON_HEADERS, status)

    def overflow(self, found: Overflow) -> Response:
        if found.prompt > found.window:
            return self.error(400, f"prompt is too long: {found.prompt} tokens > {found.window} maximum")
        shares = f"{found.prompt} + {found.output_max} > {found.window}"
        advice = "decrease input length or `max_tokens` and try again"
        return self.error(400, f"input length and `max_tokens` exceed context limit: {shares}, {advice}")

    def error_event(self, error: Mapping[str, object]) -> bytes:
        return named_event({"type": "error", "error": error})

    def without_done(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(piece for piece in pieces if not piece.startswith(b"event: message_stop"))

    def without_finish(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(re.sub(rb'"stop_reason":"\w+"', b'"stop_reason":null', piece) for piece in pieces)

    def _events(self, say: Say, request: Request, usage: Mapping[str, object]) -> Iterator[bytes]:
        at_start = {**usage, "output_tokens": 1} if usage else {}
        message = {**_envelope(request, at_start), "content": [], "stop_reason": None}
        yield named_event({"type": "message_start", "message": message})
        for index, (block, fragments) in enumerate(_blocks(say)):
            yield named_event({"type": "content_block_start", "index": index, "content_block": block})
            for delta in fragments:
                yield named_event({"type": "content_block_delta", "index": index, "delta": delta})
            yield named_event({"type": "content_block_stop", "index": index})
        end: dict[str, object] = {
            "type": "message_delta",
            "delta": {"stop_reason": _stop(say), "stop_sequence": None},
        }
        yield named_event({**end, "usage": {"output_tokens": usage["output_tokens"]}} if usage else end)
        yield named_event({"type": "message_stop"})


def _blocks(say: Say) -> Iterator[Block]:
    if say.reasoning:
        thoughts: list[Mapping[str, object]] = [
            {"type": "thinking_delta", "thinking": piece} for piece in deltas(say.reasoning)
        ]
        signature = {"type": "signature_delta", "signature": _SIGNATURE}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]
    if joined(say.text):
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in deltas(say.text)]
    for call in say.calls:
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in argument_deltas(call)]
        yield _opening(call), pieces


def _opening(call: Call) -> Mapping[str, object]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _whole(block: Mapping[str, object], fragments: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return a block with its deltas in it."""
    whole = dict(block)
    for name in ("thinking", "text", "signature"):
        if name in whole:
            whole[name] = "".join(str(delta.get(name, "")) for delta in fragments)
    if block["type"] == "tool_use":
        text = "".join(str(delta["partial_json"]) for delta in fragments)
        try:
            whole["input"] = json.loads(text)
        except ValueError:
            whole["input"] = text  # a model cannot send broken JSON here, a broken server can
    return whole


def _envelope(request: Request, usage: Mapping[str, object]) -> dict[str, object]:
    body: dict[str, object] = {
        "id": f"msg_{request.number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "stop_sequence": None,
    }
    return {**body, "usage": usage} if usage else body


def _stop(say: Say) -> str:
    return _STOPS.get(say.stop, say.stop)


def _counts(usage: Mapping[str, object]) -> Mapping[str, object]:
    """Return the counts in this wire's words, in which the input leaves cached tokens out; other words are kept."""
    if "prompt_tokens" not in usage:
        return usage
    cached = count_of(usage, "prompt_tokens_details", "cached_tokens")
    return {
        "input_tokens": count_of(usage, "prompt_tokens") - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": count_of(usage, "completion_tokens"),
    }
