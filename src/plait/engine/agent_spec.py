"""An agent spec: the JSON that says which model an agent asks and which tools it has.

Floor: 4. Owns: the dict and what is read from it everywhere; never: where one is found, or whether it can be used
(`spec`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plait.core.errors import AgentSpecInvalidError

RUN: Final = "run://"
"""How the address of a program begins that answers requests."""


class AgentSpec(dict[str, object]):
    """An agent spec: a plain dict that knows where it came from and what it was asked for with.

    What `load_specification` was given counts where the spec itself says nothing.
    """

    def __init__(self, data: Mapping[str, object], *, source: str = "", model: str = "", endpoint: str = "") -> None:
        super().__init__(data)
        self.source = source
        """Path of the file; empty for a spec that was never in one."""
        self.asked_model = model
        self.asked_endpoint = endpoint


def specs_of(schema: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the tools that a spec advertises, under either name of the field."""
    given = schema.get("tool_specs") or schema.get("inferred_tool_schema")
    return [entry for entry in given if isinstance(entry, Mapping)] if isinstance(given, (list, tuple)) else []


def model_of(schema: Mapping[str, object]) -> str:
    """Return the name of the model that a spec asks for; raise `AgentSpecInvalidError` when it names none."""
    name = schema.get("model") or getattr(schema, "asked_model", "")
    if not isinstance(name, str) or not name:
        raise invalid(schema, "names no model", hint="add a field 'model'")
    return name


def endpoint_of(schema: Mapping[str, object]) -> str:
    """Return the endpoint that a spec asks at, empty for none."""
    return str(schema.get("endpoint") or getattr(schema, "asked_endpoint", ""))


def invalid(schema: Mapping[str, object], problem: str, *, hint: str = "") -> AgentSpecInvalidError:
    """Return the error that says what is wrong with a spec, and with which."""
    source = getattr(schema, "source", "")
    name = schema.get("model") or getattr(schema, "asked_model", "")
    what = f"the agent spec {source!r}" if source else f"the agent spec of {name!r}" if name else "the agent spec"
    return AgentSpecInvalidError(f"{what} {problem}", model=str(name), hint=hint)


def safe_model_name(model: str) -> str:
    """Return a model's name as it stands in a file name."""
    return model.replace("/", "_").replace(":", "_")
