"""From the tools of an agent spec to a dispatch table: which function does what, under which argument names.

Floor: 4. Owns: the forms in which a spec names its functions; never: calling one (`tools.library` makes tools of this).
"""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from plait.engine.agent_spec import invalid, specs_of
from plait.tools import definitions
from plait.tools.background_specs import BACKGROUND
from plait.tools.definitions import Definition
from plait.tools.extra_specs import EXTRA
from plait.tools.renames import RENAMED
from plait.tools.spec import DispatchTable, Schemas, name_of

Functions = Mapping[str, Callable[..., Any]]

_KNOWN: Final = (*definitions.BUILT_IN, *definitions.ASKING, *BACKGROUND, *EXTRA)
_BY_FUNCTION: Final[Mapping[str, Definition]] = {known.function_name: known for known in _KNOWN}
_BY_NAME: Final[Mapping[str, Definition]] = {known.name: known for known in _KNOWN}


def tools_of_spec(schema: Mapping[str, object], functions: Functions) -> tuple[Schemas, DispatchTable]:
    """Return what a spec advertises and what each of it is done by; the spec itself is not changed.

    Args:
        functions: the tool library, in which function names are looked up.

    Raises:
        AgentSpecInvalidError: `tools` does not match `tool_specs`, names no function or one that takes too little;
            an alias stands for no tool.
    """
    schemas: Schemas = [copy.deepcopy(dict(entry)) for entry in specs_of(schema)]
    _check_names(schema, schemas)
    names = schema.get("tools")
    if isinstance(names, (list, tuple)) and names:
        _check_dispatch(schema, functions)
        table = _table_of_functions(schema, schemas, [str(name) for name in names], functions)
    else:
        table = _table_given(schema, schemas)
    _expand_aliases(schema, schemas, table)
    return schemas, table


def _check_names(schema: Mapping[str, object], schemas: Schemas) -> None:
    seen: set[str] = set()
    for index, name in enumerate(map(name_of, schemas)):
        if not name:
            raise invalid(schema, f"has no name in tool_specs[{index}]", hint="an entry is {'function': {'name': …}}")
        if name in seen:
            raise invalid(schema, f"has two tools named {name!r}", hint="give each its own name")
        seen.add(name)


def _table_of_functions(
    schema: Mapping[str, object], schemas: Schemas, names: Sequence[str], functions: Functions
) -> DispatchTable:
    if len(names) != len(schemas):
        raise invalid(
            schema,
            f"has {len(names)} functions in 'tools' and {len(schemas)} tools in 'tool_specs'",
            hint="'tools' names one function for each entry of 'tool_specs', in the same order",
        )
    table: DispatchTable = {}
    for entry, name in zip(schemas, names, strict=True):
        if name not in functions:
            near = difflib.get_close_matches(name, functions, n=1)
            known = f"did you mean {near[0]!r}?" if near else "register it with register_tools_in_library"
            raise invalid(
                schema, f"names a function {name!r} in 'tools' that the tool library does not have", hint=known
            )
        table[name_of(entry)] = {"python_function": name, "param_map": _param_map(schema, entry, name, functions[name])}
    return table


def _check_dispatch(schema: Mapping[str, object], functions: Functions) -> None:
    """Refuse a table beside `tools` that names a function nobody has: `tools` decides, and the mistake would hide."""
    given = schema.get("tool_dispatch")
    for tool, entry in given.items() if isinstance(given, Mapping) else ():
        name = entry.get("python_function") if isinstance(entry, Mapping) else None
        if isinstance(name, str) and name not in functions:
            near = difflib.get_close_matches(name, functions, n=1)
            raise invalid(
                schema,
                f"names a function {name!r} in 'tool_dispatch.{tool}' that the tool library does not have",
                hint=f"did you mean {near[0]!r}?" if near else "register it with register_tools_in_library",
            )


def _table_given(schema: Mapping[str, object], schemas: Schemas) -> DispatchTable:
    """Return the spec's own table; tools that it leaves out and that are built in have their usual function."""
    given = schema.get("tool_dispatch")
    entries = given if isinstance(given, Mapping) else {}
    table: DispatchTable = {}
    for name, entry in entries.items():
        if not isinstance(entry, Mapping) or "python_function" not in entry:
            raise invalid(
                schema,
                f"has an entry {name!r} in 'tool_dispatch' without a function",
                hint="an entry is {'python_function': name or callable, 'param_map': {…}}",
            )
        names = entry.get("param_map")
        table[str(name)] = {
            "python_function": entry["python_function"],
            "param_map": {str(key): str(value) for key, value in names.items()} if isinstance(names, Mapping) else {},
        }
    for name in map(name_of, schemas):
        if name not in table and (route := _usual_route(name)) is not None:
            table[name] = route  # type: ignore[assignment]
    return table


def _usual_route(name: str) -> dict[str, object] | None:
    rename = RENAMED.get(name)
    known = _BY_NAME.get(name if rename is None else rename.name)
    if known is None:
        return None
    if rename is not None and rename.function_name:
        return {"python_function": rename.function_name, "param_map": {}}
    renamed = {} if rename is None else rename.parameters
    names = {**known.param_map, **{theirs: known.param_map.get(ours, ours) for theirs, ours in renamed.items()}}
    return {"python_function": known.function_name, "param_map": names}


def _param_map(
    schema: Mapping[str, object], entry: Mapping[str, object], name: str, fn: Callable[..., Any]
) -> dict[str, str]:
    """Map the arguments of a spec to a function's: by the tool's own table, by equal name, the rest by position."""
    if entry.get("type") == "custom":
        return {"input": "input"}
    wanted = _properties(entry)
    known = _BY_FUNCTION.get(name)
    mapped = {} if known is None else {key: target for key, target in known.param_map.items() if key in wanted}
    parameters, takes_any = _parameters(fn)
    taken = {*mapped.values(), *(key for key in wanted if key in parameters and key not in mapped)}
    left = [key for key in wanted if key not in mapped and key not in parameters]
    free = [parameter for parameter in parameters if parameter not in taken]
    if len(left) > len(free) and not takes_any:
        raise invalid(
            schema,
            f"gives the tool {name_of(entry)!r} more parameters than the function {name!r} takes: {left} have no place",
            hint=f"{name!r} takes {', '.join(parameters) or 'nothing'}",
        )
    return {**mapped, **dict(zip(left, free, strict=False))}


def _properties(entry: Mapping[str, object]) -> list[str]:
    function = entry.get("function")
    parameters = function.get("parameters") if isinstance(function, Mapping) else None
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    return [str(key) for key in properties] if isinstance(properties, Mapping) else []


def _parameters(fn: Callable[..., Any]) -> tuple[list[str], bool]:
    """Return the names that a function takes, and whether it takes any others."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return [], True
    named = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    return named, any(each.kind is each.VAR_KEYWORD for each in parameters)


def _expand_aliases(schema: Mapping[str, object], schemas: Schemas, table: DispatchTable) -> None:
    """Advertise each tool under its other names too; a name with a function of its own is left alone."""
    aliases = schema.get("aliases")
    by_name = {name_of(entry): entry for entry in schemas}
    for alias, own in aliases.items() if isinstance(aliases, Mapping) else ():
        if alias in by_name:
            continue
        if not isinstance(own, str) or own not in by_name:
            near = difflib.get_close_matches(str(own), by_name, n=1)
            raise invalid(
                schema,
                f"has an alias {alias!r} for {own!r}, which is no tool of it",
                hint=f"did you mean {near[0]!r}?" if near else f"the tools are: {', '.join(by_name)}",
            )
        schemas.append(_renamed(by_name[own], str(alias)))
        if alias not in table and own in table:
            table[str(alias)] = table[own]


def _renamed(entry: Mapping[str, object], name: str) -> dict[str, object]:
    renamed = copy.deepcopy(dict(entry))
    function = renamed.get("function")
    if isinstance(function, dict):
        function["name"] = name
    else:
        renamed["name"] = name
    return renamed
