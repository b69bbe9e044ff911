"""Built-in tools that an agent has only when it asks for them: patches, a list of things to do, questions, a look.

Floor: 3. Owns: what is advertised of them; never: what they do.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from plait.kernel.tools import Tool
from plait.tools.definitions import ASK_USER, PATH, Definition, parameters_of, text

APPLY_PATCH: Final = Definition(
    "apply_patch",
    "t_apply_patch",
    "Change, add, move and delete files with one patch: all of it is applied, or nothing. The patch begins with "
    "`*** Begin Patch` and ends with `*** End Patch`. Between them stand sections: `*** Update File: path` (with "
    "`*** Move to: path` below it to move the file), `*** Add File: path` (every line begins with +) and "
    "`*** Delete File: path`. A change is made of hunks: `@@`, then lines that begin with a blank (stays), - (goes) or "
    "+ (comes), with three lines that stay on both sides. Where these are in the file more than once, name the "
    "function or class behind the @@: `@@ def name`. A unified diff is taken too.",
    parameters_of("input", input=text("The patch.")),
    mutates=True,
    is_parallel_safe=False,
)
_ITEM: Final = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        "activeForm": {"type": "string"},
        "id": {},
        "priority": {},
    },
    "required": ["content"],
}
TODO: Final = Definition(
    "todo",
    "t_todo",
    "Keep a list of what is to be done. add (text), start (id), complete (id), list, clear; every answer is the whole "
    "list.",
    parameters_of(
        "action",
        action={"type": "string", "enum": ["add", "start", "complete", "list", "clear"]},
        text=text("What is to be done, for add."),
        id={"type": "integer", "description": "Number of an item, for start and complete."},
    ),
    is_parallel_safe=False,
    category="todo",
)
TODO_WRITE: Final = replace(
    TODO,
    name="todo_write",
    description="Replace the list of what is to be done.",
    parameters=parameters_of(
        "todos", todos={"type": "array", "items": _ITEM, "description": "All items, in order, with their status."}
    ),
)
"""The same list under its other name, written whole."""
CLARIFY: Final = replace(
    ASK_USER,
    name="clarify",
    function_name="t_clarify",
    description="Ask the user one question about the task, where the answer changes what is to be done, and wait for "
    "it.",
)
FILE_INFO: Final = Definition(
    "file_info",
    "t_file_info",
    "Say what stands at a path: type, size, time of change, and its number of entries or lines.",
    parameters_of("path", path=text(PATH)),
)
ROLLBACK: Final = Definition(
    "rollback",
    "t_rollback",
    "Take back what the file tools have changed since the last rollback: files get their earlier content, new ones are "
    "deleted. What commands have changed stays, and so does a file that somebody else has changed since.",
    parameters_of(""),
    is_parallel_safe=False,
)

EXTRA: Final = (APPLY_PATCH, TODO, CLARIFY, FILE_INFO, ROLLBACK)


def grammar() -> dict[str, object]:
    """Return the grammar of `apply_patch` for a model that is held to one: the `custom_format` of a tool."""
    from plait.hands.patches.v4a import GRAMMAR

    return {"type": "grammar", "syntax": "lark", "definition": GRAMMAR}


def held_to_grammar(tool: Tool) -> Tool:
    """Return `apply_patch` as a tool that takes its patch as free text, held to the grammar by the endpoint."""
    return replace(tool, parameters=None, param_map=None, custom_format=MappingProxyType(grammar()))
