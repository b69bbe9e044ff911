"""What a session takes from an agent spec: which fields it honours, which it refuses, how calls and answers travel.

Floor: 5. Owns: which fields go together, and how calls travel; never: finding a spec, or its tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from plait.engine.agent_spec import RUN, endpoint_of, invalid
from plait.engine.loading import loading_of
from plait.engine.spec import validate_schema
from plait.kernel.deferral import Loading

COPILOT: Final = "opencode-github-copilot"
"""The one value of `auth`: the token of opencode's GitHub Copilot login."""
PRICE_LIMITS: Final[Mapping[Literal["input", "output"], str]] = {
    "input": "max_input_token_price_per_million",
    "output": "max_output_token_price_per_million",
}
"""The fields that limit what a model may cost."""


def check_spec(schema: Mapping[str, Any]) -> None:
    """Refuse a spec that cannot be used, or that asks for what would be ignored.

    Raises:
        ConfigError: with the field's name.
    """
    validate_schema(schema)
    if schema.get("hooks"):
        raise invalid(schema, "has 'hooks' where nothing looks for them", hint="put them into 'behaviour' as 'hooks'")
    _check_connection(schema)


def _check_connection(schema: Mapping[str, Any]) -> None:
    """Refuse fields that contradict each other, or say half of a thing."""
    if bool(schema.get("keyring_service")) != bool(schema.get("keyring_username")):
        raise invalid(
            schema,
            "names half of a keyring entry",
            hint="give both 'keyring_service' and 'keyring_username', or neither",
        )
    if (auth := schema.get("auth")) and auth != COPILOT:
        raise invalid(
            schema, "has an unknown 'auth'", hint=f"it is {COPILOT!r}; name the variable of a key with key_env"
        )
    address = endpoint_of(schema)
    if schema.get("command") and address and not address.startswith(RUN):
        raise invalid(
            schema, "has a 'command' and an 'endpoint'", hint="remove one: a command is asked in place of an endpoint"
        )


def has_limits(schema: Mapping[str, Any]) -> bool:
    """Say whether a spec limits what its model may cost."""
    return any(schema.get(name) is not None for name in PRICE_LIMITS.values())


def program_of(schema: Mapping[str, Any]) -> str | list[str] | None:
    """Return the program that a spec asks in place of an endpoint, as a path or as an argument vector."""
    command = schema.get("command")
    if command:
        return command if isinstance(command, str) else [str(word) for word in command]
    for address in (endpoint_of(schema), str(schema.get("model") or "")):
        if address.startswith(RUN):
            return address
    return None


def key_source_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return where a spec says that its key is: the fields it names, never a key."""
    has_entry = bool(schema.get("keyring_service"))
    names = ("auth", "inference_db", *(("keyring_service", "keyring_username") if has_entry else ("key_env",)))
    return {name: str(schema[name]) for name in names if schema.get(name)}


def loading_for(schema: Mapping[str, Any], given: Mapping[str, Any]) -> Loading | None:
    """Return how tools that are not shown at once are loaded: as the caller, the spec, or the user's list says.

    Raises:
        UnknownToolLoading: there is no way of that name.
    """
    wanted = given["tool_loading"] or schema.get("tool_loading")
    loading = loading_of(wanted)
    # A model without structured calls is told of its tools in words, once and for all.
    return loading if is_structured(schema) else None


def is_structured(schema: Mapping[str, Any]) -> bool:
    """Say whether a spec sends tools as data."""
    behaviour = schema.get("behaviour")
    mode = behaviour.get("call_delivery_mode") if isinstance(behaviour, Mapping) else None
    return mode in (None, "structured_tool_calls")


def streams_of(schema: Mapping[str, Any]) -> bool | None:
    """Say whether a spec says that its endpoint streams answers; None when it says nothing."""
    support = schema.get("provider_api_support")
    streaming = support.get("streaming") if isinstance(support, Mapping) else None
    supported = streaming.get("supported") if isinstance(streaming, Mapping) else None
    return supported if isinstance(supported, bool) else None
