"""Other names for the built-in tools, with what their parameters are called there.

Floor: 3. Owns: which name means which tool; never: doing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from plait.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Rename:
    """A tool under another name."""

    name: str
    """The built-in tool's name."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The other name's parameter to the tool's, where they differ."""
    function_name: str = ""
    """The library function that takes the place of the tool's own, where the other name has a rule of its own."""

    def arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return arguments under the tool's own names."""
        return {self.parameters.get(name, name): value for name, value in given.items()}


RENAMED: Final[Mapping[str, Rename]] = MappingProxyType(
    {
        "bash": Rename("exec_shell"),
        "execute_shell_command": Rename("exec_shell"),
        "run_command": Rename("exec_shell"),
        "edit_file": Rename("str_replace", {"old": "old_str", "new": "new_str"}, "t_edit_file"),
        "find_files": Rename("glob"),
        "search_text": Rename("search_files"),
        "list_directory": Rename("list_dir"),
        "todo_write": Rename("todo"),
    }
)
"""Names that are understood beside the advertised ones; rules and hooks treat both alike."""


def canonical(name: str) -> str:
    """Return the built-in tool's name behind a name; any other name as it is."""
    rename = RENAMED.get(name)
    return name if rename is None else rename.name


def names_of(name: str) -> tuple[str, ...]:
    """Return every name of the tool that `name` means, its own first: what rules and hooks are matched against."""
    own = canonical(name)
    return (own, *(other for other, rename in RENAMED.items() if rename.name == own))
