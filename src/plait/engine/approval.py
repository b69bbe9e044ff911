"""Who decides whether a call may run.

Floor: 4. Owns: the approver protocol and the approvers that need nobody; never: a prompt on a terminal.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol

from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid
from plait.kernel.effects import Allow, Ask, Deny
from plait.kernel.tools import Tool

Verdict = Allow | Deny | Ask
Planned = Sequence[tuple[ToolCall, Tool]]
"""All calls of an answer that are known, each with its tool."""
Policy = Literal["always_ask", "auto_allow", "deny_mutations", "smart"]

DENIED: Final = "Denied by user."
PLAN_DENIED: Final = "Plan denied by user."


class Approver(Protocol):
    """Judges one gated call, after the results of the calls before it are known.

    Called by the host between effects, one call at a time; may block, may be a coroutine in an async host. An
    exception of its own closes the turn with an error. True and False are short for `Allow` and `Deny`.

    It may have three methods more. `would_ask(call, tool)` says whether somebody would be asked, so that hooks answer
    or tell of a question only where there is one; `approve_asked(call, tool, why)` is asked in place of `approve` where
    a rule or a hook wants a person to be asked, whatever the tool is; `ruled(call, tool, rule)` hears of a call that a
    rule denied, without being asked.
    """

    def approve(self, call: ToolCall, tool: Tool) -> Any:
        """Return a bool, or `Allow | Deny | Ask`."""


def decide(policy: str, tool: Tool, call: ToolCall, allowlist: Sequence[str] = ()) -> Literal["allow", "deny", "ask"]:
    """Say what a policy alone says of a call; an unknown policy asks."""
    if not tool.gated or is_listed(call, allowlist) or policy == "auto_allow":
        return "allow"
    if policy == "deny_mutations":
        return "deny" if tool.mutates or tool.runs_code else "allow"
    return "ask"


def is_listed(call: ToolCall, allowlist: Sequence[str]) -> bool:
    """Say whether a pattern names the call's tool, or the whole of its single, plain command."""
    if not allowlist:
        return False
    command = _plain_command(call)
    return any(
        call.name == pattern or (command is not None and (command == pattern or fnmatchcase(command, pattern)))
        for pattern in allowlist
    )


class AutoApprover:
    """Never asks anybody: what would have to be asked gets `ask_default`."""

    def __init__(
        self, policy: Policy = "always_ask", *, allowlist: Sequence[str] = (), ask_default: bool = True
    ) -> None:
        self._policy = policy
        self._allowlist = tuple(allowlist)
        self._ask_default = ask_default

    def approve(self, call: ToolCall, tool: Tool) -> bool:
        """Judge by the policy alone."""
        said = decide(self._policy, tool, call, self._allowlist)
        return self._ask_default if said == "ask" else said == "allow"

    def would_ask(self, call: ToolCall, tool: Tool) -> bool:
        """Say that nobody is asked."""
        return False

    def approve_asked(self, call: ToolCall, tool: Tool, why: str) -> bool:
        """Deny what a person has to be asked about: there is none."""
        return False

    def approve_plan(self, calls: Sequence[ToolCall], tools: Sequence[Tool]) -> bool:
        """Judge every call by the policy; one no is a no."""
        return all(self.approve(call, tool) for call, tool in zip(calls, tools, strict=True))


def is_async(approver: Approver) -> bool:
    """Say whether an approver has to be awaited."""
    return any(inspect.iscoroutinefunction(getattr(approver, name, None)) for name in ("approve", "approve_plan"))


def approve_plan(approver: Approver, plan: Planned) -> bool:
    """Ask once about all calls of a message; an approver without `approve_plan` is asked call by call."""
    ask = getattr(approver, "approve_plan", None)
    if ask is not None:
        return ask([call for call, _ in plan], [tool for _, tool in plan]) is True
    return all(isinstance(as_verdict(approver.approve(call, tool), call), Allow) for call, tool in plan if tool.gated)


async def aapprove_plan(approver: Approver, plan: Planned) -> bool:
    """Do the same with an approver that has to be awaited."""
    ask = getattr(approver, "approve_plan", None)
    if ask is not None:
        return await _answer_of(ask([call for call, _ in plan], [tool for _, tool in plan])) is True
    for call, tool in plan:
        if tool.gated and not isinstance(as_verdict(await _answer_of(approver.approve(call, tool)), call), Allow):
            return False
    return True


async def _answer_of(said: Any) -> object:
    return await said if inspect.isawaitable(said) else said


def as_verdict(said: object, call: ToolCall) -> Verdict:
    """Return an approver's answer as the loop takes it; anything that is not a clear yes is a no."""
    if isinstance(said, (Allow, Deny, Ask)):
        return said
    return Allow(call) if said is True else Deny(DENIED)


_SHELL_MARKS: Final = frozenset(";&|<>`$(){}\n\\\"'")


def _plain_command(call: ToolCall) -> str | None:
    """The call's command, when it is one command without anything that a shell would take as more than words."""
    try:
        command = call.arguments.get("command")
    except JsonInvalid:
        return None
    if not isinstance(command, str) or _SHELL_MARKS.intersection(command):
        return None
    return command.strip()
