"""A model behind a client that somebody else made: anything with `chat.completions.create`.

Floor: 2. Owns: how a request and an answer pass through such a client; never: its connections.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, cast

from plait.core.cancel import Cancel
from plait.core.events import DeltaKind
from plait.core.exchange import Reply
from plait.core.messages import Message
from plait.core.strict_json import dump
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Emit, Setup
from plait.models.foreign import document_of, failure_of_client
from plait.models.known_profiles import profile_of
from plait.models.loading import Shown, wire_for
from plait.models.pinning import pin_of
from plait.models.profiles import EndpointProfile
from plait.wire.chat.decode import ChatDecoder
from plait.wire.chat.encode import message_dicts, tool_dict
from plait.wire.encoding import answer_format
from plait.wire.names import original_names
from plait.wire.profile import CallForm, DecodeOptions, StructuredOutput, WireProfile

Create = Callable[..., Any]
_OWN_PARAMETERS: Final = frozenset({"temperature", "max_tokens", "tool_choice", "user"})
"""Parameters that every such client takes by name; the others travel in `extra_body`."""


class Client(Protocol):
    """What is asked of a client: `base_url.host` and `chat.completions.create(**kwargs)`."""

    @property
    def chat(self) -> Any:
        """Holds `completions.create`."""
        ...


@dataclass(frozen=True)
class Callbacks:
    """Whom a client tells; passed on to those clients that take them."""

    on_rate_limit_wait: Callable[..., None] | None = None
    on_raw_response: Callable[..., None] | None = None
    on_request_attempt: Callable[..., None] | None = None
    on_pin: Callable[[str], None] | None = None
    """Told by plait itself which provider a router's requests stay with."""


class ClientModel:
    """A named model behind such a client; see `plait.kernel.ports.Model`.

    The client may be sync or async. A sync client is called in the caller's thread, in an event loop in a thread of
    its own. What it retries by itself is its own business.
    """

    def __init__(
        self,
        name: str,
        client: Client,
        *,
        streams: bool = False,
        wire: WireProfile | None = None,
        context_window: int | None = None,
        supports_images: bool = True,
        reports_input: bool = True,
        callbacks: Callbacks | None = None,
    ) -> None:
        host = host_of(client)
        wire = wire or profile_of(host).wire if host else wire or WireProfile()
        self._name = name
        self._client = client
        self._wire = replace(wire, images=supports_images, origin=f"{wire.origin or host or 'client'}:{name}")
        self._streams = streams
        self._reports_input = reports_input
        self._context_window = context_window
        self._callbacks = callbacks or Callbacks()

    usage_is_optional: Final = True
    """Such a client may keep an endpoint's token counts to itself."""

    @property
    def profile(self) -> EndpointProfile:
        """What is known of the endpoint that the client talks to."""
        return profile_of(host_of(self._client))

    @property
    def name(self) -> str:
        """The name requests ask for."""
        return self._name

    @property
    def endpoint(self) -> str:
        """The client's base URL, or what it has of one."""
        return str(getattr(self._client, "base_url", ""))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The client's key, where it tells it."""
        key = getattr(self._client, "api_key", None)
        return (key,) if isinstance(key, str) else ()

    @property
    def origin(self) -> str:
        """How its answers say that they are its own."""
        return self._wire.origin

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, where it is known."""
        return self._context_window

    @property
    def supports_images(self) -> bool:
        """True when user messages may hold pictures."""
        return self._wire.images

    @property
    def image_bytes_max(self) -> int:
        """The largest picture that the endpoint takes."""
        return self._wire.image_bytes_max

    @property
    def structured_output(self) -> StructuredOutput:
        """Whether answers can be held to a JSON Schema; never, where nothing is known of the client's host."""
        return self._wire.structured_output

    @property
    def calls(self) -> CallForm:
        """Whether tools are declared and called as data, or in the model's text."""
        return self._wire.calls

    def with_model(self, name: str) -> ClientModel:
        """Return another model of the same client."""
        return ClientModel(
            name,
            self._client,
            streams=self._streams,
            wire=self._wire,
            context_window=self._context_window,
            supports_images=self.supports_images,
            reports_input=self._reports_input,
            callbacks=self._callbacks,
        )

    def open(self, setup: Setup) -> ClientChannel:
        """Open a line for a thread; no request is made yet."""
        return ClientChannel(self._conversation(setup))

    def aopen(self, setup: Setup) -> AsyncClientChannel:
        """Open a line for an event loop; no request is made yet."""
        return AsyncClientChannel(self._conversation(setup))

    def _conversation(self, setup: Setup) -> _Conversation:
        create: Create = self._client.chat.completions.create
        taking = _Taking(
            self._wire, self._streams, self._reports_input, profile_of(host_of(self._client)).pins_provider
        )
        return _Conversation(self, setup, create, taking, self._callbacks)


@dataclass(frozen=True, slots=True)
class _Taking:
    """How answers are asked for and read."""

    wire: WireProfile
    streams: bool
    reports_input: bool
    pins_provider: bool


class _Conversation:
    """What passes through the client, without calling it."""

    def __init__(self, model: ClientModel, setup: Setup, create: Create, taking: _Taking, callbacks: Callbacks) -> None:
        wire = taking.wire
        self.create = create
        self._model = model
        self._setup = setup
        self._wire = wire = wire_for(wire, setup)
        self._taking = taking
        self._pinned: str | None = None
        self._callbacks = callbacks
        self._accepts = _parameters_of(create)
        self._shown = Shown(setup)
        self._tools = self._declared()
        self._tool_names = original_names(tool.name for tool in setup.tools)
        self._epoch: int | None = None
        self._encoded: list[dict[str, object]] = []
        self._counted = 0
        self._call_names: dict[str, str] = {}
        """Tool names by call id, for results in a conversation whose calls are text."""

    def arguments(self, ask: Think, emit: Emit | None, cancel: Cancel) -> dict[str, object]:
        """Return what `create` is called with."""
        options, is_step = self._setup.options, ask.purpose == "step"
        output_max = [limit for limit in (options.max_output_tokens, ask.output_max) if limit is not None]
        if self._shown.take(ask.view):
            self._tools = self._declared()
        arguments: dict[str, object] = {"model": self._model.name, "messages": self._messages(ask)}
        if self._tools:
            arguments["tools"] = self._tools
            arguments["tool_choice"] = (options.tool_choice or "auto") if is_step else "none"
        if options.temperature is not None:
            arguments["temperature"] = options.temperature
        if output_max:
            arguments["max_tokens"] = min(output_max)
        extra = dict(options.extra)
        if self._pinned is not None:
            extra.setdefault("provider", pin_of(self._pinned))
        if options.cache_key is not None:
            extra.setdefault("prompt_cache_key", options.cache_key)
        if options.reasoning is not None:
            extra.setdefault("reasoning_effort", options.reasoning)
        if options.response_schema is not None and is_step:
            answer = answer_format(options.response_schema, self._wire)
            extra.setdefault("response_format", {"type": "json_schema", "json_schema": answer})
        arguments |= {name: extra.pop(name) for name in _OWN_PARAMETERS & extra.keys()}
        if extra:
            arguments["extra_body"] = extra
        return arguments | self._told(emit, cancel)

    def _declared(self) -> list[dict[str, object]]:
        # Where calls are text, the system prompt says what there is.
        declared = self._shown.tools if self._wire.calls == "structured" else ()
        return [dict(tool_dict(tool, self._wire)) for tool in declared]

    def reply(self, response: object, ask: Think) -> Reply:
        """Read an answer.

        Raises:
            ProviderFailed: it is none.
        """
        view = ask.view
        ids = {call.id: None for message in view.history[: view.length] for call in message.tool_calls}
        decoder = ChatDecoder(
            self._wire, DecodeOptions(taken_ids=cast("Mapping[str, object]", ids), tool_names=self._tool_names)
        )
        decoder.feed(dump(document_of(response)).encode())
        reply = decoder.finish()
        self._pin((reply.details or {}).get("provider"))
        if self._taking.reports_input or reply.usage == Usage.UNAVAILABLE:
            return reply
        return replace(reply, usage=replace(reply.usage, input=None, cache_read=None, cache_write=None))

    def failure(self, error: Exception) -> Exception:
        """Say what an exception of the client means."""
        if isinstance(error, Interrupted):
            return error
        return failure_of_client(error, self._model.endpoint, window=self._model.context_window)

    def _pin(self, provider: object) -> None:
        """Stay with the provider that answered first, where the client's host routes to several."""
        if not self._taking.pins_provider or self._pinned is not None or "provider" in self._setup.options.extra:
            return
        if isinstance(provider, str) and provider:
            self._pinned = provider
            if self._callbacks.on_pin is not None:
                self._callbacks.on_pin(provider)

    def _messages(self, ask: Think) -> list[dict[str, object]]:
        """Return the messages as this wire has them; those of before are not made again."""
        view = ask.view
        if view.epoch != self._epoch or view.length < self._counted:
            system: dict[str, object] = {"role": self._wire.system_role, "content": self._setup.system}
            self._encoded = [system] if self._setup.system else []
            self._counted, self._epoch = 0, view.epoch
        for message in view.history[self._counted : view.length]:
            self._encoded += self._dicts(message)
        self._counted = view.length
        return [*self._encoded, *(item for message in view.extra for item in self._dicts(message))]

    def _dicts(self, message: Message) -> list[dict[str, object]]:
        self._call_names.update((call.id, call.name) for call in message.tool_calls)
        return list(message_dicts(message, self._wire, self._call_names))

    def _told(self, emit: Emit | None, cancel: Cancel) -> dict[str, object]:
        """Return the callbacks that this client takes."""
        callbacks = self._callbacks
        offered: dict[str, object] = {
            "on_rate_limit_wait": callbacks.on_rate_limit_wait,
            "on_raw_response": callbacks.on_raw_response,
            "on_request_attempt": callbacks.on_request_attempt,
            "cancel": cancel,
        }
        if self._taking.streams:
            offered["on_content_delta"] = _forward("content", emit, cancel)
            offered["on_reasoning_delta"] = _forward("reasoning", emit, cancel)
        by_name = {name: call for name, call in offered.items() if call is not None and name in self._accepts}
        if "**" in self._accepts:
            # A client that takes anything expects the waits, and the fragments where there is a stream.
            for name in ("on_rate_limit_wait", "on_content_delta", "on_reasoning_delta"):
                if offered.get(name) is not None:
                    by_name[name] = offered[name]
        return by_name


class ClientChannel:
    """One conversation, for one thread at a time; see `plait.kernel.ports.Channel`."""

    def __init__(self, conversation: _Conversation) -> None:
        self._conversation = conversation

    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request and return the whole answer.

        A foreign client cannot be stopped in the middle: a cancel is heard at its next fragment, or at its end.

        Raises:
            ProviderFailed: there is none. Interrupted: `cancel` was given.
        """
        arguments = self._conversation.arguments(ask, emit, cancel)
        try:
            response = self._conversation.create(**arguments)
        except Exception as error:  # boundary: a foreign client may raise anything
            _raise_if_told(cancel)
            raise self._conversation.failure(error) from error
        _raise_if_told(cancel)
        return self._conversation.reply(response, ask)

    def close(self) -> None:
        """Nothing is held: the client belongs to whoever made it."""


class AsyncClientChannel:
    """One conversation in an event loop; see `plait.kernel.ports.AsyncChannel`."""

    def __init__(self, conversation: _Conversation) -> None:
        self._conversation = conversation

    async def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request and return the whole answer.

        Cancel: at once; a sync client's call goes on in its thread, and nobody waits for it.

        Raises:
            ProviderFailed: there is none. Interrupted: `cancel` was given.
        """
        arguments = self._conversation.arguments(ask, emit, cancel)
        try:
            response = await _called(self._conversation.create, arguments)
        except Exception as error:  # boundary: a foreign client may raise anything
            _raise_if_told(cancel)
            raise self._conversation.failure(error) from error
        _raise_if_told(cancel)
        return self._conversation.reply(response, ask)

    async def aclose(self) -> None:
        """Nothing is held: the client belongs to whoever made it."""


def host_of(client: object) -> str:
    """Return the host that a client talks to, empty where it does not say."""
    host = getattr(getattr(client, "base_url", None), "host", "")
    return host if isinstance(host, str) else ""


async def _called(create: Create, arguments: Mapping[str, object]) -> object:
    """Call a client: one that is async in this loop, another in a thread, so that the loop goes on."""
    if inspect.iscoroutinefunction(create):
        return await create(**arguments)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[object] = loop.create_future()

    def settle(result: object, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def run() -> None:
        result, problem = None, None
        try:
            result = create(**arguments)
        except Exception as error:  # boundary: it is raised where the call is awaited
            problem = error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=run, name="plait-client", daemon=True).start()
    result = await answer
    return await result if inspect.isawaitable(result) else result


def _forward(kind: DeltaKind, emit: Emit | None, cancel: Cancel) -> Callable[[str], None]:
    def forward(text: str) -> None:
        _raise_if_told(cancel)
        if emit is not None and text:
            emit([(kind, text)])

    return forward


def _parameters_of(create: Create) -> frozenset[str]:
    """Return the names that a function takes; `**` among them says that it takes any."""
    try:
        parameters = inspect.signature(create).parameters.values()
    except (TypeError, ValueError):
        return frozenset({"**"})
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return frozenset(parameter.name for parameter in parameters) | (frozenset({"**"}) if any_name else frozenset())


def _raise_if_told(cancel: Cancel) -> None:
    if cancel.reason is not None:
        raise Interrupted(cancel.reason)
