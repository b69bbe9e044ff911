"""A call as rules and hooks see it: by every name of its tool, and by that of the function behind it.

Floor: 4. Owns: which names those are; never: a rule or a hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plait.core.messages import ToolCall
from plait.hooks.names import Called
from plait.kernel.tools import Tool
from plait.tools.definitions import CANONICAL_TOOLS, SUPERSEDED_TOOLS
from plait.tools.renames import names_of

_BY_FUNCTION: Final = {function: name for name, function in CANONICAL_TOOLS.items()}


def called_of(call: ToolCall, tool: Tool, arguments: Mapping[str, object] | None = None) -> Called:
    """Return a call under all its names; `arguments` stand in place of its own.

    A tool that is the shell under a name of its own is a shell to rules and hooks as well. Raises `JsonInvalid` for
    arguments that are none.
    """
    function = tool.python_function_name
    function = _BY_FUNCTION.get(SUPERSEDED_TOOLS.get(function, function), function)
    names = dict.fromkeys((*names_of(call.name), *(names_of(tool.alias_of) if tool.alias_of else ())))
    behind = names_of(function) if function in CANONICAL_TOOLS else ()
    parameters = tool.resolved_parameters.get("properties")
    known = frozenset(parameters) if isinstance(parameters, dict) else frozenset[str]()
    return Called.of(call.name, (*names, *behind), call.arguments if arguments is None else arguments, known)
