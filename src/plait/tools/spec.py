"""Tools as the lists and tables that programs and agent specs hold.

Floor: 3. Owns: the schema list and the dispatch table; never: calling a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from plait.kernel.tools import Recovery, Tool, need_tool
from plait.tools.definitions import Definition


class DispatchEntry(TypedDict):
    """How the arguments of an advertised tool reach a function."""

    python_function: object
    """The function's name in the library, or the function itself."""
    param_map: dict[str, str]
    """Model-facing argument name to the function's keyword; names that are missing pass through."""


Schemas = list[dict[str, object]]
DispatchTable = dict[str, DispatchEntry]


def build_tool_spec(tools: Iterable[Tool]) -> tuple[Schemas, DispatchTable]:
    """Return `(schemas, dispatch)` of tools, as `tool_specs` and `tool_dispatch` of an agent spec take them."""
    chosen = list(tools)
    for tool in chosen:
        need_tool(tool)
    dispatch: DispatchTable = {
        tool.name: {"python_function": tool.python_function_name, "param_map": tool.resolved_param_map}
        for tool in chosen
    }
    return [schema_entry(tool) for tool in chosen], dispatch


def schema_entry(tool: Tool) -> dict[str, object]:
    """Return a tool as the entry of a chat-completions `tools` list; a grammar is passed on as it was given."""
    if tool.custom_format is not None:
        return {
            "type": "custom",
            "name": tool.name,
            "description": tool.description,
            "format": dict(tool.custom_format),
        }
    function: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.resolved_parameters,
    }
    return {"type": "function", "function": function | ({"defer_loading": True} if tool.deferred else {})}


def tool_from_entry(
    entry: Mapping[str, object],
    fn: Callable[..., Any],
    param_map: Mapping[str, str],
    definition: Definition | None = None,
    recovery: Recovery | None = None,
) -> Tool:
    """Return the tool that a schema entry describes, done by `fn`; `definition` says what a built-in one touches."""
    given = entry.get("function")
    function: Mapping[str, object] = given if isinstance(given, Mapping) else entry
    parameters, grammar = function.get("parameters"), entry.get("format")
    is_custom = entry.get("type") == "custom"
    return Tool(
        name_of(entry),
        str(function.get("description") or ""),
        fn,
        None if is_custom else dict(parameters) if isinstance(parameters, Mapping) else {"type": "object"},
        dict(param_map),
        (dict(grammar) if isinstance(grammar, Mapping) else {}) if is_custom else None,
        function.get("defer_loading") is True,
        mutates=definition is not None and definition.mutates,
        runs_code=definition is not None and definition.runs_code,
        parallel_safe=definition is not None and definition.is_parallel_safe,
        idempotent=definition is not None and definition.is_idempotent,
        recovery=recovery,
    )


def name_of(entry: Mapping[str, object]) -> str:
    """Return the name of a schema entry, of either kind."""
    function = entry.get("function")
    return str((function if isinstance(function, Mapping) else entry).get("name", ""))
