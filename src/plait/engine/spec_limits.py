"""The `limits` of an agent spec: how they are written, and the limits they come to.

Floor: 4. Owns: their names and what each may hold; never: what a limit does (`limits`).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from plait.engine.limits import Limits, SessionLimits

_COUNTS: Final = {"max_steps": "max_steps", "max_input_tokens": "max_input_tokens"}
_NUMBERS: Final = {"max_cost_usd": "max_cost", "max_wall_seconds": "max_wall_s"}
_OF_TURNS: Final = ("max_turn_result_tokens", "max_tool_calls")
_CAPS: Final = {name: name for name in ("max_tool_result_tokens", *_OF_TURNS)}
_FROM_ONE: Final = (*_COUNTS, *_OF_TURNS)
_SWITCHES: Final = {"dedupe_reads": "dedupe_reads"}
SESSION: Final = "session"
"""The member that holds the limits of all turns together."""


def faults_in_limits(value: Mapping[Any, Any], place: str = "limits") -> Iterator[tuple[str, str]]:
    """Yield what is wrong in a spec's limits: the problem, and what would be right."""
    is_session = place != "limits"
    known = [*_COUNTS, *_NUMBERS, *(() if is_session else (*_CAPS, *_SWITCHES, SESSION))]
    for name, number in value.items():
        where = f"{place}.{name}"
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the limits are: {', '.join(known)}"
            yield f"has an unknown limit {where!r}", hint
        elif number is None:
            continue
        elif name == SESSION:
            if isinstance(number, Mapping):
                yield from faults_in_limits(number, where)
            else:
                yield f"has {where!r} = {number!r}", "it is an object of limits"
        elif name in _SWITCHES:
            if not isinstance(number, bool):
                yield f"has {where!r} = {number!r}", "it is true or false"
        elif name in _NUMBERS:
            if not _is_number(number) or number < 0:
                yield f"has {where!r} = {number!r}", "it is a number from 0"
        elif not isinstance(number, int) or isinstance(number, bool) or number < (name in _FROM_ONE):
            yield f"has {where!r} = {number!r}", f"it is a whole number from {int(name in _FROM_ONE)}"


def limits_of_spec(schema: Mapping[str, Any], base: Limits) -> Limits:
    """Return `base` with what a spec's `limits` say in it; the spec is sound."""
    told = schema.get("limits")
    if not told:
        return base
    limits = replace(base, **_fields(told, {**_COUNTS, **_NUMBERS, **_CAPS, **_SWITCHES}))
    if told.get(SESSION):
        limits = replace(limits, session=SessionLimits(**_fields(told[SESSION], {**_COUNTS, **_NUMBERS})))
    is_money = "max_cost_usd" in told or "max_cost_usd" in (told.get(SESSION) or {})
    return replace(limits, currency="USD") if is_money else limits


def _fields(told: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    found = {field: told[name] for name, field in names.items() if told.get(name) is not None}
    if "max_cost" in found:
        found["max_cost"] = Decimal(str(found["max_cost"]))
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
