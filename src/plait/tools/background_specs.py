"""The three tools of the background shell as a model sees them, and how a spec comes to have them.

Floor: 3. Owns: what is advertised, the units and ceilings of times; never: a job.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from plait.core.errors import ConfigError
from plait.tools.definitions import Definition, parameters_of, text
from plait.tools.spec import Schemas, name_of, schema_entry

NOHUP_TIMEOUT_MIN: Final = 10
"""Minutes that a job may run unless the call, or `enable_nohup`, says otherwise."""
WAIT_FOR_MAX_SECONDS: Final = 3_600
"""No wait is longer, and no job begins later."""
WAIT_FOR_UNIT_SECONDS: Final[Mapping[str, int]] = MappingProxyType(
    {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
)
TIMEOUT_MAX_S: Final = 366 * 86_400
"""No job runs longer."""

_UNIT: Final = {"type": "string", "enum": list(WAIT_FOR_UNIT_SECONDS)}
_ID: Final = text("What nohup returned.")
NOHUP: Final = Definition(
    "nohup",
    "t_nohup",
    "Start a command line in bash in the background and go on at once: for what takes longer than a call may. Returns "
    "JSON with tool_exec_id, pid and the files its output goes to; what ends at once comes with its output. When its "
    "time is up, everything that it has started is stopped. It reads stdin_localfile: write there with "
    "`echo text > FILE`, as often as you like, and end its input with `printf '\\004' > FILE`. Use nohup_wait for its "
    "end; background jobs are ended when the session is.",
    parameters_of(
        "command",
        command=text("The command line."),
        timeout={"type": "number", "exclusiveMinimum": 0},
        unit={**_UNIT, "description": "Unit of timeout; m (minutes) unless given."},
        wait_before_s={
            "type": "number",
            "description": "Begin so many seconds from now; its time counts from then.",
            "minimum": 0,
            "maximum": WAIT_FOR_MAX_SECONDS,
        },
    ),
    mutates=True,
    runs_code=True,
    is_parallel_safe=False,
    category="shell",
)
NOHUP_QUERY: Final = Definition(
    "nohup_query",
    "t_query_exec",
    "Look once at how a background job stands: whether it has completed, its exit code, how much it has printed. Do "
    "not poll with it; nohup_wait waits.",
    parameters_of("tool_exec_id", tool_exec_id=_ID),
    category="shell",
)
NOHUP_WAIT: Final = Definition(
    "nohup_wait",
    "t_nohup_wait",
    "Wait until a background job has ended, or until the time that you give is up; then it runs on, and you are told "
    "how busy it is. Names other jobs that have ended meanwhile.",
    parameters_of(
        "tool_exec_id",
        tool_exec_id=_ID,
        howmuch={
            "type": "number",
            "description": f"How long to wait at most; {WAIT_FOR_MAX_SECONDS} seconds unless given, and never more.",
            "minimum": 0,
        },
        unit={**_UNIT, "description": "Unit of howmuch; s (seconds) unless given."},
    ),
    category="shell",
)
BACKGROUND: Final = (NOHUP, NOHUP_QUERY, NOHUP_WAIT)
"""The three tools, in the order in which they are advertised."""
_LISTS: Final = ("tool_specs", "inferred_tool_schema")


def nohup_with(timeout_min: float) -> Definition:
    """Return the definition of `nohup` with its own time limit, in minutes, filled in."""
    properties = NOHUP.parameters["properties"]
    assert isinstance(properties, Mapping)
    words = f"How long it may run; {timeout_min:g} minutes unless given."
    timeout = {**properties["timeout"], "description": words, "default": timeout_min}
    return replace(NOHUP, parameters={**NOHUP.parameters, "properties": {**properties, "timeout": timeout}})


def nohup_tool_specs(timeout_min: float = NOHUP_TIMEOUT_MIN) -> Schemas:
    """Return the three entries for `tool_specs` of an agent spec; a fresh copy.

    Args:
        timeout_min: minutes that a job may run unless its call says otherwise.

    Raises:
        ConfigError: no job could run for so long.
    """
    if not 0 < timeout_min * 60 <= TIMEOUT_MAX_S:
        raise ConfigError(f"no job can run for {timeout_min:g} minutes", hint="give more than 0 and less than a year")
    known = (nohup_with(timeout_min), NOHUP_QUERY, NOHUP_WAIT)
    return copy.deepcopy([schema_entry(definition.tool(_unbound)) for definition in known])


def enable_nohup(schema: MutableMapping[str, Any], timeout_min: float = NOHUP_TIMEOUT_MIN) -> None:
    """Give an agent spec the background shell, in place; what it has already is left as it is.

    A spec that names its functions in `tools` gets three more names there, any other three more entries in
    `tool_dispatch`.

    Args:
        schema: an agent spec, as `load_specification` returns it.
        timeout_min: minutes that a job may run unless its call says otherwise.

    Raises:
        ConfigError: no job could run for so long.
    """
    entries = nohup_tool_specs(timeout_min)
    lists = [name for name in _LISTS if schema.get(name)] or [_LISTS[0]]
    had = {name_of(entry) for entry in schema.get(lists[0]) or () if isinstance(entry, Mapping)}
    missing = [known for known in BACKGROUND if known.name not in had]
    for name in lists:
        listed = {name_of(entry) for entry in schema.get(name) or () if isinstance(entry, Mapping)}
        # A new list, since a copy of the spec may share the old one.
        schema[name] = [*(schema.get(name) or ()), *(each for each in entries if name_of(each) not in listed)]
    if schema.get("tools"):
        schema["tools"] = [*schema["tools"], *(known.function_name for known in missing)]
        return
    table = dict(schema.get("tool_dispatch") or {})
    for known in BACKGROUND:
        table.setdefault(known.name, {"python_function": known.function_name, "param_map": {}})
    schema["tool_dispatch"] = table


def default_timeout(entry: Mapping[str, object]) -> float:
    """Return the minutes that an entry of `nohup` advertises as its own time limit."""
    function = entry.get("function")
    parameters = (function if isinstance(function, Mapping) else entry).get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    timeout = properties.get("timeout") if isinstance(properties, Mapping) else None
    value = timeout.get("default") if isinstance(timeout, Mapping) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else NOHUP_TIMEOUT_MIN


def _unbound() -> None:
    """Stand for the function of a tool of which only the description is wanted."""
