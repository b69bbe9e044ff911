"""The approver of the kernel face: a policy, and a person at a prompt for what it leaves open.

Floor: 4. Owns: the question on one line and the reading of its answer; never: a policy (`approval`), or a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from plait.core.messages import ToolCall
from plait.core.unseen import visible
from plait.engine.approval import Judge, decide, is_judged_low
from plait.kernel.tools import Tool

_YES: Final = ("y", "yes")


class CliApprover:
    """Asks at a prompt: only `y` and `yes` allow. No answer, or nobody there, is a no.

    Args:
        policy: what is decided without asking; see `decide`. With `smart` the judge is asked first.
        allowlist: tools and commands that run without a question.
        input_fn: shows a prompt and returns a line; EOFError is a no.
        output_fn: shows a notice.
        risk_judge: a `RiskJudge`; what it does not clearly call low is put to the person.
    """

    def __init__(
        self,
        policy: str = "always_ask",
        *,
        allowlist: Sequence[str] = (),
        input_fn: Callable[[str], str] = input,
        output_fn: Callable[[str], object] = print,
        risk_judge: Judge | None = None,
    ) -> None:
        self._policy = policy
        self._allowlist = tuple(allowlist)
        self._input = input_fn
        self._output = output_fn
        self._judge = risk_judge

    def approve(self, call: ToolCall, tool: Tool) -> bool:
        """Judge one call by the policy, and ask where that has no answer."""
        said = decide(self._policy, tool, call, self._allowlist)
        if said == "deny":
            self._output(f"[denied by the policy {self._policy}: {visible(call.name)}]")
        if said != "ask":
            return said == "allow"
        if self._policy == "smart" and is_judged_low(self._judge, call, tool):
            self._output(f"[judged low risk, and allowed: {_shown(call)}]")
            return True
        return self._asks(f"Approve {_shown(call)}? [y/N] ")

    def would_ask(self, call: ToolCall, tool: Tool) -> bool:
        """Say whether the policy leaves the call to somebody else."""
        return decide(self._policy, tool, call, self._allowlist) == "ask"

    def approve_asked(self, call: ToolCall, tool: Tool, why: str) -> bool:
        """Ask the person, whatever the policy is: a rule, a hook or a changed tool wants it."""
        first, *more = visible(why).split("\n")
        self._output(f"[you are asked because of {first}]")
        for line in more:
            self._output(f"  ~ {line}")
        return self._asks(f"Approve {_shown(call)}? [y/N] ")

    def approve_plan(self, calls: Sequence[ToolCall], tools: Sequence[Tool]) -> bool:
        """Judge all calls of an answer at once: one no is a no, and there is at most one question."""
        said = [decide(self._policy, tool, call, self._allowlist) for call, tool in zip(calls, tools, strict=True)]
        if "deny" in said:
            self._output(f"[plan denied by the policy {self._policy}]")
            return False
        if "ask" not in said:
            return True
        for number, call in enumerate(calls, 1):
            self._output(f"  {number}. {_shown(call)}")
        return self._asks("Approve entire plan? [y/N] ")

    def _asks(self, prompt: str) -> bool:
        if self._input is input:
            _forget_typed()
        try:
            return self._input(prompt).strip().lower() in _YES
        except EOFError:
            return False


def _forget_typed() -> None:
    """Throw away what was typed before the question could be read, where a person types."""
    with suppress(Exception):  # boundary: where there is no terminal there is nothing to throw away
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _shown(call: ToolCall) -> str:
    """Return a call on one line: all of it, with nothing in it that a terminal would obey."""
    data = call.to_dict()
    return visible(f"{call.name}({json.dumps(data['arguments'])})").replace("\n", " ")
