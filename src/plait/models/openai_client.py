"""A client in the shape of OpenAI's, over our own transport: `client.chat.completions.create(...)`.

Floor: 2. Owns: that shape, its retries and its callbacks; never: a conversation (that is `as_model`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.core.strict_json import dump
from plait.kernel.effects import Interrupted
from plait.kernel.rules import Retry
from plait.models.backend import Backend, BackendOptions
from plait.models.bodies import error_body
from plait.models.chat_model import ChatModel
from plait.models.completion import Completion, completion_of
from plait.models.credentials import Credentials, Given
from plait.models.endpoint import Endpoint
from plait.models.errors import to_error
from plait.models.known_profiles import profile_of
from plait.models.profiles import EndpointProfile
from plait.models.transport import Aborted, HttpRequest, Network, Timeouts
from plait.wire.chat.decode import ChatDecoder
from plait.wire.chat.encode import PATH
from plait.wire.errors.classify import classify
from plait.wire.profile import DecodeOptions

Told = Callable[..., None]
_SHOWN: Final = "it is not asked again, because a part of the answer was shown already"


class BaseUrl(str):
    """A URL that knows its host."""

    @property
    def host(self) -> str:
        """The host, without its port."""
        return urlsplit(self).hostname or ""


class OpenAI:
    """A client of one endpoint; safe in any thread.

    Args:
        api_key: sent to this endpoint; empty sends none.
        base_url: where the API begins; it is taken as it is, and a query in it is kept.
        auth_header: in `Authorization` the key follows the word Bearer, in any other header it stands alone.
        max_rpm: a limit of requests a minute of this client's own; None is none.
        timeout: seconds until an answer begins.
    """

    def __init__(
        self,
        *,
        api_key: str = "",
        base_url: str = "https://api.openai.com/v1",
        auth_header: str = "Authorization",
        max_rpm: int | None = None,
        extra_headers: Mapping[str, str] | None = None,
        timeout: float | None = 300.0,
        profile: EndpointProfile | None = None,
        network: Network | None = None,
        retry: Retry | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.backend = backend or _backend(
            base_url,
            Credentials((Given(api_key),), is_needed=False),
            BackendOptions(
                timeouts=Timeouts(first_byte_s=timeout),
                network=network or Network(),
                headers=extra_headers or {},
                max_rpm=max_rpm,
            ),
            profile=profile,
            auth_header=auth_header,
        )
        self.base_url = BaseUrl(self.backend.endpoint.base)
        self.retry = retry or Retry(seed=random.getrandbits(32))
        self.chat = Chat(self)

    def __repr__(self) -> str:
        return f"OpenAI(base_url={str(self.base_url)!r})"

    def as_model(
        self,
        name: str,
        *,
        context_window: int | None = None,
        supports_images: bool | None = None,
        on_pin: Callable[[str], None] | None = None,
    ) -> ChatModel:
        """Return a model of this endpoint for conversations; it shares this client's connections and key.

        `on_pin` is told which provider a router's requests stay with.
        """
        return ChatModel(
            name, self.backend, context_window=context_window, supports_images=supports_images, on_pin=on_pin
        )

    def close(self) -> None:
        """Close idle connections; the client can be used again."""
        self.backend.close()

    def __enter__(self) -> OpenAI:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Chat:
    """The `chat` of a client."""

    def __init__(self, client: OpenAI) -> None:
        self.completions = Completions(client)


class Completions:
    """The `chat.completions` of a client."""

    def __init__(self, client: OpenAI) -> None:
        self._client = client

    def create(
        self,
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        temperature: float | None = 0,
        extra_body: Mapping[str, Any] | None = None,
        on_content_delta: Callable[[str], None] | None = None,
        on_reasoning_delta: Callable[[str], None] | None = None,
        on_raw_response: Told | None = None,
        on_request_attempt: Told | None = None,
        on_rate_limit_wait: Told | None = None,
        cancel: Cancel | None = None,
        **parameters: Any,
    ) -> Completion:
        """Ask for one completion and return it whole.

        Args:
            messages: sent as they are.
            extra_body, parameters: members of the request, of any name; None is not sent.
            on_content_delta: gets the words as they come; the request is streamed when it is given, and not made
                again once there were any, because nothing can take them back.
            on_reasoning_delta: the same for thoughts.
            on_raw_response: gets `{kind, status, headers, body}` of every answer.
            on_request_attempt: gets `{payload, attempt}` before every request.
            on_rate_limit_wait: gets the seconds, the time it goes on, and a sentence, before a rate limit's wait.
            cancel: stops the request, or a wait before the next one.

        Raises:
            ModelError: there is no answer, and asking again will not help or was tried enough.
            Interrupted: `cancel` was given.
        """
        told = {"raw": on_raw_response, "attempt": on_request_attempt, "wait": on_rate_limit_wait}
        streams = on_content_delta is not None
        body = _body(model, messages, temperature, {**parameters, **(extra_body or {})}, streams=streams)
        shown = _Shown(on_content_delta, on_reasoning_delta if streams else None)
        cancel = cancel or Cancel()
        attempt = 1
        tried: list[str] = []
        while True:
            _tell(told["attempt"], {"payload": body, "attempt": attempt})
            try:
                return self._ask(body, shown, told, cancel, tried)
            except Aborted:
                raise Interrupted(cancel.reason or "interrupted") from None
            except ProviderFailed as failed:
                self._client.backend.hush(failed)
                if not shown.heard and self._has_another_key(failed, tried):
                    continue
                delay_s = None if shown.heard else self._client.retry.delay_s(failed, attempt)
                if delay_s is None:
                    failed.gave_up = _SHOWN if shown.heard else self._client.retry.why_not(failed, attempt)
                    raise to_error(failed, model=model, endpoint=str(self._client.base_url)) from failed
                if failed.kind == "rate_limit":
                    _announce(told["wait"], delay_s)
                if cancel.wait(delay_s):
                    raise Interrupted(cancel.reason or "interrupted") from None
            attempt += 1
            tried.clear()

    def _has_another_key(self, failed: ProviderFailed, tried: Sequence[str]) -> bool:
        """Say whether the request can be made with another key at once, where the failure was about the last one."""
        change = self._client.backend.after(tried[-1], failed, tried) if tried else None
        return change is not None and change.key is not None

    def _ask(
        self,
        body: Mapping[str, object],
        shown: _Shown,
        told: Mapping[str, Told | None],
        cancel: Cancel,
        tried: list[str],
    ) -> Completion:
        backend, on_raw = self._client.backend, told["raw"]
        key = backend.key()
        tried.append(key)
        if backend.limiter is not None and (wait_s := backend.limiter.take()):
            _announce(told["wait"], wait_s)
            cancel.wait(wait_s)
        data = dump(body).encode()
        request = HttpRequest("POST", backend.endpoint.url(PATH), backend.headers(key), (data,))
        stream = backend.transport.open(request, backend.options.timeouts, cancel)
        try:
            if not 200 <= stream.status < 300:
                text = error_body(stream)
                _tell_raw(on_raw, stream.status, stream.headers, text)
                refused = classify(stream.status, stream.headers, text).to_exception(status=stream.status)
                raise backend.told(refused, key, request.url)
            decoder = ChatDecoder(backend.endpoint.profile.wire, DecodeOptions(loads=orjson.loads))
            raw = bytearray()
            for piece in stream:
                if on_raw is not None:
                    raw += piece
                shown.show(decoder.feed(piece))
                if decoder.done:
                    stream.finish()
                    break
            shown.show(decoder.close())
            _tell_raw(on_raw, stream.status, stream.headers, bytes(raw))
            return completion_of(decoder.finish())
        finally:
            stream.close()


def _backend(
    base_url: str,
    credentials: Credentials,
    options: BackendOptions,
    *,
    profile: EndpointProfile | None,
    auth_header: str,
) -> Backend:
    parts = urlsplit(base_url)
    known = profile or profile_of(parts.hostname or "")
    known = replace(known, auth_header=auth_header)
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return Backend(Endpoint(base, parts.query, known), credentials, options)


def _body(
    model: str,
    messages: Sequence[Mapping[str, Any]],
    temperature: float | None,
    parameters: Mapping[str, Any],
    *,
    streams: bool,
) -> dict[str, object]:
    body: dict[str, object] = {"model": model, "messages": list(messages), "temperature": temperature}
    body |= parameters
    if streams:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return {name: value for name, value in body.items() if value is not None}


class _Shown:
    """Who hears the fragments of one completion, and whether anything was heard."""

    def __init__(self, on_content: Callable[[str], None] | None, on_reasoning: Callable[[str], None] | None) -> None:
        self._calls = {"content": on_content, "reasoning": on_reasoning}
        self.heard = False

    def show(self, pieces: Sequence[tuple[str, str]]) -> None:
        """Hand on the fragments of one read."""
        for kind, text in pieces:
            show = self._calls.get(kind)
            if show is not None:
                self.heard = True
                show(text)


def _announce(on_wait: Told | None, delay_s: float) -> None:
    if on_wait is not None:
        resume_at = datetime.now(UTC) + timedelta(seconds=delay_s)
        on_wait(delay_s, resume_at, f"rate limited: going on in {delay_s:.0f} s, at {resume_at:%H:%M:%S} UTC")


def _tell(on_event: Told | None, data: Mapping[str, object]) -> None:
    if on_event is not None:
        on_event(dict(data))


def _tell_raw(on_raw: Told | None, status: int, headers: Mapping[str, str], body: bytes) -> None:
    text = body.decode("utf-8", "replace")
    _tell(on_raw, {"kind": "http", "status": status, "headers": dict(headers), "body": text})
