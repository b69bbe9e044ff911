"""Which paths a call of a file tool names.

Floor: 3. Owns: the arguments that hold them; never: where they lead (`looks`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from plait.core.errors import Refusal
from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid
from plait.tools.renames import canonical

_WITH_PATH: Final = frozenset(
    {"read_file", "write_file", "str_replace", "list_dir", "glob", "search_files", "file_info"}
)


def named_paths(call: ToolCall) -> tuple[str, ...]:
    """Return the paths of a call as it has them, each once; none for any other tool and for what cannot be read."""
    try:
        arguments = call.arguments
    except JsonInvalid:
        return ()
    if canonical(call.name) == "apply_patch":
        return _patched(arguments.get("input"))
    path = arguments.get("path")
    return (path,) if canonical(call.name) in _WITH_PATH and isinstance(path, str) else ()


def _patched(text: object) -> tuple[str, ...]:
    from plait.hands.patches.patch import parse_patch  # most sessions have no patch

    with suppress(Refusal):
        return tuple(dict.fromkeys(path for each in parse_patch(str(text)) for path in each.paths))
    return ()
