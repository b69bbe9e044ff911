"""What stands inside the fields of an agent spec: the parts of them that something reads.

Floor: 4. Owns: the shape of what fields hold; never: the fields themselves (`spec_fields`), a tool's function.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

OPTIONS: Final = ("exclude-prompt_cache_key",)
"""The words that `options` may hold."""
_PARTS: Final = ("streaming", "usage", "cache", "tools", "reasoning", "grammar", "request", "evidence")
"""The parts of `provider_api_support` that are objects."""


class Fault(NamedTuple):
    """What is wrong with a part of a field."""

    problem: str
    hint: str


def faults_in(name: str, value: object) -> Iterator[Fault]:
    """Yield what is wrong inside a field whose own kind fits; a value that may be a secret is not shown."""
    if name == "options" and isinstance(value, (list, tuple)):
        yield from _options(value)
    elif name == "provider_api_support" and isinstance(value, Mapping):
        for part in _PARTS:
            if value.get(part) is not None and not isinstance(value[part], Mapping):
                yield _wrong(f"{name}.{part}", value[part], "an object")
    elif name in ("tool_specs", "inferred_tool_schema") and isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            yield from _tool(f"{name}[{index}]", entry)
    elif name == "tool_dispatch" and isinstance(value, Mapping):
        for tool, entry in value.items():
            yield from _dispatch(f"{name}.{tool}", entry)
    elif name == "limits" and isinstance(value, Mapping):
        from plait.engine.spec_limits import faults_in_limits  # few specs set limits

        yield from (Fault(problem, hint) for problem, hint in faults_in_limits(value))
    elif name == "request_params" and (place := _not_finite(value, name)) is not None:
        yield Fault(f"has a number in {place!r} that is not finite", "JSON has no word for nan and inf")


def _options(words: list[object] | tuple[object, ...]) -> Iterator[Fault]:
    for word in words:
        if word not in OPTIONS:
            near = difflib.get_close_matches(str(word), OPTIONS, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"the options are: {', '.join(OPTIONS)}"
            yield Fault(f"has an unknown option {word!r} in 'options'", known)


def _tool(place: str, entry: object) -> Iterator[Fault]:
    function = entry.get("function") if isinstance(entry, Mapping) else None
    if function is None:
        return
    if not isinstance(function, Mapping):
        yield _wrong(f"{place}.function", function, "an object")
        return
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        yield _wrong(f"{place}.function.parameters", parameters, "a JSON Schema, an object")


def _dispatch(place: str, entry: object) -> Iterator[Fault]:
    names = entry.get("param_map") if isinstance(entry, Mapping) else None
    if names is None:
        return
    if not isinstance(names, Mapping):
        yield _wrong(f"{place}.param_map", names, "an object of argument names")
        return
    for key, target in names.items():
        if not isinstance(key, str) or not isinstance(target, str):
            yield _wrong(f"{place}.param_map.{key}", target, "the name of an argument, a text")


def _not_finite(value: object, place: str) -> str | None:
    """Return where a value holds a number that JSON cannot say."""
    waiting = [(value, place)]
    while waiting:
        each, at = waiting.pop()
        if isinstance(each, float) and not math.isfinite(each):
            return at
        if isinstance(each, Mapping):
            waiting += [(inner, f"{at}.{key}") for key, inner in each.items()]
        elif isinstance(each, (list, tuple)):
            waiting += [(inner, f"{at}[{index}]") for index, inner in enumerate(each)]
    return None


def _wrong(place: str, value: object, wanted: str) -> Fault:
    shown = repr(value)
    return Fault(f"has {shown if len(shown) <= 80 else shown[:79] + '…'} in {place!r}", f"{place!r} is {wanted}")
