"""Who says yes to a call on the command line: the rules, then the user, then nobody.

Floor: 7. Owns: which calls are asked about, what an answer means, the denials of a run; never: the terminal itself,
or the words of the question (`question`).

File tools inside the workspace run freely, and what runs behind a fence. Any other command, a change outside the
workspace or of what programs outside obey, and whatever else asks for approval need a yes: `--yes` gives it to all,
the user to one; without a terminal the answer is no.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final, Literal, Protocol

from plait.core.cancel import Cancel
from plait.core.messages import ToolCall
from plait.core.values import dataclass
from plait.kernel.effects import Allow, Deny, Interrupted
from plait.kernel.tools import Tool
from plait.session.kept.remembering import Answer
from plait.tools.looks import Look

NOBODY: Final = (
    "Not run: this needs the user's approval, and there is no terminal to ask on. Do not try it again. Go on without "
    "it, or say in your answer what should be run. The user allows it with --yes."
)
NOBODY_FOR_WISH: Final = (
    "Not run: a rule or a hook of the user's wants them to be asked, and there is no terminal to ask on. Do not try it "
    "again. Go on without it, or say in your answer what should be run."
)
UNABLE: Final = "Not run: there was no way into the sandbox."
DECLINED: Final = "Not run: the user said no. Do not try it again; ask what to do instead, or go on without it."
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})
_ALWAYS: Final = frozenset({"a", "always"})


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that was not run."""

    call: ToolCall
    by: Literal["user", "nobody", "rule", "sandbox"]
    """`nobody`: there was nobody to ask. `sandbox`: there was no way into it."""
    wish: str = ""
    """Why a person had to be asked, where a rule or a hook wanted it: `--yes` is no answer to that."""
    rule: str | None = None
    """The rule that decided, with its place."""

    def to_dict(self) -> dict[str, object]:
        """Return `{tool, call_id, arguments, by, reason, rule}`, as `--json` prints it."""
        call = self.call.to_dict()
        reasons = {"user": DECLINED, "nobody": NOBODY_FOR_WISH if self.wish else NOBODY, "sandbox": UNABLE}
        return {
            "tool": call["name"],
            "call_id": call["id"],
            "arguments": call["arguments"],
            "by": self.by,
            "reason": reasons.get(self.by, f"Denied by {self.rule}"),
            "rule": self.rule,
        }


class Asking(Protocol):
    """Somebody who can be asked."""

    def ask(self, text: str, cancel: Cancel) -> str | None:
        """Show `text`, return the line that is typed after it; None when nobody answers any more."""


class Ground(Protocol):
    """What an approver needs of the session that it judges for."""

    def look(self, call: ToolCall, tool: Tool) -> Look:
        """Find where the paths of a call lead, and hold on to it."""
        ...

    def allow_outside(self, call: ToolCall, look: Look) -> None:
        """Let a call write where it led."""
        ...

    def is_fenced(self, tool: Tool) -> bool:
        """Say whether a call of this tool runs behind a fence, made and tried by now."""
        ...

    def knows(self, answer: Answer) -> bool:
        """Say whether a call was answered for good."""
        ...

    def remember(self, answer: Answer) -> None:
        """Answer a call for good."""
        ...


class RunApprover:
    """Judges the gated calls of one run; see `plait.engine.approval.Approver`."""

    def __init__(
        self,
        *,
        cancel: Cancel,
        ground: Callable[[], Ground],
        person: Asking | None,
        says_yes: bool = False,
        before_asking: Callable[[], object] = lambda: None,
        tell: Callable[[str], object] = lambda words: None,
    ) -> None:
        """Take the rules of a run.

        Args:
            cancel: ends a question that is still open.
            ground: returns the session, which begins after its approver.
            person: whom to ask; None denies what would have to be asked.
            says_yes: allow everything.
            before_asking: brings the screen up to date, so that the question is its last line.
            tell: says something to the user beside the run.
        """
        self.denials: list[Denial] = []
        self._cancel = cancel
        self._ground = ground
        self._person = person
        self._says_yes = says_yes
        self._before_asking = before_asking
        self._tell = tell

    @property
    def agrees_unseen(self) -> bool:
        """True where `--yes` agrees to a server's changed tool, because nobody is there to look at it."""
        return self._says_yes and self._person is None

    def approve(self, call: ToolCall, tool: Tool) -> Allow | Deny:
        """Allow or deny one call; raises `Interrupted` when the question is cut short."""
        return self._judge(call, tool, "")

    def would_ask(self, call: ToolCall, tool: Tool) -> bool:
        """Say whether this call is one to ask about."""
        look = self._ground().look(call, tool)
        look.close()
        return not self._is_free(call, tool, look)

    def approve_asked(self, call: ToolCall, tool: Tool, why: str) -> Allow | Deny:
        """Ask the user, because a rule or a hook wants it; without a user the answer is no, also with `--yes`."""
        return self._judge(call, tool, why or "a hook")

    def ruled(self, call: ToolCall, tool: Tool, rule: str) -> None:
        """Hear of a call that a rule denied."""
        self.denials.append(Denial(call, "rule", rule=rule))

    def _judge(self, call: ToolCall, tool: Tool, why: str) -> Allow | Deny:
        look = self._ground().look(call, tool)
        try:
            said = self._said(call, tool, look, why)
        except BaseException:
            look.close()
            raise
        if isinstance(said, Allow) and look.needs_leave:
            # The yes is to where it led when it was given, and not to wherever it may lead when it runs.
            self._ground().allow_outside(call, look)
        else:
            look.close()
        return said

    def _said(self, call: ToolCall, tool: Tool, look: Look, why: str) -> Allow | Deny:
        if self._is_answered(call, look, why) or (not why and self._is_free(call, tool, look)):
            return Allow(call)
        if self._person is None:
            return self._unanswered(call, why)
        self._before_asking()
        return self._ask(self._person, call, tool, look, why)

    def _is_free(self, call: ToolCall, tool: Tool, look: Look) -> bool:
        if self._says_yes or self._is_answered(call, look, ""):
            return True
        # What leads to a secret place is refused by the tool itself, whoever says yes.
        if tool.requires_approval:
            return False
        # Nor is anybody asked where the sandbox is around everything, and refuses a change whatever is said.
        is_free = not (tool.runs_code or (tool.mutates and look.needs_leave))
        return is_free or self._ground().is_fenced(tool)

    def _is_answered(self, call: ToolCall, look: Look, why: str) -> bool:
        return self._ground().knows(_answer(call, look, why))

    def _ask(self, person: Asking, call: ToolCall, tool: Tool, look: Look, why: str) -> Allow | Deny:
        from plait.cli.question import question, rule_for  # most runs ask nobody

        text = question(call, why, led=look.targets, tool=tool if tool.category == "mcp" else None)
        while True:
            line = person.ask(text, self._cancel)
            if self._cancel.reason is not None:
                raise Interrupted(self._cancel.reason)
            if line is None:
                return self._unanswered(call, why)
            answer = line.strip().lower()
            if answer in _ALWAYS:
                self._ground().remember(_answer(call, look, why))
                if (rule := rule_for(call)) is not None:
                    self._tell(f"in every session: plait permissions add {shlex.quote(rule)} --allow")
            if answer in _YES | _ALWAYS:
                return Allow(call)
            if answer in _NO:
                self.denials.append(Denial(call, "user", why))
                return Deny(DECLINED)
            text = "Please type y, n or a: "

    def _unanswered(self, call: ToolCall, why: str) -> Deny:
        self.denials.append(Denial(call, "nobody", why, why or None))
        return Deny(NOBODY_FOR_WISH if why else NOBODY)


def _answer(call: ToolCall, look: Look, why: str) -> Answer:
    return Answer.of(call, (led.real for led in look.targets), why)
