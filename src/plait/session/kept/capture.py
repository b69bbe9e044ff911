"""Full capture: what a session sends and gets, byte for byte, and what it tells, before anybody acts on it.

Floor: 5. Owns: what is captured, and when it has to be safe; never: the file (`store.capture`).

A request is safe before it is sent, and an answer, with all its pieces, before the loop takes it. What is told between
those is safe with whatever comes next.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from plait.core.cancel import Cancel
from plait.core.clock import SystemClock
from plait.core.exchange import ProviderFailed, Reply
from plait.core.strict_json import dump, plain
from plait.core.usage import Usage
from plait.engine.wrapped_model import WrappedModel
from plait.kernel.effects import Think
from plait.kernel.ports import AsyncChannel, Channel, Emit, Model, Setup
from plait.models.foreign import document_of
from plait.models.openai_client import Chat, OpenAI
from plait.models.transport import HttpRequest, Stream, Timeouts, Transport
from plait.session.kept.session_log import DurableSink
from plait.store.capture import CaptureFile

_CALLBACKS: Final = "on_"
_SECRETS: Final = ("authorization", "api-key", "cookie", "token", "secret")


class Capture:
    """Takes records for a file and for a sink; either may be missing."""

    def __init__(self, file: CaptureFile | None, sink: DurableSink | None, now_ms: Callable[[], int]) -> None:
        self._file = file
        self._sink = sink
        self._now_ms = now_ms
        self._waiting: list[Mapping[str, object]] = []
        """For the sink, once the file has them."""

    def add(self, type: str, data: Mapping[str, object]) -> None:
        """Take a record in; safe with the next `commit`."""
        if self._file is not None:
            record = self._file.add(type, data)
        else:
            record = {"at": self._now_ms(), "type": type, "data": plain(data)}
        if self._sink is not None:
            self._waiting.append({name: record[name] for name in ("type", "at", "data")})

    def body(self, parts: tuple[bytes, ...]) -> object:
        """Return a request's body as the next record is to hold it."""
        if self._file is not None:
            return self._file.body(parts)
        return b"".join(parts).decode("utf-8", "surrogateescape")

    def commit(self) -> None:
        """Make everything so far safe, and then give it to the sink; raise what either of them raises."""
        if self._file is not None:
            self._file.commit()
        if self._sink is not None:
            while self._waiting:
                self._sink.append(self._waiting[0])
                del self._waiting[0]

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()


def capture_in(folder: Path | None, sink: DurableSink | None) -> Capture | None:
    """Return what captures a session into a folder and for a sink; None where neither is wanted."""
    if folder is None and sink is None:
        return None
    now_ms = SystemClock().now_ms
    return Capture(None if folder is None else CaptureFile(folder, now_ms), sink, now_ms)


def watched_client(client: object, capture: Capture) -> object:
    """Return a client whose requests and answers are captured; a model, which has no wire, stays as it is."""
    if hasattr(client, "open") and hasattr(client, "aopen"):
        return client
    if type(client) is OpenAI and type(client.chat) is Chat:
        return OpenAI(backend=client.backend.through(lambda transport: _Transport(transport, capture)))
    create = getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)
    return client if not callable(create) else _Client(client, create, capture)


class WatchedModel(WrappedModel):
    """A model whose answers are safe before anybody takes them; everything else is the model's own."""

    def __init__(self, model: Model, capture: Capture) -> None:
        super().__init__(model)
        self._capture = capture

    def open(self, setup: Setup) -> Channel:
        """Open a line for a thread."""
        return cast("Channel", _Channel(self._model.open(setup), self._capture))

    def aopen(self, setup: Setup) -> AsyncChannel:
        """Open a line for an event loop; sessions are sync, so that nothing is captured there."""
        return self._model.aopen(setup)


class _Channel:
    def __init__(self, channel: Channel, capture: Capture) -> None:
        self._channel = channel
        self._capture = capture

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Ask, between two records that are safe before and after."""
        view, capture = ask.view, self._capture
        asked = {"purpose": ask.purpose, "attempt": ask.attempt, "epoch": view.epoch, "messages": view.length}
        capture.add("model_request", asked)
        capture.commit()
        try:
            reply = self._channel.think(ask, emit, cancel)
        except ProviderFailed as failed:
            told = {"kind": failed.kind, "message": failed.message, "status": failed.status}
            capture.add("model_failure", {"purpose": ask.purpose, **told})
            capture.commit()
            raise
        message = reply.message
        calls = [{"id": call.id, "name": call.name, "arguments": call.raw} for call in message.tool_calls]
        said = {"content": message.content, "reasoning": message.reasoning, "tool_calls": calls, "stop": reply.stop}
        capture.add("model_response", {"purpose": ask.purpose, **said, "usage": _numbers(reply.usage)})
        capture.commit()
        return reply

    def close(self) -> None:
        """Give connections back."""
        self._channel.close()


class _Transport:
    """Connections whose requests are safe before they are sent."""

    def __init__(self, transport: Transport, capture: Capture) -> None:
        self._transport = transport
        self._capture = capture

    def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> Stream:
        """Send a request once its record is safe."""
        told = {"method": request.method, "url": _without_query(request.url), "headers": _shown(request.headers)}
        self._capture.add("model_request_attempt", {**told, "body": self._capture.body(request.parts)})
        self._capture.commit()
        stream = self._transport.open(request, limits, cancel)
        self._capture.add("model_response_head", {"status": stream.status, "headers": _shown(stream.headers)})
        return cast("Stream", _Stream(stream, self._capture))

    def close(self) -> None:
        """Close idle connections."""
        self._transport.close()


class _Stream:
    def __init__(self, stream: Stream, capture: Capture) -> None:
        self._stream = stream
        self._capture = capture

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[bytes]:
        for data in self._stream:
            frame = {"kind": "bytes", "data": data.decode("utf-8", "surrogateescape")}
            self._capture.add("model_response_frame", frame)
            yield data


class _Client:
    """A client of somebody else's, whose `create` is captured; everything else is the client's own."""

    def __init__(self, client: object, create: Callable[..., Any], capture: Capture) -> None:
        self._client = client

        def ask(request: Mapping[str, Any]) -> None:
            told = {name: value for name, value in request.items() if not name.startswith(_CALLBACKS)}
            told.pop("cancel", None)
            capture.add("model_request_attempt", {"body": capture.body((dump(plain(told)).encode(),))})
            capture.commit()

        def answered(answer: object) -> None:
            capture.add("model_response_frame", {"kind": "payload", "data": document_of(answer)})

        @functools.wraps(create)
        def captured(**request: Any) -> Any:
            ask(request)
            answer = create(**request)
            answered(answer)
            return answer

        @functools.wraps(create)
        async def acaptured(**request: Any) -> Any:
            ask(request)
            answer = await create(**request)
            answered(answer)
            return answer

        is_async = inspect.iscoroutinefunction(create)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=acaptured if is_async else captured))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without what opens doors."""
    return {
        name: "[REDACTED]" if any(word in name.lower() for word in _SECRETS) else value
        for name, value in headers.items()
    }


def _without_query(url: str) -> str:
    """An address without what follows the question mark, where some put their keys."""
    address, mark, _ = url.partition("?")
    return f"{address}?[REDACTED]" if mark else address


def _numbers(usage: Usage) -> dict[str, object]:
    return {"prompt": usage.input, "completion": usage.output, "cached": usage.cache_read, "written": usage.cache_write}
