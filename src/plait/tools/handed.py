"""A tool whose calls go elsewhere, with the tool that it was.

Floor: 3. Owns: that one shape; never: where calls go (`session.confining`, `fenced_calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from plait.kernel.tools import Tool


@dataclass(frozen=True, eq=False)
class Handed(Tool):
    """The same tool for a model, and another function behind it."""

    behind: Tool | None = field(default=None, kw_only=True)
    """The tool that it was; None only where nobody has handed it on."""


def handed(tool: Tool, fn: Callable[..., Any]) -> Handed:
    """Return a tool whose calls are `fn`'s, with the arguments as the model names them.

    What is advertised stays the same, byte for byte. What became of a lost call nobody can tell any more.
    """
    parts: dict[str, Any] = {part.name: getattr(tool, part.name) for part in fields(Tool)}
    parts |= {"fn": fn, "parameters": tool.resolved_parameters, "param_map": {}, "recovery": None}
    return Handed(**parts, behind=tool)


def behind(tool: Tool) -> Tool:
    """Return the tool that a tool was before its calls were handed on."""
    while isinstance(tool, Handed) and tool.behind is not None:
        tool = tool.behind
    return tool
