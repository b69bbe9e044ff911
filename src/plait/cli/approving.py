"""Who says yes to a call on the command line: the rules, then the user, then nobody.

Floor: 7. Owns: which calls are asked about, the question, the denials of a run; never: the terminal itself.

File tools inside the workspace run freely. A command, a change outside the workspace and whatever else asks for
approval need a yes: `--yes` gives it to all, the user to one; without a terminal the answer is no.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from plait.cli.escapes import literal
from plait.core.cancel import Cancel
from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid, dump
from plait.kernel.effects import Allow, Deny, Interrupted
from plait.kernel.tools import Tool
from plait.tools.renames import canonical

_OF_SERVERS: Final = "mcp__"
Leads = Callable[[ToolCall], Literal["inside", "outside", "secret"]]
"""Says where the path of a file tool's call leads."""

NOBODY: Final = (
    "Not run: this needs the user's approval, and there is no terminal to ask on. Do not try it again. Go on without "
    "it, or say in your answer what should be run. The user allows it with --yes."
)
NOBODY_FOR_HOOK: Final = (
    "Not run: a hook of the user's wants them to be asked, and there is no terminal to ask on. Do not try it again. Go "
    "on without it, or say in your answer what should be run."
)
DECLINED: Final = "Not run: the user said no. Do not try it again; ask what to do instead, or go on without it."
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})
_ALWAYS: Final = frozenset({"a", "always"})


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that was not run."""

    call: ToolCall
    by: Literal["user", "nobody"]
    """`nobody`: there was nobody to ask."""
    wish: str = ""
    """Why a person had to be asked, where a hook wanted it: `--yes` is no answer to that."""

    def to_dict(self) -> dict[str, object]:
        """Return `{tool, call_id, arguments, by, reason}`, as `--json` prints it."""
        call = self.call.to_dict()
        reason = DECLINED if self.by == "user" else NOBODY_FOR_HOOK if self.wish else NOBODY
        return {
            "tool": call["name"],
            "call_id": call["id"],
            "arguments": call["arguments"],
            "by": self.by,
            "reason": reason,
        }


class Asking(Protocol):
    """Somebody who can be asked."""

    def ask(self, text: str, cancel: Cancel) -> str | None:
        """Show `text`, return the line that is typed after it; None when nobody answers any more."""


class RunApprover:
    """Judges the gated calls of one run; see `plait.engine.approval.Approver`."""

    def __init__(
        self,
        *,
        cancel: Cancel,
        leads: Leads,
        person: Asking | None,
        says_yes: bool = False,
        before_asking: Callable[[], object] = lambda: None,
    ) -> None:
        """Take the rules of a run.

        Args:
            cancel: ends a question that is still open.
            leads: tells changes inside the workspace from those outside.
            person: whom to ask; None denies what would have to be asked.
            says_yes: allow everything.
            before_asking: brings the screen up to date, so that the question is its last line.
        """
        self.denials: list[Denial] = []
        self._cancel = cancel
        self._leads = leads
        self._person = person
        self._says_yes = says_yes
        self._before_asking = before_asking
        self._always: set[tuple[str, str]] = set()

    def approve(self, call: ToolCall, tool: Tool) -> Allow | Deny:
        """Allow or deny one call; raises `Interrupted` when the question is cut short."""
        if not self.would_ask(call, tool):
            return Allow(call)
        if self._person is None:
            return self._deny(call, "nobody", NOBODY)
        self._before_asking()
        return self._ask(self._person, call)

    def would_ask(self, call: ToolCall, tool: Tool) -> bool:
        """Say whether this call is one to ask about."""
        return not self._says_yes and self._needs_yes(call, tool) and (call.name, call.raw) not in self._always

    def approve_asked(self, call: ToolCall, tool: Tool, why: str) -> Allow | Deny:
        """Ask the user, whatever the rules say, because a hook wants it; without a user the answer is no."""
        if self._person is None:
            self.denials.append(Denial(call, "nobody", why or "a hook wants it"))
            return Deny(NOBODY_FOR_HOOK)
        self._before_asking()
        return self._ask(self._person, call, f"A hook wants you to be asked: {why}" if why else "")

    def _needs_yes(self, call: ToolCall, tool: Tool) -> bool:
        if tool.runs_code or tool.requires_approval:
            return True
        # What leads to a secret place is refused by the tool itself, whoever says yes.
        return self._leads(call) == "outside"

    def _ask(self, person: Asking, call: ToolCall, why: str = "") -> Allow | Deny:
        text = question(call, why)
        while True:
            line = person.ask(text, self._cancel)
            if self._cancel.reason is not None:
                raise Interrupted(self._cancel.reason)
            if line is None:
                return self._deny(call, "nobody", NOBODY)
            answer = line.strip().lower()
            if answer in _ALWAYS:
                self._always.add((call.name, call.raw))
            if answer in _YES | _ALWAYS:
                return Allow(call)
            if answer in _NO:
                return self._deny(call, "user", DECLINED)
            text = "Please type y, n or a: "

    def _deny(self, call: ToolCall, by: Literal["user", "nobody"], reason: str) -> Deny:
        self.denials.append(Denial(call, by))
        return Deny(reason)


def question(call: ToolCall, why: str = "") -> str:
    """Return the question about a call: all of it, with nothing in it that a terminal would act on or hide."""
    what, body = _subject(call, is_outside=not why)
    lines = [f"  | {line}" for line in literal(body)]
    lines += [f"  {line}" for line in literal(why)] if why else []
    return "\n".join(["", f"plait wants to {what}:", *lines, "Allow? [y]es, [n]o, [a]lways this one: "])


def _subject(call: ToolCall, *, is_outside: bool) -> tuple[str, str]:
    try:
        arguments = call.arguments
    except JsonInvalid:
        return f"use the tool {call.name!r} with", call.raw
    if call.name.startswith(_OF_SERVERS):
        # What a server's tool does with a `command` or a `path` is its own affair: its name says whose that is.
        return f"use the tool {call.name!r} with", call.raw
    if canonical(call.name) == "apply_patch" and isinstance(patch := arguments.get("input"), str):
        return "apply this patch, which leads outside the workspace" if is_outside else "apply this patch", patch
    command, path = arguments.pop("command", None), arguments.get("path")
    if isinstance(command, str):
        return "run this command", f"{command}\n({dump(arguments)})" if arguments else command
    if isinstance(path, str):
        what = "change a file outside the workspace with" if is_outside else "touch a file with"
        return f"{what} {call.name!r}", f"{path}\n{call.raw}"
    return f"use the tool {call.name!r} with", call.raw
