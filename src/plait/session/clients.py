"""From an agent spec to a client, and from whatever a host calls a client to the model that a conversation asks.

Floor: 5. Owns: what the endpoint fields of a spec mean, telling clients apart; never: a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from plait.core.errors import ConfigError
from plait.core.exchange import ProviderFailed
from plait.engine.spec import endpoint_of as address_of, invalid
from plait.kernel.ports import Model
from plait.models.backend import Backend, BackendOptions
from plait.models.client_model import Callbacks, Client, ClientModel, host_of
from plait.models.credentials import Credentials, credentials_for
from plait.models.endpoint import Endpoint, endpoint_of
from plait.models.openai_client import Chat, OpenAI
from plait.models.profiles import profile_of
from plait.models.transport import Timeouts
from plait.session.spec_terms import check_spec, is_structured, streams_of

COPILOT: Final = "opencode-github-copilot"
_REQUEST_TIMEOUT_S: Final = 300.0

Waiting = Callable[[float, str], None]
"""Told that a client waits for a rate limit: seconds, and the time in ISO 8601 at which it goes on."""


def create_client(schema: Mapping[str, Any]) -> OpenAI:
    """Return the client of a spec's endpoint; nothing is sent, and a key is looked for by the first request.

    Raises:
        ConfigError: the spec cannot be used, or its endpoint is no address.
    """
    check_spec(schema)
    at = endpoint_of(address_of(schema) or None)
    wire = at.profile.wire if is_structured(schema) else replace(at.profile.wire, calls="inline")
    streams = at.profile.streams if streams_of(schema) is None else streams_of(schema) is True
    profile = replace(at.profile, wire=wire, streams=streams)
    if (header := schema.get("auth_header")) is not None:
        profile = replace(profile, auth_header=str(header))
    credentials = _credentials(schema, at)
    if schema.get("auth") == COPILOT:
        profile = replace(profile, auth_header="X-API-Key")
    provider = schema.get("provider")
    options = BackendOptions(
        timeouts=Timeouts(first_byte_s=float(schema.get("request_timeout") or _REQUEST_TIMEOUT_S)),
        headers={str(name): str(value) for name, value in (schema.get("extra_headers") or {}).items()},
        body={"provider": dict(provider)} if provider and profile.pins_provider else {},
        max_rpm=schema.get("max_rpm"),
    )
    return OpenAI(backend=Backend(at.with_profile(profile), credentials, options))


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a session wants of the model behind a client."""

    structured: bool
    streams: bool
    """Ask clients that are not plait's own for fragments."""
    context_window: int | None = None
    on_wait: Waiting | None = None


def model_for(client: object, name: str, wishes: Wishes) -> Model:
    """Return the model that a client stands for.

    A client of plait's own lends its connections; any other, a subclass too, has its `chat.completions.create` called.

    Raises:
        ConfigError: the object is no client.
    """
    if hasattr(client, "open") and hasattr(client, "aopen"):
        return _named(cast("Model", client), name)
    if type(client) is OpenAI and type(client.chat) is Chat:
        return client.as_model(name, context_window=wishes.context_window)
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
        callbacks=Callbacks(on_rate_limit_wait=None if on_wait is None else lambda *told: _tell(on_wait, *told)),
    )


def _named(model: Model, name: str) -> Model:
    """Return a model under the name that is asked for, where it can go by another."""
    other: Any = getattr(model, "with_model", None)
    return model if model.name == name or other is None else cast("Model", other(name))


def _tell(on_wait: Waiting, delay: object, resume_at: object, *_words: object) -> None:
    when = resume_at.isoformat(timespec="milliseconds") if isinstance(resume_at, datetime) else str(resume_at)
    on_wait(float(delay) if isinstance(delay, (int, float)) else 0.0, when)


def _credentials(schema: Mapping[str, Any], at: Endpoint) -> Credentials:
    auth = schema.get("auth")
    if auth == COPILOT:
        return credentials_for(at, named=(_CopilotToken(),))
    if auth:
        raise invalid(
            schema, f"has an unknown 'auth' {auth!r}", hint=f"it is {COPILOT!r}; name a key's variable with key_env"
        )
    return credentials_for(at, key_env=schema.get("key_env"))


@dataclass(frozen=True, slots=True)
class _CopilotToken:
    """The token that opencode keeps for GitHub Copilot."""

    @property
    def label(self) -> str:
        """The file's path."""
        return str(Path.home() / ".local/share/opencode/auth.json")

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the token; raise `ProviderFailed` when the file does not hold one."""
        try:
            data = json.loads(Path(self.label).read_text(encoding="utf-8"))
            return (str(data["github-copilot"]["access"]),)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ProviderFailed(
                "auth",
                f"there is no GitHub Copilot token in {self.label!r}: {type(error).__name__}",
                retryable=False,
                phase="connect",
                detail="missing_key",
                hint="sign in with `opencode auth login`, or name another key with key_env",
            ) from error
