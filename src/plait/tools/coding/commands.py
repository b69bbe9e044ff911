"""Running programs by the strict rules: an alias and an argument list, a given environment, bounded everything.

Floor: 3. Owns: what may be run and what is answered; never: processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plait.core.errors import Refusal
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command as Argv, Finished, RunOptions
from plait.hands.process import run
from plait.hands.reading import Window, read_lines
from plait.hands.workspace import Workspace
from plait.kernel.tools import ToolContext
from plait.tools.answer import Answer
from plait.tools.coding.limits import CodingLimits, Command
from plait.tools.coding.permission import Permission
from plait.tools.files import shown_lines
from plait.tools.spill import Spill

_REFERENCE: Final = re.compile(r"output-[0-9a-f]{12}\.txt")


@dataclass(frozen=True, slots=True)
class CodingCommands:
    """The strict execution tools. The workspace bounds paths; a program that was allowed is not bound by it."""

    workspace: Workspace
    permission: Permission
    limits: CodingLimits
    commands: Mapping[str, Command]
    environment: Mapping[str, str]
    artifacts: Spill | None

    def run_command(
        self,
        command: str,
        args: list[str] | None = None,
        timeout_s: float | None = None,
        call: ToolContext | None = None,
    ) -> Answer:
        """Run one of the commands that the host has named."""
        known = self.commands.get(command)
        if known is None:
            names = ", ".join(sorted(self.commands)) or "none"
            raise Refusal("NOT_FOUND", f"no command is named {command!r}", hint=f"the commands are: {names}")
        given = list(args or ())
        limit_s = self._check(given, timeout_s)
        self.permission.require("run_command", command=command, args=given, timeout_s=limit_s)
        path = None if self.artifacts is None else self.artifacts.new_path()
        options = RunOptions(
            cwd=str(self.workspace.root),
            environment=self.environment,
            timeout_s=limit_s,
            grace_s=self.limits.termination_grace_s,
            leftovers="kill",
            limits=CaptureLimits(self.limits.output_bytes // 2, self.limits.output_bytes // 2, self.limits.kept_bytes),
            spill_path=path,
            output_bytes_max=self.limits.output_bytes if path is None else self.limits.kept_bytes,
        )
        try:
            done = run(
                Argv((known.executable, *known.arguments, *given)), options, None if call is None else call.cancel
            )
        except Refusal as refusal:
            raise self._scrubbed(command, refusal) from refusal
        return self._answer(done, limit_s)

    def read_output(self, reference: str, offset: int = 1, limit: int | None = None) -> Answer:
        """Return lines of an output that was too long to show."""
        lines_max = self.limits.read_lines if limit is None else min(limit, self.limits.read_lines)
        window = Window(offset, lines_max, self.limits.read_bytes)
        window.check()
        self.permission.require("read_output", reference=reference, offset=offset, limit=lines_max)
        opened = self.artifacts.open(reference) if self.artifacts and _REFERENCE.fullmatch(reference) else None
        if opened is None:
            raise Refusal(
                "SPILL_REFERENCE_UNKNOWN", f"no output is kept as {reference!r}", hint="run the command again"
            )
        with opened:
            lines = read_lines(opened, window)
        return shown_lines(lines), {"total_lines": lines.total_lines, "truncated": lines.has_more}

    def _check(self, args: list[str], timeout_s: float | None) -> float:
        size = sum(len(argument.encode("utf-8", "surrogatepass")) for argument in args)
        if len(args) > self.limits.arguments or size > self.limits.argument_bytes:
            raise Refusal(
                "TOO_LARGE",
                f"{len(args)} arguments of {size} bytes are too much",
                hint=f"give up to {self.limits.arguments} arguments of {self.limits.argument_bytes} bytes together",
            )
        limit_s = self.limits.shell_timeout_s if timeout_s is None else timeout_s
        if not 0 < limit_s <= self.limits.shell_timeout_s:
            raise Refusal(
                "INVALID_INPUT",
                f"a time limit of {limit_s:g} s is not possible",
                hint=f"give more than 0 and at most {self.limits.shell_timeout_s:g} seconds",
            )
        return limit_s

    def _scrubbed(self, command: str, refusal: Refusal) -> Refusal:
        """Say what the model can act on; where the host keeps its programs is nobody's business."""
        if refusal.refusal in {"INVALID_INPUT", "TOO_LARGE", "UNSUPPORTED_PLATFORM"}:
            message = refusal.message.replace(self.commands[command].executable, command)
            return Refusal(refusal.refusal, message, hint=refusal.hint)
        return Refusal("INTERNAL_SERVER_ERROR", f"the command {command!r} could not be started", hint="tell the user")

    def _answer(self, done: Finished, limit_s: float) -> Answer:
        reference = (done.output.spill_path or "").rpartition("/")[2]
        hint = f"read_output gives all of it: {reference}" if reference else "the rest was not kept"
        text = done.output.bounded(hint).text.rstrip("\n")
        data: dict[str, object] = {
            "exit_code": done.exit_code,
            "signal": done.signal,
            "end": done.end,
            "duration_s": round(done.duration_s, 3),
            "truncated": done.output.is_truncated,
        }
        if reference:
            data["reference"] = reference
        if done.end == "timed_out":
            raise Refusal("TIMEOUT", f"the command was stopped after {limit_s:g} s", hint=_so_far(text), details=data)
        if done.end == "cancelled":
            raise Refusal("CANCELLED", "the command was cancelled", hint=_so_far(text), details=data)
        if done.end == "overflowed":
            raise Refusal("TOO_LARGE", "the command printed too much and was stopped", hint=_so_far(text), details=data)
        ending = f"[exit code {done.exit_code}]" if done.signal is None else f"[ended by signal {done.signal}]"
        lines = [text] if text else []
        if done.exit_code != 0:
            lines.append(ending)
        return "\n".join(lines) or "(no output)", data


def _so_far(text: str) -> str:
    return f"it had printed:\n{text}" if text else "it had printed nothing"
