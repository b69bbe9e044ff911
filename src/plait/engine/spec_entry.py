"""An agent spec whose endpoint stands in the user's own list of endpoints.

Floor: 4. Owns: what an entry of the list puts into a spec; never: the list itself (`models.inference_db`), a key.

The list is read again wherever a spec is used: a spec that only says it was filled in already could send a key of the
list to an address of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plait.engine.agent_spec import RUN, AgentSpec, invalid, model_of

ENTRY_ENDPOINT: Final = "inference-db:"
"""Stands for the endpoint until the entry has said which it is."""
APPLIED: Final = "_inference_db_applied"
"""Member of a spec that was filled in from its entry."""


def with_entry(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a spec with what its entry says; a spec that names none is returned as it is.

    Raises:
        AgentSpecInvalidError: there is no such entry.
    """
    named = schema.get("inference_db")
    return apply_entry(schema, str(named)) if named else schema


def apply_entry(schema: Mapping[str, object], id: str) -> AgentSpec:
    """Return a spec that asks at the endpoint of an entry.

    The entry decides the endpoint. Its header for the key, its headers and its parameters for the model count where
    the spec says nothing of its own.

    Raises:
        AgentSpecInvalidError: there is no such entry, or the model is a program.
    """
    from plait.models.inference_db import load_entry  # a TOML parser, which most specs do without

    model, entry = model_of(schema), load_entry(id)
    if model.startswith(RUN):
        raise invalid(schema, f"asks a program, {model!r}, and the endpoint {id!r}", hint="leave inference_db out")
    filled: dict[str, object] = {
        **schema,
        "inference_db": id,
        APPLIED: True,
        "endpoint": entry.url_for(model),
        "auth_header": schema.get("auth_header") or entry.auth_header,
        "extra_headers": _merged(entry.headers, schema.get("extra_headers")),
        "request_params": _merged(entry.params_for(model), schema.get("request_params")),
    }
    loading = entry.tool_loading_for(model)
    if loading != "none" and schema.get("tool_loading") is None:
        filled["tool_loading"] = loading
    return AgentSpec(filled, source=getattr(schema, "source", ""), model=model, endpoint=str(filled["endpoint"]))


def _merged(listed: Mapping[str, object], own: object) -> object:
    """Return both, the spec's own first; what is no object stays, for `validate_schema` to name."""
    if own is None:
        return dict(listed)
    return {**listed, **own} if isinstance(own, Mapping) else own
