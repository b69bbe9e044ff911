"""Agent specs found, and checked.

Floor: 4. Owns: where a spec is looked for and what is said of a wrong one; never: what an agent does with it.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from plait.core.errors import AgentSpecDisabledError, AgentSpecInvalidError
from plait.core.strict_json import JsonInvalid, parse
from plait.engine.agent_spec import RUN, AgentSpec, invalid, safe_model_name, specs_of
from plait.engine.documents import read_document
from plait.engine.spec_contents import faults_in
from plait.engine.spec_fields import FIELDS, MAY_HOLD_SECRETS, WANTED, fits
from plait.tools.library import default_tool_spec

_NAMES: Final = ("agent_spec_{}.json", "inferred_tool_schema_{}.json", "tool_schema_{}.json")
_DEFAULT_FUNCTIONS: Final = ("t_read", "t_write", "t_update", "t_run")
_SIMILAR: Final = 0.8
_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024


def load_specification(
    model: str,
    endpoint: str = "",
    spec_path: str | os.PathLike[str] | Literal[False] | None = None,
    inference_db: str | None = None,
) -> AgentSpec:
    """Find an agent spec; nothing is sent anywhere.

    With `spec_path` (`~` is expanded, a relative path starts at the working directory) that file is the spec, as it
    stands. A `model` that ends in `.json` is a path as well. Otherwise the working directory is searched for
    `agent_spec_<model>.json`, `inferred_tool_schema_<model>.json` and `tool_schema_<model>.json` (`/` and `:` read as
    `_`; for a `run://` program the first one, beside the program). With an endpoint and no file there is a default
    spec: the four basic tools. An `endpoint` that is given wins over the one of a file that was found by name.

    With `inference_db`, the id of an entry in the user's own list of endpoints, the entry decides the endpoint, and
    `endpoint` is ignored; see `plait.engine.spec_entry.apply_entry`.

    Raises:
        AgentSpecInvalidError: there is no spec, the file is no JSON object, or there is no such entry.
    """
    if not inference_db:
        return _found(model, endpoint, spec_path)
    from plait.engine.spec_entry import ENTRY_ENDPOINT, apply_entry  # most specs name no entry

    return apply_entry(_found(model, ENTRY_ENDPOINT, spec_path), inference_db)


def _found(model: str, endpoint: str, spec_path: str | os.PathLike[str] | Literal[False] | None) -> AgentSpec:
    if spec_path:
        return _read(_path(spec_path), model, endpoint, keeps=True)
    if model.startswith(RUN) or endpoint.startswith(RUN):
        return _program(model, endpoint)
    if model.endswith(".json"):
        return _read(_path(model), "", endpoint)
    tried = [Path(name.format(safe_model_name(model))) for name in _NAMES]
    for path in tried:
        if path.is_file():
            return _read(path, model, endpoint)
    if not endpoint:
        raise AgentSpecInvalidError(
            f"there is no agent spec for {model!r} in {os.getcwd()!r}: no {_either(path.name for path in tried)}",
            model=model,
            hint="give the endpoint to use the default tools, or the spec's file with spec_path",
        )
    return default_specification(model, endpoint)


def default_specification(model: str, endpoint: str) -> AgentSpec:
    """Return the spec of an agent with the four basic tools."""
    schemas, _ = default_tool_spec()
    data: dict[str, object] = {
        "model": model,
        "endpoint": endpoint,
        "status": "default",
        "tool_specs": schemas,
        "tools": list(_DEFAULT_FUNCTIONS),
        "behaviour": {"call_delivery_mode": "structured_tool_calls"},
    }
    return AgentSpec(data, model=model, endpoint=endpoint)


def validate_schema(schema: Mapping[str, object]) -> None:
    """Check that a spec can be used.

    Raises:
        AgentSpecDisabledError: its author switched it off.
        AgentSpecInvalidError: a field has the wrong type, a name is misspelt, or there are no tools.
    """
    if schema.get("disabled") is True:
        raise AgentSpecDisabledError(str(schema.get("comment") or ""), hint="use another spec, or ask its author")
    for name, value in schema.items():
        _check_field(schema, name, value)
    if not specs_of(schema):
        raise invalid(
            schema,
            "has no tools: tool_specs is missing or empty",
            hint="list at least one tool in tool_specs; default_tool_spec() returns the basic ones",
        )


def _check_field(schema: Mapping[str, object], name: str, value: object) -> None:
    kind = FIELDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, FIELDS, n=1, cutoff=_SIMILAR)
        if near and near[0] not in schema:
            raise invalid(schema, f"has an unknown field {name!r}", hint=f"did you mean {near[0]!r}?")
    elif value is not None and not fits(kind, value):
        shown = "an unfit value" if name in MAY_HOLD_SECRETS else json.dumps(value, default=repr)[:80]
        raise invalid(schema, f"has {shown} in the field {name!r}", hint=f"{name!r} is {WANTED[kind]}")
    elif value is not None:
        for fault in faults_in(name, value):
            raise invalid(schema, fault.problem, hint=fault.hint)


def _program(model: str, endpoint: str) -> AgentSpec:
    """Return the spec of a program that answers requests: a file beside it, else the default."""
    address = endpoint if endpoint.startswith(RUN) else model
    program = Path(address.removeprefix(RUN)).expanduser()
    name = program.name if model.startswith(RUN) else model
    path = program.parent / _NAMES[0].format(safe_model_name(name))
    if path.is_file():
        return _read(path, name, address)
    return default_specification(model.removeprefix(RUN), address)


def _read(path: Path, model: str, endpoint: str, *, keeps: bool = False) -> AgentSpec:
    """Read a spec; an endpoint that is given replaces the file's, unless the file is kept as it stands."""
    try:
        data = parse(read_document(path, _SIZE_BYTES_MAX + 1))
    except OSError as error:
        raise AgentSpecInvalidError(
            f"the agent spec {str(path)!r} cannot be read: {error.strerror or error}",
            model=model,
            hint="check the path; a relative one starts at the working directory",
        ) from error
    except JsonInvalid as error:
        raise AgentSpecInvalidError(
            f"the agent spec {str(path)!r} is not JSON: {error}", model=model, hint="mend the file"
        ) from error
    if not isinstance(data, dict):
        raise AgentSpecInvalidError(
            f"the agent spec {str(path)!r} is not a JSON object", model=model, hint="see default_tool_spec() for tools"
        )
    if endpoint and not keeps:
        data["endpoint"] = endpoint
    return AgentSpec(data, source=str(path), model=model, endpoint=endpoint)


def _path(path: str | os.PathLike[str]) -> Path:
    return Path(path).expanduser()


def _either(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names)
