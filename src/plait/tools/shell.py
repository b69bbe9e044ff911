"""The shell: one command line, run to its end, and what a model reads of it.

Floor: 3. Owns: what the command is given and how its end is told; never: processes, pipes and signals.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.messages import ToolResult
from plait.core.values import dataclass
from plait.hands.capture import Captured, CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.environment import child_environment
from plait.hands.process import run
from plait.hands.process_tree import stop_marked
from plait.hands.text import join_ends, marker
from plait.kernel.tools import Recovery, ToolContext
from plait.tools.answer import FAILURE, Reply
from plait.tools.kept_commands import LOST, KeptCommands, KeptIntent, recovered
from plait.tools.redaction import Redaction
from plait.tools.rtk import Rtk
from plait.tools.spill import Spill, where

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence
    from plait.hands.fence.late import LateFence

OnText = Callable[[str], None]
"""Takes each piece of a command's output as it comes, in a thread of the command's own; may not raise."""

TIMED_OUT: Final = 124
"""The exit code that stands for a time limit, as coreutils' `timeout` has it."""
_SIGNALLED: Final = 128
_KEPT_WHOLE_BYTES: Final = 64 << 20
_NOTES_CHARS: Final = 400
_HUGE: Final = 10**12
_LEVEL: Final = "sandbox"
"""Where results, and what is recorded before a command, say which fence it has."""


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """How commands are run."""

    timeout_s: float = 120.0
    timeout_max_s: float = 3_600.0
    chars_max: int = 32_000
    """Size of a result; 0 is no limit."""
    environment: Mapping[str, str] | None = None
    """What commands may see before credentials are taken out; None is this process's own, at the time of the call."""
    keep: Collection[str] = ()
    """Names of credentials that commands may see all the same."""
    output: OnText | None = None
    grace_s: float = 2.0
    """How long a command that is stopped has to end by itself."""
    rtk: Rtk | None = None
    """Rewrites command lines before they run."""
    redaction: Redaction | None = None
    """Takes secrets out of what is shown as it comes, and of the ends of what is cut."""
    fence: Fence | None = None
    """Stands around every command and every background job."""
    late_fence: LateFence | None = None
    """The same where one can be made; otherwise they run without, and their results say so."""
    fence_advice: str = ""
    """What a model is told that has met the fence: how its user could allow more."""


@dataclass(eq=False)
class Shell:
    """Runs command lines in one directory. Safe in any thread."""

    root: str
    options: ShellOptions
    spill: Spill
    own_mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Carried by what is started here and is not kept, so that it can be found again at the end of the session."""
    has_run: threading.Event = field(default_factory=threading.Event)
    """Set once something was started that is not kept."""
    kept: KeptCommands | None = None
    """Where commands run that outlive this process; without it they run here, and nobody knows their end after it."""

    def exec_shell(self, command: str, timeout_s: float | None = None, context: ToolContext | None = None) -> Reply:
        """Run a command line; its two streams are one. A failing command is an answer, not a failure."""
        limit_s = self._limit_s(timeout_s)
        return self._told(self._run(command, limit_s, context, separates_errors=False), limit_s, self.level)

    def bash(self, command: str, timeout_s: float | None = None, context: ToolContext | None = None) -> Reply:
        """Run a command line; its errors come in a section of their own, and a failing command has failed."""
        limit_s = self._limit_s(timeout_s)
        return self._told(self._run(command, limit_s, context, separates_errors=True), limit_s, self.level)

    def recovery(self, *, separates_errors: bool) -> Recovery:
        """Return how `exec_shell` or (with errors apart) `bash` finds out what became of a command."""

        def intend(keywords: Mapping[str, object], context: ToolContext) -> Mapping[str, object] | None:
            timeout_s = keywords.get("timeout_s")
            limit_s = self._limit_s(None if timeout_s is None else float(str(timeout_s)))
            intent = None if self.kept is None else self.kept.intend(limit_s)
            return intent if intent is None or self.level is None else {**intent, _LEVEL: self.level}

        def settle(keywords: Mapping[str, object], context: ToolContext) -> Reply:
            kept = self.kept
            if kept is None or context.intent is None:
                raise Refusal("NOT_FOUND", "what became of the command is kept elsewhere", hint="")
            intent = KeptIntent.from_dict(context.intent)
            # It has the fence that it began with, or none; the one of today is not looked for.
            options = self._run_options(intent.timeout_s, kept.mark, None, separates_errors=separates_errors)
            with self._live(options) as options:
                done = kept.settle(intent, options, context.cancel)
            if isinstance(done, ToolResult):
                return done
            level = context.intent.get(_LEVEL)
            return recovered(self._told(done, intent.timeout_s, None if level is None else str(level)))

        return Recovery(intend, settle)

    def close(self, grace_s: float = 0.5, *, keep_jobs: bool = False) -> None:
        """End what commands have left running, those of an earlier process too where it was taken over."""
        if self.has_run.is_set() and not keep_jobs:
            stop_marked(self.own_mark, grace_s)
        if self.kept is not None and self.kept.is_taken_over and not keep_jobs:
            stop_marked(self.kept.mark, grace_s)
        if self.kept is not None:
            self.kept.close()

    @property
    def fence(self) -> Fence | None:
        """What stands around a command that is started now; one that comes late is made now.

        Raises `Refusal` where the workspace is in its way.
        """
        late = self.options.late_fence
        if late is None:
            return self.options.fence
        fence = late.found()
        if late.is_barred:
            raise Refusal("FORBIDDEN", late.reason, hint=late.advice)
        return fence

    @property
    def level(self) -> str | None:
        """What the fence is made of; None where none was wanted."""
        fence, is_wanted = self.fence, self.options.late_fence is not None
        return fence.level if fence is not None else "none" if is_wanted else None

    def environment(self) -> dict[str, str]:
        """Return what a command sees that is started now."""
        return self._environment(self.fence)

    def _environment(self, fence: Fence | None) -> dict[str, str]:
        base = os.environ if self.options.environment is None else self.options.environment
        seen = child_environment(base, keep=self.options.keep)
        return seen if fence is None else fence.environment(seen)

    def rewritten(self, command: str) -> str:
        """Return the command line that runs in place of another, where the user has asked for that."""
        rtk = self.options.rtk if self.fence is None else None  # inside, there is no rtk
        return command if rtk is None else rtk.rewritten(command, self.root, self.environment())

    def _limit_s(self, timeout_s: float | None) -> float:
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        if not 0 < limit_s <= self.options.timeout_max_s:
            raise Refusal(
                "INVALID_INPUT",
                f"a time limit of {limit_s:g} s is not possible",
                hint=f"give more than 0 and at most {self.options.timeout_max_s:g} seconds",
            )
        return limit_s

    def _run(self, command: str, limit_s: float, context: ToolContext | None, *, separates_errors: bool) -> Finished:
        def run_it() -> Finished:
            return self._run_unwatched(command, limit_s, context, separates_errors=separates_errors)

        if (fence := self.fence) is None:
            return run_it()
        from plait.tools.fencing import watched

        return watched(fence, run_it, self.options.fence_advice)

    def _run_unwatched(
        self, command: str, limit_s: float, context: ToolContext | None, *, separates_errors: bool
    ) -> Finished:
        cancel: Cancel | None = None if context is None else context.cancel
        line = Command.shell(self.rewritten(command))
        intent = None if context is None or self.kept is None else context.intent
        if intent is None or self.kept is None:
            self.has_run.set()
            options = self._run_options(limit_s, self.own_mark, self.fence, separates_errors=separates_errors)
            with self._live(options) as options:
                return run(line, options, cancel)
        options = self._run_options(limit_s, self.kept.mark, self.fence, separates_errors=separates_errors)
        with self._live(options) as options:
            return self.kept.run(line, options, KeptIntent.from_dict(intent), cancel)

    @contextmanager
    def _live(self, options: RunOptions) -> Iterator[RunOptions]:
        """Yield the options with somebody who is shown the output as it comes, without secrets; where there is one."""
        output, redaction = self.options.output, self.options.redaction
        if output is None:
            yield options
        elif redaction is None:
            yield replace(options, on_output=lambda text, _stream: output(text))
        else:
            shown = {name: redaction.stream(output) for name in ("stdout", "stderr")}
            try:
                yield replace(options, on_output=lambda text, name: shown[name].write(text))
            finally:
                for each in shown.values():
                    each.close()

    def _run_options(self, limit_s: float, mark: str, fence: Fence | None, *, separates_errors: bool) -> RunOptions:
        options = self.options
        paths = [self.spill.new_path() for _ in range(2 if separates_errors else 1)]
        return RunOptions(
            cwd=self.root,
            environment=self._environment(fence),
            timeout_s=limit_s,
            grace_s=options.grace_s,
            separates_errors=separates_errors,
            limits=self._capture_limits(len(paths), paths[0]),
            spill_path=paths[0],
            errors_spill_path=paths[-1],
            mark=mark,
            fence=fence,
            # A fence ends with its command; nothing is left of it once its result is told.
            leftovers="leave" if fence is None else "kill",
        )

    def _capture_limits(self, streams: int, spill_path: str | None) -> CaptureLimits:
        if self.options.chars_max <= 0:
            return CaptureLimits(head_bytes=_KEPT_WHOLE_BYTES, tail_bytes=_KEPT_WHOLE_BYTES)
        notes = _NOTES_CHARS + len(marker(_HUGE, where(spill_path)))
        half = max(1, (self.options.chars_max // streams - notes) // 2)
        return CaptureLimits(head_bytes=half, tail_bytes=half)

    def _told(self, done: Finished, limit_s: float, level: str | None) -> Reply:
        """Return what a model reads of a command; one whose errors were kept apart has failed when it exits so."""
        sections = [self._shown(done.output)]
        if done.errors is not None and done.errors.total_bytes:
            sections.append(f"[stderr]\n{self._shown(done.errors)}")
        return self._answer(done, limit_s, sections, level)

    def _shown(self, output: Captured) -> str:
        hint = where(output.spill_path)
        if output.spill_path and not output.is_spill_whole:
            hint = f"the first part of it is in {output.spill_path}: open it with read_file"
        if self.options.redaction is None or not output.is_truncated:
            return output.bounded(hint).text.rstrip("\n")
        head, tail = self.options.redaction.ends(output.head, output.tail)
        return join_ends(head, tail, output.dropped_bytes, hint=hint).text.rstrip("\n")

    def _answer(self, done: Finished, limit_s: float, sections: list[str], level: str | None) -> Reply:
        exit_code, fails_on_exit = _exit_code(done), done.errors is not None
        lines = [section for section in sections if section]
        if not lines and exit_code == 0:
            lines.append("(no output)")
        if exit_code != 0 and not done.cancelled:
            lines.append(f"[exit code {'unknown' if exit_code is None else exit_code}]")
        if done.leftover is not None:
            lines.append("[a background process goes on; what it prints from now on is lost]")
        if done.note:
            lines.append(done.note)
        data = self._data(done, exit_code, level)
        if done.timed_out:
            advice = f"Give it more time with timeout_s (at most {self.options.timeout_max_s:g}), or less to do."
            lines.insert(
                0,
                f"{FAILURE}The command timed out after {limit_s:g} s and was stopped with all it had started. {advice}",
            )
            data |= {"ok": False, "error": f"timed out after {limit_s:g} s", "code": "TIMEOUT"}
        elif done.end == "lost":
            return ToolResult("", "\n".join((LOST, *lines)), data=data | {"ok": False}, status="unknown")
        elif done.cancelled:
            text = "\n".join((f"{FAILURE}The command was cancelled.", *lines))
            data |= {"ok": False, "error": "the command was cancelled", "code": "CANCELLED"}
            return ToolResult("", text, data=data, status="cancelled")
        elif fails_on_exit and exit_code != 0:
            data |= {"ok": False, "error": f"exit code {exit_code}"}
        return "\n".join(lines), data

    def _data(self, done: Finished, exit_code: int | None, level: str | None) -> dict[str, object]:
        data: dict[str, object] = {
            "exit_code": exit_code,
            "duration_s": round(done.duration_s, 3),
            "streamed": self.options.output is not None,
        }
        if level is not None:
            data[_LEVEL] = level
        kept = [output for output in (done.output, done.errors) if output is not None and output.is_truncated]
        if kept:
            data |= {"truncated": True, "spill": kept[0].spill_path}
        if done.signal is not None:
            data["signal"] = done.signal
        return data


def _exit_code(done: Finished) -> int | None:
    """The exit code as a shell would report it; None for a command that never ran or whose end nobody saw."""
    if done.timed_out:
        return TIMED_OUT
    return _SIGNALLED + done.signal if done.signal is not None else done.exit_code
