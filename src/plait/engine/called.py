"""A call as rules and hooks see it: by every name of its tool, and by that of the function behind it.

Floor: 4. Owns: which names those are; never: a rule or a hook.
"""

from __future__ import annotations

from collections.abc import Mapping

from plait.core.messages import ToolCall
from plait.hooks.names import Called
from plait.kernel.tools import Tool
from plait.tools.behind import built_in_behind
from plait.tools.renames import names_of


def called_of(call: ToolCall, tool: Tool, arguments: Mapping[str, object] | None = None) -> Called:
    """Return a call under all its names; `arguments` stand in place of its own.

    A tool that is the shell under a name of its own is a shell to rules and hooks as well. Raises `JsonInvalid` for
    arguments that are none.
    """
    function = built_in_behind(tool)
    names = dict.fromkeys((*names_of(call.name), *(names_of(tool.alias_of) if tool.alias_of else ())))
    behind = names_of(function) if function else ()
    parameters = tool.resolved_parameters.get("properties")
    known = frozenset(parameters) if isinstance(parameters, dict) else frozenset[str]()
    return Called.of(call.name, (*names, *behind), call.arguments if arguments is None else arguments, known)
