"""A model behind a chat-completions endpoint, for threads and for event loops.

Floor: 2. Owns: one attempt of one request, in both colours side by side; never: a second attempt, except with
another key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed, Reply
from plait.core.usage import Usage
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Emit, Setup
from plait.models.attempt import Attempt
from plait.models.backend import Backend, BackendOptions
from plait.models.bodies import aerror_body, error_body
from plait.models.credentials import KeySource, credentials_for
from plait.models.endpoint import Endpoint, default_endpoint, endpoint_of
from plait.models.line import Line, Target
from plait.models.listing import alist_models, list_models, with_near_names
from plait.models.own_limit import await_place, wait_for_place
from plait.models.profiles import EndpointProfile, with_wire
from plait.models.transport import Aborted, Network, Timeouts
from plait.wire.profile import CallForm, StructuredOutput, WireName

if TYPE_CHECKING:
    from plait.models.prices import Price


class ChatModel:
    """A named model at an endpoint; see `plait.kernel.ports.Model`.

    Making one does no I/O and needs no key: the first request looks for it. Conversations share its connections.
    `price` counts in place of the table's, `on_pin` is told which provider a router's requests stay with.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        *,
        context_window: int | None = None,
        supports_images: bool | None = None,
        price: Price | None = None,
        on_pin: Callable[[str], None] | None = None,
    ) -> None:
        profile = backend.endpoint.profile.for_model(name)
        images = profile.wire.images if supports_images is None else supports_images
        origin = f"{profile.wire.origin or backend.endpoint.host}:{name}"
        self._backend = backend
        self._on_pin = on_pin
        self._given_window = context_window
        self._target = Target(
            name,
            replace(profile.wire, images=images, origin=origin),
            streams=profile.streams,
            context_window=context_window or profile.context_window,
            price=price,
        )

    @property
    def name(self) -> str:
        """The name requests ask for."""
        return self._target.name

    @property
    def endpoint(self) -> str:
        """The base URL, without its query."""
        return self._backend.endpoint.base

    @property
    def profile(self) -> EndpointProfile:
        """What is known of the endpoint."""
        return self._backend.endpoint.profile

    @property
    def origin(self) -> str:
        """How its answers say that they are its own."""
        return self._target.wire.origin

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, where it is known."""
        return self._target.context_window

    @property
    def window_max(self) -> int | None:
        """Tokens that no request may exceed, where that is known of this very model: larger ones are not sent."""
        return self._given_window or self.profile.window_of(self.name)

    @property
    def supports_images(self) -> bool:
        """True when user messages may hold pictures."""
        return self._target.wire.images

    @property
    def image_bytes_max(self) -> int:
        """The largest picture that the endpoint takes."""
        return self._target.wire.image_bytes_max

    @property
    def structured_output(self) -> StructuredOutput:
        """Whether answers can be held to a JSON Schema: also beside tools, only where there are none, never."""
        return self._target.wire.structured_output

    @property
    def calls(self) -> CallForm:
        """Whether tools are declared and called as data, or in the model's text."""
        return self._target.wire.calls

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys and secret headers that its requests were sent with."""
        return self._backend.secrets

    def __repr__(self) -> str:
        return f"ChatModel({self.name!r}, {self.endpoint!r})"

    def counted(self, usage: Usage) -> Usage:
        """Return a usage with what it costs, as far as that is known."""
        return self._backend.counted(usage, self.name, self._target.price)

    def with_model(self, name: str) -> ChatModel:
        """Return another model of the same endpoint; connections, keys and limits are shared."""
        return ChatModel(name, self._backend, context_window=self._given_window, supports_images=self.supports_images)

    def open(self, setup: Setup) -> ChatChannel:
        """Open a line for a thread; no request is made yet."""
        return ChatChannel(Line(self._backend, self._target, setup, self._on_pin))

    def aopen(self, setup: Setup) -> AsyncChatChannel:
        """Open a line for an event loop; no request is made yet."""
        return AsyncChatChannel(Line(self._backend, self._target, setup, self._on_pin))

    def close(self) -> None:
        """Close idle connections; the model can be used again."""
        self._backend.close()

    async def aclose(self) -> None:
        """Close the connections of the running loop too; the model can be used again."""
        await self._backend.aclose()


class _Channel:
    """What both colours of a line share."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._under_way: Attempt | None = None
        """The request that has no end yet, or was cut off and nobody has asked what it took."""

    def spent(self) -> Usage | None:
        """Return what a request that never came to its end has used, as far as the endpoint has told, once."""
        cut, self._under_way = self._under_way, None
        return None if cut is None else cut.spent


class ChatChannel(_Channel):
    """One conversation, for one thread at a time; see `plait.kernel.ports.Channel`."""

    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request and return the whole answer.

        Raises:
            ProviderFailed: there is none. Interrupted: `cancel` was given, from whatever thread.
        """
        self._under_way = attempt = Attempt(self.line, ask, emit)
        limiter = self.line.backend.limiter
        while True:
            if limiter is not None:
                wait_for_place(limiter, cancel, self.line.tell)
            try:
                reply = self._exchange(attempt, cancel)
                self._under_way = None
                return reply
            except Aborted:
                raise Interrupted(cancel.reason or "interrupted", usage=self.spent()) from None
            except ProviderFailed as failed:
                settled = attempt.settled(failed)
                if settled is not None:
                    self._under_way = None
                    return settled
                if attempt.another_key(failed) or attempt.adjusted(failed):
                    continue
                if failed.kind in ("model_not_found", "quota"):
                    self._ask_about(failed)
                self._under_way = None
                raise attempt.broken(failed) from failed.__cause__

    def close(self) -> None:
        """Nothing is held between requests: connections belong to the model."""

    def _exchange(self, attempt: Attempt, cancel: Cancel) -> Reply:
        backend = self.line.backend
        stream = backend.transport.open(attempt.request, backend.options.timeouts, cancel)
        try:
            if not 200 <= stream.status < 300:
                raise attempt.refused(stream.status, stream.headers, error_body(stream))
            attempt.content_type = stream.headers.get("content-type", "")
            for data in stream:
                if attempt.feed(data):
                    stream.finish()
                    break
            return attempt.finish()
        finally:
            stream.close()

    def _ask_about(self, failed: ProviderFailed) -> None:
        """Ask the endpoint what else there is to say about a failure: which models it has, when it answers again."""
        backend = self.line.backend
        with suppress(ProviderFailed):
            if failed.kind == "model_not_found":
                with_near_names(failed, self.line.target.name, list_models(backend))
            else:
                from plait.models.allowance import ask_allowance  # few ever come so far

                ask_allowance(backend, failed)


class AsyncChatChannel(_Channel):
    """One conversation in an event loop; see `plait.kernel.ports.AsyncChannel`."""

    async def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request and return the whole answer.

        Raises:
            ProviderFailed: there is none. Interrupted: `cancel` was given, from whatever thread.
        """
        await self.line.backend.afind_key()
        self._under_way = attempt = Attempt(self.line, ask, emit)
        limiter = self.line.backend.limiter
        while True:
            if limiter is not None:
                await await_place(limiter, cancel, self.line.tell)
            try:
                reply = await self._exchange(attempt, cancel)
                self._under_way = None
                return reply
            except Aborted:
                raise Interrupted(cancel.reason or "interrupted", usage=self.spent()) from None
            except ProviderFailed as failed:
                settled = attempt.settled(failed)
                if settled is not None:
                    self._under_way = None
                    return settled
                if attempt.another_key(failed) or attempt.adjusted(failed):
                    continue
                if failed.kind in ("model_not_found", "quota"):
                    await self._ask_about(failed)
                self._under_way = None
                raise attempt.broken(failed) from failed.__cause__

    async def aclose(self) -> None:
        """Nothing is held between requests: connections belong to the model."""

    async def _exchange(self, attempt: Attempt, cancel: Cancel) -> Reply:
        backend = self.line.backend
        stream = await backend.async_transport.open(attempt.request, backend.options.timeouts, cancel)
        try:
            if not 200 <= stream.status < 300:
                raise attempt.refused(stream.status, stream.headers, await aerror_body(stream))
            attempt.content_type = stream.headers.get("content-type", "")
            async for data in stream:
                if attempt.feed(data):
                    await stream.finish()
                    break
            return attempt.finish()
        finally:
            await stream.aclose()

    async def _ask_about(self, failed: ProviderFailed) -> None:
        backend = self.line.backend
        with suppress(ProviderFailed):
            if failed.kind == "model_not_found":
                with_near_names(failed, self.line.target.name, await alist_models(backend))
            else:
                from plait.models.allowance import aask_allowance

                await aask_allowance(backend, failed)


def chat_model(
    name: str,
    endpoint: str | Endpoint | None = None,
    *,
    api_key: str | None = None,
    key_env: str | None = None,
    keys: Sequence[KeySource] = (),
    profile: EndpointProfile | None = None,
    wire: WireName | None = None,
    timeouts: Timeouts | None = None,
    network: Network | None = None,
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, object] | None = None,
    max_rpm: int | None = None,
    context_window: int | None = None,
    supports_images: bool | None = None,
) -> ChatModel:
    """Return the model `name` at an endpoint.

    Args:
        endpoint: a base URL in any usual form, or a provider's name; None takes `OPENAI_BASE_URL` where it is set,
            else the one provider whose key is in the environment, else OpenRouter.
        api_key: the key itself; else `key_env` names its variable, `keys` other sources, or the host decides.
        profile: what is known of the endpoint, in place of what the table says of its host.
        wire: what the endpoint speaks, where it speaks more than the profile says.
        timeouts, network: how long each phase of a request may take; proxy and certificate authorities.
        headers, body: sent with every request.
        max_rpm: a limit of requests a minute of our own.
        context_window, supports_images: what the model can do, where the profile does not know better.

    Raises:
        ConfigError: the endpoint is no address.
    """
    if endpoint is None:
        endpoint = default_endpoint(os.environ)
    at = endpoint if isinstance(endpoint, Endpoint) else endpoint_of(endpoint)
    if profile is not None:
        at = at.with_profile(profile)
    if wire is not None:
        at = at.with_profile(with_wire(at.profile, wire))
    options = BackendOptions(
        timeouts=timeouts or Timeouts(),
        network=network or Network(),
        headers=headers or {},
        body=body or {},
        max_rpm=max_rpm,
    )
    backend = Backend(at, credentials_for(at, api_key=api_key, key_env=key_env, named=keys), options)
    return ChatModel(name, backend, context_window=context_window, supports_images=supports_images)
