"""How a scripted answer looks on the Responses wire.

Floor: testing. Owns: the bytes of answers, events and errors of this wire; never: which step is played.
Source: the Responses reference of OpenAI's API, response object and streaming events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plait.testing.json_body import (
    CREATED_AT_S,
    EVENT_HEADERS,
    JSON_HEADERS,
    count_of,
    dump,
    named_event,
    prompt_bytes,
)
from plait.testing.metering import Overflow
from plait.testing.request import Request
from plait.testing.response import Response
from plait.testing.steps import Call, Say, argument_deltas, deltas, joined

_REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesDialect:
    """Responses: items under `output`, and in a stream typed events that end with the whole response."""

    path = "/responses"

    def prompt(self, request: Request) -> bytes:
        return prompt_bytes(request, "tools", "instructions", listed="input")

    def render(self, say: Say, request: Request, usage: Mapping[str, object]) -> Response:
        whole = _response(say, request, _counts(usage))
        if request.stream:
            pieces = tuple(self._events(say, whole))
            return Response(pieces, EVENT_HEADERS, framing="chunked", gap_s=say.gap_s, delay_s=say.delay_s)
        return Response((dump(whole),), JSON_HEADERS, delay_s=say.delay_s)

    def error(self, status: int, message: str) -> Response:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        body = {"error": {"message": message, "type": kind, "param": None, "code": None}}
        return Response((dump(body),), JSON_HEADERS, status)

    def overflow(self, found: Overflow) -> Response:
        del found  # this API does not say how large
        error = {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "context_length_exceeded",
        }
        return Response((dump({"error": error}),), JSON_HEADERS, 400)

    def error_event(self, error: Mapping[str, object]) -> bytes:
        return named_event({"type": "error", **{name: value for name, value in error.items() if name != "type"}})

    def without_done(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(piece for piece in pieces if not _is_last(piece))

    def without_finish(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        # The event that says why is also the last one: only its status can be taken away.
        return tuple(
            re.sub(rb'"status":"(?:completed|incomplete)"', b'"status":"in_progress"', piece)
            if _is_last(piece)
            else piece
            for piece in pieces
        )

    def _events(self, say: Say, whole: Mapping[str, object]) -> Iterator[bytes]:
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        yield named_event({"type": "response.created", "response": begun})
        for index, item in enumerate(_items(say)):
            at = {"output_index": index, "item_id": item["id"]}
            yield named_event({"type": "response.output_item.added", "output_index": index, "item": _begun(item)})
            for kind, delta in _fragments(item, say):
                yield named_event({"type": f"response.{kind}.delta", **at, "delta": delta})
            yield named_event({"type": "response.output_item.done", "output_index": index, "item": item})
        yield named_event({"type": f"response.{whole['status']}", "response": whole})


def _is_last(piece: bytes) -> bool:
    return piece.startswith((b"event: response.completed", b"event: response.incomplete"))


def _fragments(item: Mapping[str, object], say: Say) -> Iterator[tuple[str, str]]:
    """Yield the deltas of an item, each with its kind of event."""
    if item["type"] == "reasoning":
        yield from (("reasoning_summary_text", piece) for piece in deltas(say.reasoning))
    elif item["type"] == "message":
        yield from (("output_text", piece) for piece in deltas(say.text))
    else:
        call = Call(str(item["name"]), str(item["arguments"]))
        yield from (("function_call_arguments", piece) for piece in argument_deltas(call))


def _begun(item: Mapping[str, object]) -> Mapping[str, object]:
    """Return an item as it is announced: without what its deltas bring."""
    empty: dict[str, object] = {"summary": [], "content": [], "arguments": ""}
    return {name: empty.get(name, value) for name, value in item.items()}


def _items(say: Say) -> Iterator[Mapping[str, object]]:
    if say.reasoning:
        summary = [{"type": "summary_text", "text": joined(say.reasoning)}]
        yield {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VhbGVk"}
    if joined(say.text):
        content = [{"type": "output_text", "text": joined(say.text), "annotations": []}]
        yield {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}
    for number, call in enumerate(say.calls, 1):
        yield {
            "type": "function_call",
            "id": f"fc_{number}",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments_text,
        }


def _response(say: Say, request: Request, usage: Mapping[str, object]) -> dict[str, object]:
    reason = _REASONS.get(say.stop)
    return {
        "id": f"resp_{request.number}",
        "object": "response",
        "created_at": CREATED_AT_S,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "model": request.model,
        "output": list(_items(say)),
        "usage": usage or None,
    }


def _counts(usage: Mapping[str, object]) -> Mapping[str, object]:
    """Return the counts in this wire's words; other words are kept."""
    if "prompt_tokens" not in usage:
        return usage
    read, written = count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": count_of(usage, "prompt_tokens_details", "cached_tokens")},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": count_of(usage, "completion_tokens_details", "reasoning_tokens")},
        "total_tokens": read + written,
    }
