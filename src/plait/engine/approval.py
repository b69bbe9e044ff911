"""Who decides whether a call may run.

Floor: 4. Owns: the approver protocol and the approvers that need nobody; never: a prompt on a terminal.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol, get_args

from plait.core.errors import ConfigError
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
    a rule or a hook wants a person to be asked, whatever the tool is, or an MCP server's tool is not what was agreed
    to; `ruled(call, tool, rule)` hears of a call that a rule denied, without being asked. One whose attribute
    `agrees_unseen` is true agrees to such a changed tool for its session alone, without being asked.
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
    """Say whether a pattern names the call's tool, or means the whole of its single, plain command.

    A pattern is the tool's name, the whole line as it is, or one with `*` in it. That one means a line only where bash
    would run one command, nothing about it is in doubt, and it runs no other: `ls*` does not mean `ls; rm -rf ~`, and
    `find*` not `find -exec`.
    """
    if not allowlist:
        return False
    if call.name in allowlist:
        return True
    given = (_command_of(call) or "").strip()
    if not given or given in allowlist:
        return bool(given)
    patterns = [pattern.strip() for pattern in allowlist if "*" in pattern]
    return any(_is_meant(given, pattern) for pattern in patterns) and _is_one_command(given)


def _is_one_command(text: str) -> bool:
    from plait.hands.command_lines.command_line import read_command_line  # most agents list nothing

    line = read_command_line(text)
    return not line.doubts and len(line.all) == 1 and line.all[0].is_certain and not line.all[0].hands_on


def _is_meant(given: str, pattern: str) -> bool:
    return "\n" not in given and fnmatchcase(given, pattern.replace("[", "[[]").replace("?", "[?]"))


class Judge(Protocol):
    """Has an opinion on a call; see `plait.RiskJudge`."""

    def is_low_risk(self, call: ToolCall, tool: Tool) -> bool | None:
        """Return True for low, False for high, None for no opinion."""
        ...


class AutoApprover:
    """Never asks anybody: what would have to be asked gets `ask_default`, with the policy `smart` a judge's opinion.

    Where a judge is missing, or has no opinion, `smart` denies.

    Raises:
        ConfigError: there is no such policy. Asking nobody, it would allow what a misspelt one was to deny.
    """

    def __init__(
        self,
        policy: Policy = "always_ask",
        *,
        allowlist: Sequence[str] = (),
        ask_default: bool = True,
        risk_judge: Judge | None = None,
    ) -> None:
        if policy not in (policies := get_args(Policy)):
            raise ConfigError(f"there is no policy {policy!r}", hint=f"there are {', '.join(policies)}")
        self._policy = policy
        self._allowlist = tuple(allowlist)
        self._ask_default = ask_default
        self._judge = risk_judge

    def approve(self, call: ToolCall, tool: Tool) -> bool:
        """Judge by the policy alone."""
        said = decide(self._policy, tool, call, self._allowlist)
        if said != "ask":
            return said == "allow"
        return is_judged_low(self._judge, call, tool) if self._policy == "smart" else self._ask_default

    def would_ask(self, call: ToolCall, tool: Tool) -> bool:
        """Say that nobody is asked."""
        return False

    def approve_asked(self, call: ToolCall, tool: Tool, why: str) -> bool:
        """Deny what a person has to be asked about: there is none."""
        return False

    def approve_plan(self, calls: Sequence[ToolCall], tools: Sequence[Tool]) -> bool:
        """Judge every call by the policy; one no is a no."""
        return all(self.approve(call, tool) for call, tool in zip(calls, tools, strict=True))


def is_judged_low(judge: Judge | None, call: ToolCall, tool: Tool) -> bool:
    """Say whether a judge has clearly said so; one that is missing, fails or is unsure has not."""
    if judge is None:
        return False
    try:
        return judge.is_low_risk(call, tool) is True
    except Exception:  # boundary: a judge that fails has said nothing
        return False


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


def _command_of(call: ToolCall) -> str | None:
    try:
        command = call.arguments.get("command")
    except JsonInvalid:
        return None
    return command if isinstance(command, str) else None
