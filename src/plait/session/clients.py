"""From an agent spec to a client, and from whatever a host calls a client to the model that a conversation asks.

Floor: 5. Owns: what the endpoint fields of a spec mean, telling clients apart; never: a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.engine.agent_spec import endpoint_of as address_of
from plait.engine.spec_entry import with_entry
from plait.kernel.ports import Model
from plait.models.backend import Backend, BackendOptions
from plait.models.client_model import Callbacks, Client, ClientModel, host_of
from plait.models.credentials import Credentials, credentials_for
from plait.models.endpoint import Endpoint, endpoint_of
from plait.models.known_profiles import profile_of
from plait.models.openai_client import Chat, OpenAI
from plait.models.profiles import EndpointProfile
from plait.models.support import with_support
from plait.models.transport import Network, Timeouts
from plait.session.spec_terms import COPILOT, check_spec, is_structured, key_source_of, program_of, streams_of

if TYPE_CHECKING:
    from plait.models.subprocess_client import SubprocessOpenAI

_REQUEST_TIMEOUT_S: Final = 300.0

Waiting = Callable[[float, str], None]
"""Told that a client waits for a rate limit: seconds, and the time in ISO 8601 at which it goes on."""


def create_client(schema: Mapping[str, Any], *, network: Network | None = None) -> OpenAI | SubprocessOpenAI:
    """Return the client of a spec's endpoint, or of its program; nothing is sent.

    A key is looked for by the first request, in the first of these that the spec names: `auth`, the keyring entry,
    `key_env`, the entry's sources with `inference_db`. A spec that names none gets the key of its host's own
    provider. Close the client, or use it in a `with` block.

    Args:
        schema: an agent spec.
        network: proxy and certificate authorities; the environment's own unless given.

    Raises:
        ConfigError: the spec cannot be used, its endpoint is no address, or its entry is not in the list.
    """
    check_spec(schema)
    schema = with_entry(schema)
    check_spec(schema)
    program = program_of(schema)
    if program is not None:
        from plait.models.subprocess_client import SubprocessOpenAI

        return SubprocessOpenAI(program, env=schema.get("command_env"), timeout=schema.get("command_timeout"))
    at = endpoint_of(address_of(schema) or None)
    profile = _profile(schema, at.profile)
    provider = schema.get("provider")
    options = BackendOptions(
        timeouts=Timeouts(first_byte_s=float(schema.get("request_timeout") or _REQUEST_TIMEOUT_S)),
        network=network or Network(),
        headers={str(name): str(value) for name, value in (schema.get("extra_headers") or {}).items()},
        body={"provider": dict(provider)} if provider and profile.pins_provider else {},
        max_rpm=schema.get("max_rpm"),
    )
    return OpenAI(backend=Backend(at.with_profile(profile), _credentials(schema, at), options))


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a session wants of the model behind a client."""

    structured: bool
    streams: bool
    """Ask clients that are not plait's own for fragments."""
    context_window: int | None = None
    reports_input: bool = True
    """Whether the prompt tokens that the client tells mean anything."""
    on_wait: Waiting | None = None
    on_pin: Callable[[str], None] | None = None
    """Told which provider a router's requests stay with."""


def model_for(client: object, name: str, wishes: Wishes) -> Model:
    """Return the model that a client stands for.

    A client of plait's own lends its connections; any other, a subclass too, has its `chat.completions.create` called.

    Raises:
        ConfigError: the object is no client.
    """
    if hasattr(client, "open") and hasattr(client, "aopen"):
        return _named(cast("Model", client), name)
    if type(client) is OpenAI and type(client.chat) is Chat:
        return client.as_model(name, context_window=wishes.context_window, on_pin=wishes.on_pin)
    if not callable(getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)):
        raise ConfigError(
            f"{client!r} is no client",
            hint="give what create_client returned, or an object with chat.completions.create",
        )
    wire = profile_of(host_of(client)).wire
    on_wait = wishes.on_wait
    return ClientModel(
        name,
        cast("Client", client),
        streams=wishes.streams,
        wire=wire if wishes.structured else replace(wire, calls="inline"),
        context_window=wishes.context_window,
        reports_input=wishes.reports_input,
        callbacks=Callbacks(
            on_rate_limit_wait=None if on_wait is None else lambda *told: _tell(on_wait, *told), on_pin=wishes.on_pin
        ),
    )


def adapter_of(client: object) -> str:
    """Return how a client asks: `subprocess` for a program, else `http`."""
    from plait.models.subprocess_client import SubprocessOpenAI

    return "subprocess" if isinstance(client, SubprocessOpenAI) else "http"


def _named(model: Model, name: str) -> Model:
    """Return a model under the name that is asked for, where it can go by another."""
    other: Any = getattr(model, "with_model", None)
    return model if model.name == name or other is None else cast("Model", other(name))


def _tell(on_wait: Waiting, delay: object, resume_at: object, *_words: object) -> None:
    when = resume_at.isoformat(timespec="milliseconds") if isinstance(resume_at, datetime) else str(resume_at)
    on_wait(float(delay) if isinstance(delay, (int, float)) else 0.0, when)


def _profile(schema: Mapping[str, Any], known: EndpointProfile) -> EndpointProfile:
    """Return what is known of an endpoint, with what the spec says otherwise."""
    known = with_support(known, schema.get("provider_api_support"))
    streams = streams_of(schema)
    if schema.get("auth") == COPILOT:
        known = replace(known, auth_header="X-API-Key")
    elif (header := schema.get("auth_header")) is not None:
        known = replace(known, auth_header=str(header))
    return replace(
        known,
        wire=known.wire if is_structured(schema) else replace(known.wire, calls="inline"),
        streams=known.streams if streams is None else streams,
        reports_input=schema.get("reports_prompt_tokens") is not False,
    )


def _credentials(schema: Mapping[str, Any], at: Endpoint) -> Credentials:
    named = key_source_of(schema)
    if "key_env" in named and "auth" not in named:
        return credentials_for(at, key_env=named["key_env"])
    if not named:
        return credentials_for(at)
    # From here on keyrings, files and commands, which most specs do without.
    from plait.models.inference_db import load_entry
    from plait.models.key_sources import FromKeyring, opencode_source

    if "auth" in named:
        return credentials_for(at, named=(opencode_source(),))
    if "keyring_service" in named:
        return credentials_for(at, named=(FromKeyring(named["keyring_service"], named["keyring_username"]),))
    entry = load_entry(named["inference_db"])
    # An entry that names no place for a key leaves it to the host's own variables.
    return entry.credentials(at.host) if entry.keys else credentials_for(at)
