"""Which tools the model of a session can call, and by what each is done.

Floor: 5. Owns: the table, what of it is shown, the toolbox's options; never: a tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from plait.engine.agent_spec import invalid
from plait.engine.limits import Limits
from plait.engine.loading import arranged
from plait.engine.validation import compile_schema
from plait.kernel.tools import Tool, ToolTable
from plait.session.chosen import ASKING
from plait.session.confining import Seat
from plait.session.defaults import LIBRARY
from plait.session.initial import USUAL
from plait.session.spec_terms import loading_for
from plait.tools.aliases import alias_tools
from plait.tools.asking import nobody
from plait.tools.redaction import Redaction
from plait.tools.spec import DispatchTable, build_tool_spec
from plait.tools.toolbox import Toolbox, ToolboxOptions


def table_of(schema: Mapping[str, Any], given: Mapping[str, Any], toolbox: Toolbox, tools: list[Tool]) -> ToolTable:
    """Return every tool that can be called: those of the spec, the caller's own, and the built-in ones' other names."""
    if given["non_interactive"]:
        # Callable, so that the model is told why nobody answers, and not shown.
        tools = [replace(tool, alias_of=tool.name) if _asks(tool) else tool for tool in tools]
    if schema.get("parallel_tool_dispatch") is True:
        tools = [replace(tool, parallel_safe=True) for tool in tools]
    seat: Seat = given["tool_executor"]
    every = seat.seated([*tools, *alias_tools(toolbox, tools)], toolbox)
    found = arranged(every, loading_for(schema, given), given["tool_search"])
    try:
        allowed = None if given["profile"] is None else given["profile"].tool_filter
        return ToolTable(found.tools, compile=compile_schema, allowed=allowed, deferral=found.deferral)
    except ValueError as error:
        raise invalid(schema, f"has tools that cannot be used: {error}", hint="mend the tool") from error


def _asks(tool: Tool) -> bool:
    return tool.python_function_name in ASKING


def toolbox_options(given: Mapping[str, Any]) -> ToolboxOptions:
    limits: Limits = given["limits"] or USUAL
    options = replace(LIBRARY.options(), policy=given["outside"], result_tokens_max=limits.max_tool_result_tokens)
    redaction = None if given["redact"] is False else Redaction()
    seat: Seat = given["tool_executor"]
    options = seat.options(replace(options, redaction=redaction))
    return replace(options, ask_user=nobody) if given["non_interactive"] else options


def dispatch_of(table: DispatchTable, own: Iterable[Tool]) -> dict[str, dict[str, object]]:
    """Return what each tool is done by as JSON: a function goes by its name."""
    named: dict[str, dict[str, object]] = {}
    for name, entry in {**table, **build_tool_spec(own)[1]}.items():
        target = entry["python_function"]
        function = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
        named[name] = {"python_function": function, "param_map": dict(entry["param_map"])}
    return named
