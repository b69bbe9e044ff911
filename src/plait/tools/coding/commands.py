"""Running programs by the strict rules: an alias and an argument list, a given environment, bounded everything.

Floor: 3. Owns: what may be run and what is answered; never: processes.
"""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from plait.core.errors import Refusal
from plait.core.messages import ToolResult
from plait.core.values import dataclass
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command as Argv, Finished, RunOptions
from plait.hands.process import run
from plait.kernel.tools import Recovery, ToolContext
from plait.tools.answer import Answer, Reply, refused
from plait.tools.coding.artifacts import ArtifactStore
from plait.tools.coding.limits import CodingLimits, Command
from plait.tools.coding.permission import Permission
from plait.tools.kept_commands import LOST, KeptCommands, KeptIntent, recovered

_TOLD: Final = frozenset({"INVALID_INPUT", "TOO_LARGE", "UNSUPPORTED_PLATFORM"})
"""Why a command did not start, where that says nothing of the host."""
_OLD_S: Final = 7 * 86_400.0
"""How long the end of a command is kept that a killed host has not asked for."""


@dataclass(frozen=True, slots=True)
class CodingCommands:
    """The strict execution tool. The workspace bounds paths; a program that was allowed is not bound by it."""

    root: str
    permission: Permission
    limits: CodingLimits
    commands: Mapping[str, Command]
    environment: Mapping[str, str]
    artifacts: ArtifactStore | None
    kept: KeptCommands | None = None
    """Where commands run that outlive this process."""

    def run_command(
        self,
        command: str,
        args: list[str] | None = None,
        timeout_s: float | None = None,
        *,
        call: ToolContext | None = None,
    ) -> Reply:
        """Run one of the commands that the host has named."""
        given = list(args or ())
        argv, limit_s = self._argv(command, given), self._limit_s(given, timeout_s)
        self.permission.require("run_command", command=command, args=given, timeout_s=limit_s)
        intent = None if call is None or self.kept is None else call.intent
        with tempfile.TemporaryDirectory(prefix="plait-output-") as folder:
            options = self._options(limit_s, folder, "" if self.kept is None else self.kept.mark)
            try:
                if intent is None or self.kept is None:
                    done = run(argv, options, None if call is None else call.cancel)
                else:
                    cancel = None if call is None else call.cancel
                    done = self.kept.run(argv, options, KeptIntent.from_dict(intent), cancel)
            except Refusal as refusal:
                raise self._scrubbed(command, refusal) from refusal
            return self._answer(done, limit_s, "" if call is None else call.call_id)

    def recovery(self) -> Recovery | None:
        """Return how it is found out what became of a command whose end nobody saw; None where nothing is kept."""
        kept = self.kept
        if kept is None:
            return None

        def intend(keywords: Mapping[str, object], _call: ToolContext) -> Mapping[str, object] | None:
            given, timeout_s = keywords.get("args"), keywords.get("timeout_s")
            args = [str(each) for each in given] if isinstance(given, (list, tuple)) else []
            return kept.intend(self._limit_s(args, None if timeout_s is None else float(str(timeout_s))))

        def settle(_keywords: Mapping[str, object], call: ToolContext) -> Reply:
            if call.intent is None:
                raise Refusal("NOT_FOUND", "what became of the command is kept elsewhere", hint="")
            intent = KeptIntent.from_dict(call.intent)
            with tempfile.TemporaryDirectory(prefix="plait-output-") as folder:
                done = kept.settle(intent, self._options(intent.timeout_s, folder, kept.mark), call.cancel)
                if isinstance(done, ToolResult):
                    return done
                try:
                    return recovered(self._answer(done, intent.timeout_s, call.call_id))
                except Refusal as refusal:
                    return recovered(refused(refusal))

        return Recovery(intend, settle)

    def _argv(self, command: str, args: list[str]) -> Argv:
        known = self.commands.get(command)
        if known is None:
            names = ", ".join(sorted(self.commands)) or "none"
            raise Refusal("NOT_FOUND", f"no command is named {command!r}", hint=f"the commands are: {names}")
        return Argv((known.executable, *known.arguments, *args))

    def _options(self, limit_s: float, folder: str, mark: str) -> RunOptions:
        half, kept_max = self.limits.output_bytes // 2, self.limits.kept_bytes
        keeps = self.artifacts is not None
        return RunOptions(
            cwd=self.root,
            environment=self.environment,
            timeout_s=limit_s,
            grace_s=self.limits.termination_grace_s,
            leftovers="kill",
            limits=CaptureLimits(half, half, kept_max),
            spill_path=os.path.join(folder, "output") if keeps else None,
            output_bytes_max=kept_max if keeps else self.limits.output_bytes,
            mark=mark,
        )

    def _limit_s(self, args: list[str], timeout_s: float | None) -> float:
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
        if refusal.refusal in _TOLD:
            message = refusal.message.replace(self.commands[command].executable, command)
            return Refusal(refusal.refusal, message, hint=refusal.hint)
        return Refusal("INTERNAL_SERVER_ERROR", f"the command {command!r} could not be started", hint="tell the user")

    def _answer(self, done: Finished, limit_s: float, origin: str) -> Answer | ToolResult:
        reference = self._kept(done, origin)
        hint = f"read_output gives all of it: {reference}" if reference else "the rest was not kept"
        text = done.output.bounded(hint).text.rstrip("\n")
        data: dict[str, object] = {
            "exit_code": done.exit_code,
            "signal": done.signal,
            "end": done.end,
            "duration_s": round(done.duration_s, 3),
            "truncated": done.output.is_truncated,
            **({"reference": reference} if reference else {}),
        }
        if done.end == "lost":
            return ToolResult("", LOST, data={**data, "ok": False}, status="unknown")
        if done.end == "timed_out":
            raise Refusal("TIMEOUT", f"the command was stopped after {limit_s:g} s", hint=_so_far(text), details=data)
        if done.end == "cancelled":
            raise Refusal("CANCELLED", "the command was cancelled", hint=_so_far(text), details=data)
        if done.end == "overflowed":
            raise Refusal("TOO_LARGE", "the command printed too much and was stopped", hint=_so_far(text), details=data)
        lines = [line for line in (text, done.note) if line]
        if done.exit_code != 0:
            ended = f"[exit code {done.exit_code}]" if done.signal is None else f"[ended by signal {done.signal}]"
            lines.append(ended)
        return "\n".join(lines) or "(no output)", data

    def _kept(self, done: Finished, origin: str) -> str | None:
        """Give an output that was too long to show to the store, and return its name there."""
        if self.artifacts is None or done.output.spill_path is None:
            return None
        try:
            with open(done.output.spill_path, "rb") as source:
                return self.artifacts.put(source, origin)
        except OSError:
            return None


def _so_far(text: str) -> str:
    return f"it had printed:\n{text}" if text else "it had printed nothing"


def over(spool: str | os.PathLike[str]) -> KeptCommands | None:
    """Return the commands that outlive this process, with their ends in a folder; none is started ahead of its call."""
    kept = KeptCommands.over(spool)
    if kept is None:
        return None
    kept = replace(kept, starts_ahead=False)
    with suppress(OSError):  # where it cannot be made nothing is kept, and no call makes it before it is allowed
        kept.spool.prepare()
    kept.sweep([name for name in kept.spool.names() if not _is_old(kept.spool.entry(name).folder)])
    # At the end of the process nothing is closed: what runs then goes on, and leaves its end.
    weakref.finalize(kept, kept.launcher.close).atexit = False
    return kept


def _is_old(folder: str) -> bool:
    """Say whether nothing has happened in an entry for so long that nobody will ask for it any more."""
    try:
        return time.time() - os.stat(folder).st_mtime > _OLD_S
    except OSError:
        return False
