"""A session whose calls run somewhere else: behind a fence, or with an executor of the caller's own.

Floor: 5. Owns: what `tool_executor` means for a session's tools, hooks and servers; never: fences, executors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from plait.core.errors import ConfigError
from plait.kernel.tools import Tool
from plait.tools.functions import LibraryFunctions
from plait.tools.toolbox import Toolbox, ToolboxOptions

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence
    from plait.tools.executor import ToolExecutor


@dataclass(frozen=True, slots=True)
class Seat:
    """Where the calls of one session run."""

    executor: Any = None
    """A `ToolExecutor`; None and a `LocalToolExecutor` are plait's own way."""
    session_id: str = ""

    @property
    def fence(self) -> Fence | None:
        """The fence around the session's commands, hooks and servers, where it has one."""
        found: Fence | None = getattr(self.executor, "fence", None)
        return found

    def of(self, session_id: str) -> Seat:
        """Return the same for a session of this id."""
        return replace(self, session_id=session_id)

    def options(self, options: ToolboxOptions) -> ToolboxOptions:
        """Return the toolbox's options: behind a fence its file tools stay inside, too."""
        if self.fence is None:
            return options
        limit_s = float(self.fence.policy.timeout_seconds)
        return replace(options, policy="inside_only", fence=self.fence, timeout_s=limit_s, timeout_max_s=limit_s)

    def seated(self, tools: Sequence[Tool], toolbox: Toolbox) -> list[Tool]:
        """Return the tools as they run here."""
        if self.fence is not None:
            from plait.tools.fenced_calls import fenced

            return [tool if _is_own(tool) else fenced(tool, toolbox.shell) for tool in tools]
        return [*tools] if self._is_usual else [self._handed_on(tool) for tool in tools]

    @property
    def _is_usual(self) -> bool:
        from plait.tools.executor import LocalToolExecutor

        return self.executor is None or type(self.executor) is LocalToolExecutor

    def _handed_on(self, tool: Tool) -> Tool:
        target = tool.python_function_name if _is_own(tool) else tool.fn
        entry = {"python_function": target, "param_map": tool.resolved_param_map}
        fn = partial(_execute, self.executor, tool.name, entry, self.session_id)

        def call(**keywords: object) -> object:
            return fn(keywords)

        call.__name__ = tool.python_function_name
        return replace(tool, fn=call, parameters=tool.resolved_parameters, param_map={}, recovery=None)


def seat_of(given: Mapping[str, Any]) -> Seat:
    """Return where calls run; raise `ConfigError` for what is no executor, or one of another workspace."""
    executor = given["tool_executor"]
    if executor is None:
        return Seat()
    if not callable(getattr(executor, "execute", None)):
        raise ConfigError(
            f"tool_executor={executor!r} has no execute(…)", hint="pass a BubblewrapToolExecutor, or a ToolExecutor"
        )
    seat = Seat(executor)
    if seat.fence is not None and given["workspace"] is not None:
        workspace, root = os.path.realpath(given["workspace"]), seat.fence.policy.root
        if workspace != root:
            raise ConfigError(
                f"workspace={workspace!r} is not the sandbox's, which is {root!r}", hint="give both the same"
            )
    return seat


def seated(given: dict[str, Any]) -> dict[str, Any]:
    """Return a session's options with its seat in the executor's place, and the sandbox's workspace as its own."""
    seat = seat_of(given)
    root = None if seat.fence is None else seat.fence.policy.root
    return {**given, "tool_executor": seat, "workspace": given["workspace"] or root}


def fence_told(toolbox: Toolbox) -> dict[str, object]:
    """Return what a session says of its fence when it begins; nothing where there is none."""
    fence = toolbox.options.fence
    return {} if fence is None else {"sandbox_policy": fence.policy.metadata(), "sandbox": fence.level}


def _execute(
    executor: ToolExecutor, name: str, entry: Mapping[str, object], session_id: str, keywords: Mapping[str, object]
) -> object:
    return executor.execute(name, keywords, entry, session={"session_id": session_id})


def _is_own(tool: Tool) -> bool:
    """Say whether a tool is plait's, done by a toolbox that knows its fence."""
    fn: Callable[..., object] | None = tool.fn
    owner = getattr(fn, "__self__", None)
    return isinstance(owner, (LibraryFunctions, Toolbox)) or (tool.recovery is not None and tool.name == "nohup")
