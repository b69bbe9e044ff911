"""What stands at the beginning and the end of a session's requests, as its journal keeps it.

Floor: 5. Owns: a `Setup` as plain JSON and back, and which one was in force when; never: the messages between.

The first turn's stands in `session_start`; where a later turn's differs, what is new of it stands in a `prompt`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, cast

from plait.core.exchange import ToolSchema
from plait.core.facts import Fact, Observation
from plait.kernel.deferral import ActivationLimits, Deferral
from plait.kernel.ports import Options, Setup
from plait.kernel.tools import ToolTable

START: Final = "session_start"
PROMPT: Final = "prompt"
_OPTIONS: Final = tuple(name for name in Options.__dataclass_fields__)

_PARTS: Final = ("system", "tools", "options", "loading")

Told = Mapping[str, object]


def told_of(setup: Setup) -> dict[str, object]:
    """Return a setup as plain JSON: `{system, tools, options, loading}`; what is not set is left out."""
    options = {name: value for name in _OPTIONS if (value := getattr(setup.options, name)) not in (None, {})}
    told: dict[str, object] = {
        "system": setup.system,
        "tools": [_told_tool(tool) for tool in setup.tools],
        "options": copy.deepcopy(options),
    }
    return told if setup.deferral is None else {**told, "loading": _told_deferral(setup.deferral)}


def habits_of(tools: ToolTable) -> dict[str, object]:
    """Return what a replay has to know of tools that it may not have: which run side by side, which end a turn."""
    told = {
        "side_by_side": [tool.name for tool in tools if tool.parallel_safe],
        "ends_turn": [tool.name for tool in tools if tool.ends_turn],
    }
    return {name: names for name, names in told.items() if names}


def changed(before: Told, now: Told) -> dict[str, object]:
    """Return the parts of a setup that are others now."""
    return {name: now.get(name) for name in {**before, **now} if before.get(name) != now.get(name)}


def heads(facts: Iterable[Fact]) -> list[tuple[int, dict[str, object]]]:
    """Return the setups of a session, each with the place in the log from which it counts."""
    found: list[tuple[int, dict[str, object]]] = []
    for seq, fact in enumerate(facts, 1):
        if isinstance(fact, Observation) and fact.type in (START, PROMPT):
            before = found[-1][1] if found else {}
            told = {name: fact.data[name] for name in _PARTS if name in fact.data}
            found.append((seq, {**before, **told}))
    return found


def loading_told(told: Told | None) -> str | None:
    """Return the way in which tools were loaded, None where all were shown or nothing is told."""
    found = None if told is None else _deferral(told.get("loading"))
    return None if found is None else found.loading


def setup_of(told: Told) -> Setup:
    """Return the setup that was recorded; parts that an earlier version did not record are empty."""
    system, tools, options = told.get("system"), told.get("tools"), told.get("options")
    given = {str(name): value for name, value in options.items()} if isinstance(options, Mapping) else {}
    known: dict[str, Any] = {name: given[name] for name in _OPTIONS if name in given}
    return Setup(
        system if isinstance(system, str) else "",
        tuple(_tool(tool) for tool in tools) if isinstance(tools, list) else (),
        Options(**known),
        _deferral(told.get("loading")),
    )


def _told_tool(tool: ToolSchema) -> dict[str, object]:
    told: dict[str, object] = {"name": tool.name, "description": tool.description}
    told["parameters"] = copy.deepcopy(dict(tool.parameters))
    if tool.custom_format is not None:
        told["custom_format"] = copy.deepcopy(dict(tool.custom_format))
    if tool.deferred:
        told["deferred"] = True
    return told


def _tool(told: Mapping[str, object]) -> ToolSchema:
    custom = told.get("custom_format")
    return ToolSchema(
        str(told.get("name", "")),
        str(told.get("description", "")),
        cast("Mapping[str, object]", told.get("parameters") or {}),
        cast("Mapping[str, object]", custom) if isinstance(custom, Mapping) else None,
        deferred=told.get("deferred") is True,
    )


def _told_deferral(deferral: Deferral) -> dict[str, object]:
    """Return how tools are loaded as plain JSON."""
    return asdict(deferral)


def _deferral(told: object) -> Deferral | None:
    """Return how tools were loaded; None where all were shown, or it is not known any more."""
    try:
        known: dict[str, Any] = dict(told) if isinstance(told, Mapping) else {}
        return Deferral(limits=ActivationLimits(**known.pop("limits")), **known)
    except (KeyError, TypeError):
        return None
