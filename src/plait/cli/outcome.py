"""What a run came to: the object that `--json` prints, the usage line, the exit code.

Floor: 7. Owns: the keys of the JSON object and the rule that turns an outcome into an exit code; never: a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal

from plait.cli.approving import Denial
from plait.cli.exits import Exit, exit_of_error
from plait.core.errors import ApprovalDenied, PlaitError, ToolFault
from plait.core.usage import Usage
from plait.core.values import dataclass

Status = Literal["completed", "waiting", "interrupted", "limit", "error"]

_BY_STATUS: Final = {
    "completed": Exit.COMPLETED,
    "waiting": Exit.WAITING,
    "interrupted": Exit.INTERRUPTED,
    "limit": Exit.FAILED,
    "error": Exit.FAILED,
}


_ON_TERMINAL: Final = "run it again on a terminal to be asked"
_OR_YES: Final = "or with --yes to allow every call"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run, over."""

    status: Status
    reply: str | None = None
    error: PlaitError | None = None
    session_id: str | None = None
    steps: int = 0
    usage: Usage = field(default_factory=lambda: Usage.ZERO)
    duration_s: float = 0.0
    denials: Sequence[Denial] = ()
    structured: object = None
    signal_exit: int | None = None
    """128 plus the signal that stopped the run."""
    again: str = ""
    """The command that goes on with the session."""
    sandbox: Mapping[str, object] | None = None
    """`{mode, level, reason}` of the fence around its commands; None for a run that did not begin."""

    @property
    def unasked(self) -> Sequence[Denial]:
        """Calls that were not run because nobody could be asked."""
        return [denial for denial in self.denials if denial.by == "nobody"]

    @property
    def unfenced(self) -> Sequence[Denial]:
        """Calls that were not run because there was no way into the sandbox."""
        return [denial for denial in self.denials if denial.by == "sandbox"]

    @property
    def exit_code(self) -> int:
        """The exit code: never 0 when a call that the model asked for did not run for want of a yes or of a fence."""
        if self.status == "interrupted" and self.signal_exit is not None:
            return self.signal_exit
        if self.status == "error" and self.error is not None:
            return exit_of_error(self.error)
        if self.status == "completed" and (self.unasked or self.unfenced):
            return Exit.FAILED
        return _BY_STATUS[self.status]

    @property
    def problem(self) -> PlaitError | None:
        """What the user must be told beside the answer: the error, or that calls were not run."""
        if self.error is not None:
            return self.error
        if not self.unasked:
            return self._no_way_in()
        return ApprovalDenied(
            f"{_calls(len(self.unasked))} not run: nobody could be asked for approval",
            hint=_ON_TERMINAL if all(denial.wish for denial in self.unasked) else f"{_ON_TERMINAL}, {_OR_YES}",
        )

    def _no_way_in(self) -> PlaitError | None:
        if not self.unfenced:
            return None
        names = ", ".join(sorted({denial.call.name for denial in self.unfenced}))
        return ToolFault(
            f"{_calls(len(self.unfenced))} not run: no way into the sandbox for {names}",
            hint="a tool of your own needs Tool(sandbox=...); for others see plait doctor sandbox",
        )

    def to_dict(self) -> dict[str, object]:
        """Return the object that `--json` prints."""
        return {
            "status": self.status,
            "reply": self.reply,
            "error": None if self.problem is None else self.problem.to_dict(),
            "session_id": self.session_id,
            "steps": self.steps,
            "usage": {
                "input": self.usage.input,
                "output": self.usage.output,
                "cached": self.usage.cache_read,
                "cache_write": self.usage.cache_write,
            },
            "cost": self._cost(),
            "duration_s": round(self.duration_s, 3),
            "denials": [denial.to_dict() for denial in self.denials],
            "structured": self.structured,
            "sandbox": None if self.sandbox is None else dict(self.sandbox),
        }

    def _cost(self) -> float | None:
        """Return what it cost; nothing was asked, so nothing is known, where no token was counted."""
        return None if self.usage.cost is None or self.usage == Usage.ZERO else float(self.usage.cost)

    def summary(self) -> str:
        """Return steps, tokens, cached share and time as one line."""
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return ", ".join([steps, *_tokens(self.usage), f"{self.duration_s:.1f} s"])


def _calls(count: int) -> str:
    return "1 call was" if count == 1 else f"{count} calls were"


def failed(error: PlaitError) -> dict[str, object]:
    """Return the object for a run that ended before its first request."""
    return Outcome("error", error=error, usage=Usage.ZERO).to_dict()


def failed_usage(message: str, advice: str) -> dict[str, object]:
    """Return the object for a command line that could not be read."""
    error = {"class": "UsageError", "code": "usage", "message": message, "advice": advice}
    return {**Outcome("error").to_dict(), "error": error}


def _tokens(usage: Usage) -> list[str]:
    if usage.input is None and usage.output is None:
        return ["tokens not reported"]
    read = "? tokens in" if usage.input is None else f"{usage.input:,} tokens in"
    if usage.cache_read is not None and usage.input:
        read += f" ({100 * usage.cache_read / usage.input:.0f} % from the cache)"
    parts = [read, "? out" if usage.output is None else f"{usage.output:,} out"]
    return parts if not usage.cost else [*parts, f"{usage.cost.normalize():f} {usage.currency}"]
