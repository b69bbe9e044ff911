"""Executors: who runs a session's tool calls.

Floor: 3. Owns: the contract's `execute`, and the executor that is as good as none; never: fences (`fenced_executor`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from plait.tools import dispatch as dispatching


@runtime_checkable
class ToolExecutor(Protocol):
    """Runs the calls of a session in the place of plait's own way.

    What goes wrong in a call is its result: `ok: False` in the data.
    """

    def execute(
        self,
        tool_name: str,
        args: Mapping[str, object],
        dispatch_entry: Mapping[str, object],
        *,
        session: Mapping[str, object],
    ) -> tuple[str, dict[str, object]]:
        """Run one call and return text and data.

        `dispatch_entry` is `{python_function, param_map}` as in a dispatch table; `session` has the `session_id`.
        """
        ...


class LocalToolExecutor:
    """Runs calls in this process, as they run without any executor."""

    def __init__(self, functions: Mapping[str, Callable[..., object]] | None = None) -> None:
        """`functions` are looked up where an entry names one; the tool library's in the current directory else."""
        self._functions = functions

    def execute(
        self,
        tool_name: str,
        args: Mapping[str, object],
        dispatch_entry: Mapping[str, object],
        *,
        session: Mapping[str, object],
    ) -> tuple[str, dict[str, object]]:
        """Call the function behind the entry; see `ToolExecutor`."""
        functions = self._functions
        if functions is None:
            from plait.tools.library import Library

            functions = self._functions = Library().functions
        return dispatching.dispatch(tool_name, args, {tool_name: dispatch_entry}, functions)
