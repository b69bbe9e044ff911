"""A session whose calls run somewhere else: behind a fence, or with an executor of the caller's own.

Floor: 5. Owns: what `tool_executor` means for a session's tools, hooks and servers; never: fences, executors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from plait.core.errors import ConfigError
from plait.core.facts import Fact, Observation
from plait.core.values import dataclass
from plait.kernel.tools import Tool
from plait.session.kept.heads import START
from plait.tools.functions import LibraryFunctions
from plait.tools.handed import handed
from plait.tools.toolbox import Toolbox, ToolboxOptions

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence
    from plait.hands.fence.late import LateFence
    from plait.session.live import Live
    from plait.tools.executor import ToolExecutor

Mode = Literal["auto", "on", "off"]
EVENT: Final = "sandbox"
"""The note of a session that goes on behind another fence."""
_NAMES: Final = ("sandbox_mode", "sandbox_policy")


@dataclass(frozen=True, slots=True)
class Confinement:
    """Which hands of a session are behind a fence, in the words of the command line; see docs/sandbox.md.

    `auto`: commands, jobs and own tools that say how, where a fence can be made. `on`: those, hooks and servers, and
    other own tools are refused. `off`: nothing is.
    """

    mode: Mode
    late: LateFence | None = None
    """The fence; with `on` one that was found. None for `off`."""
    advice: str = ""
    """What a model is told that has met the fence: how its user could allow more."""

    def told(self) -> dict[str, object]:
        """Return what a session records of it."""
        if self.late is None or self.late.policy is None:
            return {"sandbox_mode": self.mode}
        return {"sandbox_mode": self.mode, "sandbox_policy": self.late.policy.metadata()}


@dataclass(frozen=True, slots=True)
class Seat:
    """Where the calls of one session run."""

    executor: Any = None
    """A `ToolExecutor`; None and a `LocalToolExecutor` are plait's own way."""
    session_id: str = ""
    confinement: Confinement | None = None
    """In the place of an executor."""

    @property
    def fence(self) -> Fence | None:
        """The fence around the session's commands, hooks and servers, where it has one around all of them."""
        if self.confinement is not None:
            late = self.confinement.late if self.confinement.mode == "on" else None
            return None if late is None else late.found()
        found: Fence | None = getattr(self.executor, "fence", None)
        return found

    @property
    def late(self) -> LateFence | None:
        """The fence around commands, jobs and own tools alone, which is made when one of them is called."""
        own = self.confinement
        return None if own is None or own.mode != "auto" else own.late

    def is_fenced(self, tool: Tool) -> bool:
        """Say whether a call of this tool has a fence around it, or is refused for want of a way into one.

        Where a fence is made late, it is made now for a tool that would be behind it.
        """
        if self.fence is not None:
            return tool.category != "mcp"
        if self.late is None or not _goes_inside(tool):
            return False
        return self.late.found() is not None or self.late.is_barred

    def of(self, session_id: str) -> Seat:
        """Return the same for a session of this id."""
        return replace(self, session_id=session_id)

    def share(self, folder: Callable[[], str | None] | None) -> None:
        """Let commands behind the fence change a folder for files that come and go, too."""
        own = self.confinement
        if own is not None and own.late is not None and folder is not None:
            own.late.scratch = folder

    def options(self, options: ToolboxOptions) -> ToolboxOptions:
        """Return the toolbox's options: behind a fence its file tools stay inside, too."""
        own = self.confinement
        if own is not None:
            options = replace(options, late_fence=self.late, fence_advice=own.advice)
            return options if self.fence is None else replace(options, policy="inside_only", fence=self.fence)
        if self.fence is None:
            return options
        limit_s = float(self.fence.policy.timeout_seconds)
        return replace(options, policy="inside_only", fence=self.fence, timeout_s=limit_s, timeout_max_s=limit_s)

    def seated(self, tools: Sequence[Tool], toolbox: Toolbox) -> list[Tool]:
        """Return the tools as they run here."""
        if self.fence is not None:
            from plait.tools.fenced_calls import fenced

            return [tool if _is_own(tool) else fenced(tool, toolbox.shell) for tool in tools]
        if self.late is not None and any(map(_has_way_in, tools)):
            from plait.tools.fenced_calls import fenced

            return [fenced(tool, toolbox.shell) if _has_way_in(tool) else tool for tool in tools]
        return [*tools] if self.is_usual else [self.handed_on(tool) for tool in tools]

    @property
    def is_usual(self) -> bool:
        """True where calls run plait's own way."""
        from plait.tools.executor import LocalToolExecutor

        return self.executor is None or type(self.executor) is LocalToolExecutor

    def handed_on(self, tool: Tool) -> Tool:
        """Return a tool whose calls the executor gets."""
        target = tool.python_function_name if _is_own(tool) else tool.fn
        entry = {"python_function": target, "param_map": tool.resolved_param_map}
        fn = partial(_execute, self.executor, tool.name, entry, self.session_id)

        def call(**keywords: object) -> object:
            return fn(keywords)

        call.__name__ = tool.python_function_name
        return handed(tool, call)


def seat_of(given: Mapping[str, Any]) -> Seat:
    """Return where calls run; raise `ConfigError` for what is no executor, or one of another workspace."""
    executor, confinement = given["tool_executor"], given["sandbox"]
    if executor is None:
        return Seat(confinement=_around(confinement, given["workspace"]))
    if confinement is not None:
        raise ConfigError("sandbox and tool_executor both say where calls run", hint="give one of them")
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


def fence_told(seat: Seat) -> dict[str, object]:
    """Return what a session says of its fence when it begins; nothing where nobody has asked for one."""
    fence = seat.fence
    told = {} if seat.confinement is None else seat.confinement.told()
    return told if fence is None else {**told, "sandbox_policy": fence.policy.metadata(), "sandbox": fence.level}


def note_seat(live: Live) -> None:
    """Record where the calls of a session run from now on, where that is not what it said last."""
    if (told := live.standing.seat_news) is not None:
        live.conversation.note(Observation("note", {"event": EVENT, **told}))
        live.standing.seat_news = None


def seat_news(seat: Seat, facts: Sequence[Fact]) -> tuple[dict[str, object] | None, str]:
    """Return what a session that goes on has to record of its fence, None for nothing, and a line for its user."""
    if seat.confinement is None:
        return None, ""
    now, before = fence_told(seat), _told_last(facts)
    if before is None or all(before.get(name) == now.get(name) for name in _NAMES):
        return None, ""
    return now, changed_words(before, now)


def changed_words(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Return what is new about a session's fence, as one line; empty for what nobody need hear."""
    was, mode = before.get("sandbox_mode") or ("on" if before.get("sandbox_policy") else "off"), now["sandbox_mode"]
    if was != mode:
        return f"the sandbox of this session was {was!r} and is {mode!r} now"
    old, new = (told.get("sandbox_policy") for told in (before, now))
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return ""
    news = [name for name in ("workspace", "network", "writable_paths", "read_only_paths") if old[name] != new[name]]
    return f"the sandbox of this session has other terms now: {', '.join(news)}" if news else ""


def _told_last(facts: Sequence[Fact]) -> Mapping[str, object] | None:
    for fact in reversed(facts):
        if isinstance(fact, Observation) and (fact.type == START or fact.data.get("event") == EVENT):
            return fact.data
    return None


def _around(confinement: Confinement | None, workspace: object) -> Confinement | None:
    """Return a confinement that is around the session's workspace; raise `ConfigError` for another."""
    policy = None if confinement is None or confinement.late is None else confinement.late.policy
    if policy is not None and workspace is not None:
        root, own = policy.root, os.path.realpath(str(workspace))
        if root != own:
            raise ConfigError(f"workspace={own!r} is not the sandbox's, which is {root!r}", hint="give both the same")
    return confinement


def _goes_inside(tool: Tool) -> bool:
    return _has_way_in(tool) or (_is_own(tool) and tool.runs_code)


def _has_way_in(tool: Tool) -> bool:
    return not _is_own(tool) and tool.sandbox is not None and tool.sandbox is not False


def _execute(
    executor: ToolExecutor, name: str, entry: Mapping[str, object], session_id: str, keywords: Mapping[str, object]
) -> object:
    return executor.execute(name, keywords, entry, session={"session_id": session_id})


def _is_own(tool: Tool) -> bool:
    """Say whether a tool is plait's, done by a toolbox that knows its fence."""
    fn: Callable[..., object] | None = tool.fn
    owner = getattr(fn, "__self__", None)
    return isinstance(owner, (LibraryFunctions, Toolbox)) or (tool.recovery is not None and tool.name == "nohup")
