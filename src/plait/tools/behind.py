"""Which built-in tool a function of the library is, whatever a spec calls the tool that it stands behind.

Floor: 3. Owns: the table from functions to tools; never: what they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from plait.kernel.tools import Tool
from plait.tools import background_specs, definitions
from plait.tools.definitions import Definition
from plait.tools.extra_specs import EXTRA
from plait.tools.renames import RENAMED

CURRENT: Final[Mapping[str, Definition]] = MappingProxyType(
    {
        known.function_name: known
        for known in (*definitions.BUILT_IN, *definitions.ASKING, *background_specs.BACKGROUND, *EXTRA)
    }
)
"""The functions that have a tool of their own, with its definition."""
BY_FUNCTION: Final[Mapping[str, Definition]] = MappingProxyType(
    {
        **CURRENT,
        **{old: CURRENT[new] for old, new in definitions.SUPERSEDED_TOOLS.items()},
        **{rename.function_name: CURRENT["t_update"] for rename in RENAMED.values() if rename.function_name},
        "t_execute_async": background_specs.NOHUP,
    }
)
"""What each of the library's functions touches, under every name that it has."""
DONE_BY: Final[Mapping[str, str]] = MappingProxyType(
    {name: "edit_file" if name == "t_edit_file" else known.name for name, known in BY_FUNCTION.items()}
)
"""Which tool of a toolbox does what each function does."""
_NAMES: Final = frozenset({*DONE_BY.values(), *RENAMED})


def built_in_behind(tool: Tool) -> str | None:
    """Return the name of the built-in tool whose function is behind a tool; None for a function of somebody else's."""
    function = tool.python_function_name
    name = DONE_BY.get(function, function)
    return name if name in _NAMES else None
