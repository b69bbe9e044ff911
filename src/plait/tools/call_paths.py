"""Which paths a call of a file tool names, whatever the tool and its arguments are called.

Floor: 3. Owns: the arguments that hold them; never: where they lead (`looks`).
"""

from __future__ import annotations

from typing import Final

from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid
from plait.kernel.tools import Tool
from plait.tools.behind import built_in_behind
from plait.tools.renames import canonical

_WITH_PATH: Final = frozenset(
    {"read_file", "write_file", "str_replace", "list_dir", "glob", "search_files", "file_info"}
)


def named_paths(call: ToolCall, tool: Tool | None = None) -> tuple[str, ...]:
    """Return the paths of a call as it has them, each once; none for any other tool and for what cannot be read.

    With `tool` a built-in function under a name, and with arguments, of a spec's own is known as well.
    """
    behind = () if tool is None else (tool.alias_of, built_in_behind(tool))
    names = {canonical(name) for name in (call.name, *behind) if name}
    try:
        given = call.arguments
    except JsonInvalid:
        return ()
    arguments = given if tool is None else {**given, **tool.keywords(given)}
    if "apply_patch" in names:
        from plait.hands.patches.patch import paths_in  # most sessions have no patch

        return paths_in(str(arguments.get("input")))
    path = arguments.get("path")
    return (path,) if names & _WITH_PATH and isinstance(path, str) else ()
