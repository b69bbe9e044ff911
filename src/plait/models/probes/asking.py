"""One question of a probe: a bounded request, asked again when an endpoint fails in passing, and what came of it.

Floor: 2. Owns: the requests of a probe, their number and what they cost; never: which questions there are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed, Reply, ToolSchema, View
from plait.core.messages import Message
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Options, Setup
from plait.kernel.rules import Retry
from plait.models.backend import Backend, BackendOptions
from plait.models.chat_model import ChatModel
from plait.models.credentials import Credentials
from plait.models.endpoint import Endpoint
from plait.models.errors import to_error
from plait.models.http.sync_http import SyncTransport
from plait.models.profiles import EndpointProfile
from plait.models.transport import HttpRequest, Network, Stream, Timeouts

OUTPUT_TOKENS: Final = 400
"""Limit of every answer; a model that thinks first needs some of it for that."""
_KEPT_BYTES: Final = 65_536
_WAIT_MAX_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingOptions:
    """How patient a probe is."""

    timeout_s: float = 120.0
    """Of one request, from the connection to the last byte."""
    attempts_max: int = 3
    """Requests for one question, the first one counted."""
    base_s: float = 0.5
    """Wait before the second request; it doubles."""
    network: Network = field(default_factory=Network)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked."""

    messages: Sequence[Message]
    system: str = "You are being tested. Answer briefly."
    tools: tuple[ToolSchema, ...] = ()
    options: Options = field(default_factory=Options)
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """What came back: a reply or a failure, and how it looked on the wire."""

    reply: Reply | None
    failure: ProviderFailed | None
    body: bytes
    """The first 64 KiB of the last answer."""
    sent: bytes
    """The last request's body: a channel may leave out what an endpoint refuses, and ask again."""

    @property
    def is_event_stream(self) -> bool:
        """Whether the answer came as events; the bytes are asked, because headers say what they like."""
        return self.body.lstrip(b" \t\r\n\xef\xbb\xbf").startswith((b"data:", b"event:", b"id:", b"retry:", b":"))

    def why(self, model: str, endpoint: Endpoint) -> str:
        """Return the failure in one line without a key, empty for a reply."""
        return "" if self.failure is None else to_error(self.failure, model=model, endpoint=endpoint.base).message


class Asker:
    """Asks one endpoint about one model; `profile` may change from one question to the next."""

    def __init__(
        self, endpoint: Endpoint, model: str, credentials: Credentials, options: AskingOptions, cancel: Cancel
    ) -> None:
        self.endpoint = endpoint
        self.model = model
        self.requests = 0
        """Requests made so far, the repeated ones counted."""
        self.usage = Usage.UNAVAILABLE
        """Sum of what the answers reported."""
        self._credentials = credentials
        self._options = options
        self._cancel = cancel
        self._retry = Retry(
            attempts_max=options.attempts_max,
            base_s=options.base_s,
            stated_wait_max_s=_WAIT_MAX_S,
            seed=random.getrandbits(32),
        )
        self._witness = Witness(SyncTransport(options.network))

    @property
    def profile(self) -> EndpointProfile:
        """What is known of the endpoint by now."""
        return self.endpoint.profile

    def learn(self, profile: EndpointProfile) -> None:
        """Ask as this profile says from now on."""
        self.endpoint = self.endpoint.with_profile(profile)

    def backend(self, *, streams: bool = True) -> Backend:
        """Return the endpoint with what is known of it by now; connections are shared."""
        limit_s = self._options.timeout_s
        limits = Timeouts(connect_s=min(10.0, limit_s), first_byte_s=limit_s, idle_s=limit_s, total_s=limit_s)
        at = self.endpoint.with_profile(replace(self.profile, streams=streams))
        return Backend(at, self._credentials, BackendOptions(timeouts=limits), transport=self._witness)

    def ask(self, question: Question) -> Heard:
        """Ask, and ask again while the failure is one that may pass; a failure is returned, not raised.

        Raises:
            Interrupted: the probe was stopped.
        """
        attempt = 1
        while True:
            heard = self._once(question)
            if heard.failure is None:
                return heard
            delay_s = self._retry.delay_s(heard.failure, attempt)
            if delay_s is None:
                return heard
            if self._cancel.wait(delay_s):
                raise Interrupted(self._cancel.reason or "interrupted")
            attempt += 1

    def close(self) -> None:
        """Close the connections."""
        self._witness.close()

    def _once(self, question: Question) -> Heard:
        model = ChatModel(self.model, self.backend(streams=question.streams))
        channel = model.open(Setup(question.system, question.tools, question.options))
        history = [*question.messages]
        reply: Reply | None = None
        failure: ProviderFailed | None = None
        witness, before = self._witness, self._witness.posts
        try:
            reply = channel.think(Think(View(0, history, len(history))), None, self._cancel)
        except ProviderFailed as failed:
            failure = failed
        self.requests += witness.posts - before
        usage = reply.usage if reply is not None else failure.usage if failure is not None else None
        if usage is not None and usage != Usage.UNAVAILABLE:
            self.usage = usage if self.usage == Usage.UNAVAILABLE else self.usage + usage
        return Heard(reply, failure, bytes(witness.body), witness.sent)


class Witness:
    """A transport that remembers the last POST and how its answer looked."""

    def __init__(self, inner: SyncTransport) -> None:
        self.posts = 0
        """How many there were."""
        self.sent = b""
        self.body = bytearray()
        self._inner = inner

    def open(self, request: HttpRequest, limits: Timeouts, cancel: Cancel | None = None) -> Stream:
        """Send a request; see `plait.models.transport.Transport`."""
        if request.method != "POST":
            return self._inner.open(request, limits, cancel)
        self.posts += 1
        self.sent, self.body = b"".join(request.parts), bytearray()
        return _Watched(self._inner.open(request, limits, cancel), self.body)

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


@dataclass(frozen=True, slots=True)
class _Watched:
    """A stream whose first bytes are kept."""

    inner: Stream
    kept: bytearray

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.inner:
            self.kept.extend(piece[: _KEPT_BYTES - len(self.kept)])
            yield piece

    def finish(self) -> None:
        self.inner.finish()

    def abort(self) -> None:
        self.inner.abort()

    def close(self) -> None:
        self.inner.close()
