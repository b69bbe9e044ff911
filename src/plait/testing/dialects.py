"""How a scripted answer looks on the wire: one dialect an API shape.

Floor: testing. Owns: the bytes of answers, events and errors; never: which step is played, how bytes are sent.
Source: the chat completions reference of OpenAI's API, object and chunk object.

A new API shape is one more class with these methods and one more entry in `DIALECTS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from plait.testing.anthropic_dialect import AnthropicDialect
from plait.testing.json_body import CREATED_AT_S, EVENT_HEADERS, JSON_HEADERS, dump, event, prompt_bytes
from plait.testing.metering import Overflow
from plait.testing.request import Request
from plait.testing.response import Response, reason_of
from plait.testing.responses_dialect import ResponsesDialect
from plait.testing.steps import Call, Say, argument_deltas, deltas, joined


class Dialect(Protocol):
    """One API shape; every method is a pure function."""

    path: str
    """How the path of its requests ends."""

    def prompt(self, request: Request) -> bytes:
        """Return the bytes that the model reads, as sent: tools, system, messages without what closes them.

        Raises:
            ValueError: the body is not what this API takes.
        """
        ...

    def render(self, say: Say, request: Request, usage: Mapping[str, object]) -> Response:
        """Return the answer, as one document or as events, whichever the request asked for."""
        ...

    def error(self, status: int, message: str) -> Response:
        """Return an error in the words of this API."""
        ...

    def overflow(self, found: Overflow) -> Response:
        """Return how this API refuses a request that is larger than the model's window."""
        ...

    def error_event(self, error: Mapping[str, object]) -> bytes:
        """Return an error as an event inside a stream."""
        ...

    def without_done(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        """Take away the event that says that the stream is over."""
        ...

    def without_finish(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        """Take away the reason why the model stopped, and nothing else."""
        ...


class ChatDialect:
    """Chat completions: `choices[0].message`, and `choices[0].delta` in a stream that ends with `[DONE]`."""

    path = "/chat/completions"
    _DONE: Final = b"data: [DONE]\n\n"

    def prompt(self, request: Request) -> bytes:
        return prompt_bytes(request, "tools", listed="messages")

    def render(self, say: Say, request: Request, usage: Mapping[str, object]) -> Response:
        if request.stream:
            return Response(
                tuple(self._events(say, request, usage)),
                EVENT_HEADERS,
                framing="chunked",
                gap_s=say.gap_s,
                delay_s=say.delay_s,
            )
        return Response((self._document(say, request, usage),), JSON_HEADERS, delay_s=say.delay_s)

    def error(self, status: int, message: str) -> Response:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        body = {"error": {"message": message, "type": kind, "param": None, "code": None}}
        return Response((dump(body),), JSON_HEADERS, status)

    def overflow(self, found: Overflow) -> Response:
        if found.output_max:
            total = found.prompt + found.output_max
            shares = f"({found.prompt} in the messages, {found.output_max} in the completion)"
            asked, advice = f"you requested {total} tokens {shares}", "messages or completion"
        else:
            asked, advice = f"your messages resulted in {found.prompt} tokens", "messages"
        words = f"However, {asked}. Please reduce the length of the {advice}."
        error = {
            "message": f"This model's maximum context length is {found.window} tokens. {words}",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
        return Response((dump({"error": error}),), JSON_HEADERS, 400)

    def error_event(self, error: Mapping[str, object]) -> bytes:
        return event({"error": error})

    def without_done(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(piece for piece in pieces if piece != self._DONE)

    def without_finish(self, pieces: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(re.sub(rb'"finish_reason":"\w+"', b'"finish_reason":null', piece) for piece in pieces)

    def _document(self, say: Say, request: Request, usage: Mapping[str, object]) -> bytes:
        message: dict[str, object] = {"role": "assistant", "content": joined(say.text) or None}
        if say.reasoning:
            message["reasoning_content"] = joined(say.reasoning)
        if say.calls:
            message["tool_calls"] = [{**_opening(call), "function": _function(call)} for call in say.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": say.stop}
        body = {**_envelope(request, "chat.completion"), "choices": [choice]}
        return dump({**body, "usage": usage} if usage else body)

    def _events(self, say: Say, request: Request, usage: Mapping[str, object]) -> Iterable[bytes]:
        envelope = _envelope(request, "chat.completion.chunk")

        def chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
            return event({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": None if say.calls and not say.text else ""})
        for piece in deltas(say.reasoning):
            yield chunk({"reasoning_content": piece})
        for piece in deltas(say.text):
            yield chunk({"content": piece})
        for index, call in enumerate(say.calls):
            yield chunk({"tool_calls": [{"index": index, **_opening(call), "function": _function(call, "")}]})
            for piece in argument_deltas(call):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, say.stop)
        if usage and _wants_usage(request):
            yield event({**envelope, "choices": [], "usage": usage})
        yield self._DONE


DIALECTS: Final[Sequence[Dialect]] = (ChatDialect(), ResponsesDialect(), AnthropicDialect())
"""Every API shape that a server answers; the end of the path decides."""


def _wants_usage(request: Request) -> bool:
    options: Any = request.json.get("stream_options")
    return bool(isinstance(options, Mapping) and options.get("include_usage"))


def _envelope(request: Request, kind: str) -> dict[str, object]:
    number = f"chatcmpl-{request.number}"
    return {"id": number, "object": kind, "created": CREATED_AT_S, "model": request.model}


def _opening(call: Call) -> dict[str, object]:
    return {"id": call.id, "type": "function"}


def _function(call: Call, arguments: str | None = None) -> dict[str, object]:
    return {"name": call.name, "arguments": call.arguments_text if arguments is None else arguments}


def server_error(status: int, message: str) -> Response:
    """Return an error that no dialect has a say in: an unknown path, a request without a step."""
    body = {"error": {"message": message, "type": reason_of(status).lower().replace(" ", "_"), "code": status}}
    return Response((dump(body),), JSON_HEADERS, status)
