"""What hooks call the tools and their arguments: the names of both dialects beside plait's own.

Floor: 3. Owns: the two tables and the way back for changed arguments; never: a tool.

A hook that was written for another program reads `tool_input.file_path`, one that was written for plait reads
`tool_input.path`: both are there, and whichever a hook changes is what the tool gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from plait.core.values import dataclass

_BASH: Final = ("exec_shell", "bash", "execute_shell_command", "run_command", "nohup", "nohup_wait", "nohup_query")
_HOOK_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(_BASH, ("Bash",)),
        "read_file": ("Read",),
        "write_file": ("Write",),
        **dict.fromkeys(("str_replace", "edit_file", "update", "update_file"), ("Edit",)),
        "apply_patch": ("MultiEdit", "Edit", "Write"),
        **dict.fromkeys(("glob", "find_files"), ("Glob",)),
        **dict.fromkeys(("search_files", "search_text", "search"), ("Grep",)),
        **dict.fromkeys(("list_dir", "list_directory"), ("LS",)),
        **dict.fromkeys(("spawn", "subagent"), ("Task", "Agent")),
        **dict.fromkeys(("todo", "todo_write"), ("TodoWrite",)),
        "web_fetch": ("WebFetch",),
    }
)
"""Tool to the names that hook files use for it, the reported one first."""

_PATHS: Final = ("path", "file_path")
_EDIT: Final = (_PATHS, ("old_str", "old", "old_string"), ("new_str", "new", "new_string"))
_SAME: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        "Read": (_PATHS,),
        "Write": (_PATHS,),
        "Edit": _EDIT,
        "MultiEdit": (("patch", "input", "command"),),
        "Grep": (("ignore_case", "-i"), ("context", "-C"), ("max_results", "head_limit")),
    }
)
"""Names of one and the same argument."""
_MEANINGLESS: Final = frozenset({"description", "run_in_background"})
"""Arguments of other programs' shells that say nothing here; dropped unless the tool has such a parameter."""


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call as hooks see it."""

    native: str
    """The name under which it was called."""
    names: tuple[str, ...]
    """Every name that a matcher may use, the reported one first."""
    arguments: Mapping[str, Any]
    """As they were sent."""
    parameters: frozenset[str] = frozenset()
    """The names that the tool takes."""

    @classmethod
    def of(cls, native: str, names: Sequence[str], arguments: Mapping[str, Any], parameters: frozenset[str]) -> Called:
        """Return a call of a tool that goes by `names` as well."""
        own = tuple(dict.fromkeys((native, *names)))
        theirs = [name for each in own for name in _HOOK_NAMES.get(each, ())]
        return cls(native, tuple(dict.fromkeys((*theirs, *own))), arguments, parameters)

    @property
    def tool_input(self) -> dict[str, Any]:
        """The arguments under all their names."""
        told = dict(self.arguments)
        for names in _SAME.get(self.names[0], ()):
            known = next((name for name in names if name in told), None)
            if known is not None:
                told.update({name: told[known] for name in names if name not in told})
        seconds = told.get("timeout_s")
        if self._is_shell and isinstance(seconds, (int, float)) and "timeout" not in self.parameters:
            told.setdefault("timeout", round(seconds * 1000))
        return told

    def payload(self, call_id: str) -> dict[str, Any]:
        """Return what hooks are told of the call."""
        return {
            "tool_name": self.names[0],
            "plait_tool_name": self.native,
            "agentknit_tool_name": self.native,
            "tool_input": self.tool_input,
            "tool_use_id": call_id,
        }

    def merged(self, updated: Mapping[str, object]) -> dict[str, Any]:
        """Return the arguments with what a hook has changed, under the names that they were called by.

        An argument that the hook leaves out stays as it was. One that no name of the tool's means is kept, so that it
        is refused and not overlooked.
        """
        told = self.tool_input
        merged, given = dict(self.arguments), dict(updated)
        for names in _SAME.get(self.names[0], ()):
            changed = [given[name] for name in names if name in given and given[name] != told.get(name, _ABSENT)]
            own = self._own_name(names)
            if own in given and given[own] != told.get(own, _ABSENT):
                changed.insert(0, given[own])
            if changed:
                merged[own] = changed[0]
            for name in names:
                given.pop(name, None)
        if self._is_shell and "timeout" not in self.parameters:
            milliseconds = given.pop("timeout", _ABSENT)
            is_own_new = "timeout_s" in given and given["timeout_s"] != told.get("timeout_s", _ABSENT)
            is_new = milliseconds is not _ABSENT and milliseconds != told.get("timeout", _ABSENT)
            if is_new and not is_own_new and isinstance(milliseconds, (int, float)):
                given["timeout_s"] = milliseconds / 1000
        if self._is_shell:
            given = {name: value for name, value in given.items() if self._means(name)}
        return {**merged, **given}

    @property
    def _is_shell(self) -> bool:
        return self.names[0] == "Bash"

    def _means(self, name: str) -> bool:
        return name not in _MEANINGLESS or name in self.parameters or name in self.arguments

    def _own_name(self, names: tuple[str, ...]) -> str:
        """Return which of an argument's names the tool takes."""
        wanted = (*(name for name in names if name in self.arguments), *names)
        return next((name for name in wanted if name in self.parameters), names[0])


_ABSENT: Final = object()
