"""What a session takes from an agent spec: which fields it honours, which it refuses, how calls and answers travel.

Floor: 5. Owns: the fields that are not available yet; never: finding a spec, or its tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plait.core.errors import AgentSpecInvalidError
from plait.engine.spec import RUN, endpoint_of, invalid, validate_schema

_NOT_YET: Final[Mapping[str, tuple[object, ...]]] = {
    **dict.fromkeys("inference_db command command_env command_timeout keyring_service keyring_username".split(), ()),
    "durable": (False,),
    "hooks": ({}, []),
    "hooks_enabled": (False,),
    "tool_loading": ("eager",),
}
"""Fields of a spec that are not available yet, each with the values that ask for nothing."""


def check_spec(schema: Mapping[str, Any]) -> None:
    """Refuse a spec that cannot be used, or that asks for what would be ignored.

    Raises:
        ConfigError: with the field's name.
    """
    validate_schema(schema)
    for name, accepted in _NOT_YET.items():
        if (value := schema.get(name)) is not None and value not in accepted:
            raise _not_yet(schema, f"asks for {name!r}", f"remove {name!r}")
    behaviour = schema.get("behaviour")
    if isinstance(behaviour, Mapping) and behaviour.get("hooks"):
        raise _not_yet(schema, "asks for 'behaviour.hooks'", "remove it")
    if endpoint_of(schema).startswith(RUN):
        raise _not_yet(schema, f"asks a program, {endpoint_of(schema)!r}", "give the URL of an endpoint")


def is_structured(schema: Mapping[str, Any]) -> bool:
    """Say whether a spec sends tools as data."""
    behaviour = schema.get("behaviour")
    mode = behaviour.get("call_delivery_mode") if isinstance(behaviour, Mapping) else None
    return mode in (None, "structured_tool_calls")


def _not_yet(schema: Mapping[str, Any], what: str, hint: str) -> AgentSpecInvalidError:
    return invalid(schema, f"{what}, which is not available yet", hint=hint)


def streams_of(schema: Mapping[str, Any]) -> bool | None:
    """Say whether a spec says that its endpoint streams answers; None when it says nothing."""
    support = schema.get("provider_api_support")
    streaming = support.get("streaming") if isinstance(support, Mapping) else None
    supported = streaming.get("supported") if isinstance(streaming, Mapping) else None
    return supported if isinstance(supported, bool) else None
