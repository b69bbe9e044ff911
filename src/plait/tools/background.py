"""The background shell: `nohup`, `nohup_query`, `nohup_wait`, and what a model reads of them.

Floor: 3. Owns: what is answered, how long is waited, what becomes of a call whose end nobody saw; never: a process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.messages import ToolResult
from plait.core.strict_json import dump
from plait.core.unseen import visible
from plait.core.values import dataclass
from plait.hands.capture import CaptureLimits
from plait.hands.command import RunOptions
from plait.kernel.tools import Recovery, Tool, ToolContext
from plait.tools.answer import Reply
from plait.tools.background_specs import (
    NOHUP_QUERY,
    NOHUP_TIMEOUT_MIN,
    NOHUP_WAIT,
    TIMEOUT_MAX_S,
    WAIT_FOR_MAX_SECONDS,
    WAIT_FOR_UNIT_SECONDS,
    nohup_with,
)
from plait.tools.board import OUTPUTS, Board, ending, shown_command
from plait.tools.job_names import JobNames
from plait.tools.kept_commands import NEVER, RESTARTED
from plait.tools.shell import Shell

if TYPE_CHECKING:
    from plait.hands.jobs import Job, JobState

ASYNC_FAST_THRESHOLD_S: Final = 0.1
"""What ends within this time is told at once."""
ASYNC_INLINE_MAX_BYTES: Final = 4_096
"""An output of a completed job that is no longer than this is told in full."""
TOLD: Final = "jobs_told"
"""Names in a result's data the jobs whose end the result tells."""
GRACE_S: Final = 30.0
"""Between TERM and KILL at the time limit."""
_OUTPUT_LIMITS: Final = CaptureLimits(head_bytes=0, tail_bytes=64 * 1024, spill_bytes_max=16 * 1024 * 1024)
_POLL_S: Final = 0.1
_FAST_POLL_S: Final = 0.01
_OTHERS_MAX: Final = 20
"""So many other jobs are named by one answer; the rest by the next."""
_LAST_LINES: Final = 3
_LAST_BYTES: Final = 2_048


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job as it was asked for."""

    command: str
    timeout_s: float
    wait_before_s: float

    @classmethod
    def of(cls, command: str, timeout: float | None, unit: str, wait_before_s: float) -> Wanted:
        """Check what was asked for. Raises `Refusal`."""
        timeout_s = NOHUP_TIMEOUT_MIN * 60.0 if timeout is None else _seconds(timeout, unit)
        if not 0 < timeout_s <= TIMEOUT_MAX_S:
            raise _wrong(f"a job cannot have {timeout_s:g} seconds", "give it more than 0 and at most a year")
        if not 0 <= wait_before_s <= WAIT_FOR_MAX_SECONDS:
            hint = f"wait_before_s is 0 to {WAIT_FOR_MAX_SECONDS} seconds"
            raise _wrong(f"a job cannot begin in {wait_before_s:g} seconds", hint)
        return cls(command, timeout_s, float(wait_before_s))


class Background:
    """The three tools over the jobs of one session. Safe in any thread.

    Every answer is one JSON object as text; what cannot be done is `{"error": …}`, and a failed call.
    """

    def __init__(self, shell: Shell, board: Board, grace_s: float = GRACE_S) -> None:
        """`board` holds the jobs; commands are run as those of `shell` are."""
        self.board = board
        self._shell = shell
        self._grace_s = grace_s
        self._names = JobNames(lambda: shell.fence)
        board.ended = self._names.told

    def tools(self, timeout_min: float = NOHUP_TIMEOUT_MIN) -> list[Tool]:
        """Return the three tools, for an agent that is given its tools; jobs have so many minutes unless told."""
        nohup = nohup_with(timeout_min).tool(self.nohup, recovery=self.recovery())
        return [
            with_default_timeout(nohup, timeout_min),
            NOHUP_QUERY.tool(self.query),
            NOHUP_WAIT.tool(self.wait),
        ]

    def nohup(
        self,
        command: str,
        timeout: float | None = None,
        unit: str = "m",
        wait_before_s: float = 0.0,
        call: ToolContext | None = None,
    ) -> Reply:
        """Start a command line and return at once, or nearly."""
        try:
            wanted = Wanted.of(command, timeout, unit, wait_before_s)
            intent = None if call is None or not self.board.is_kept else call.intent
            name = self.board.jobs.spool.new_name() if intent is None else str(intent["job"])
            return _behind(self._started(*self._start(name, wanted)), self._shell.level)
        except Refusal as refusal:
            return _refused(refusal)

    def query(self, tool_exec_id: str) -> Reply:
        """Say how a job stands."""
        try:
            job = self.board.job(tool_exec_id)
        except Refusal as refusal:
            return _refused(refusal, tool_exec_id=tool_exec_id)
        state = job.state()
        if state.phase == "scheduled":
            self.board.looked_elsewhere()
            return _answer(self._scheduled(job, state))
        if state.phase == "running" and self.board.asks_again(job):
            hint = f'wait for it: nohup_wait {{"tool_exec_id": "{job.id}", "howmuch": 60}}'
            # Advice, and no failure: nothing has gone wrong.
            return _answer({"error": "it still runs, as it did a moment ago", "hint": hint, "tool_exec_id": job.id})
        told: dict[str, object] = {"tool_exec_id": job.id, "completed": state.phase == "over"}
        files, sizes = self.board.files(job), {stream: self.board.size_bytes(job, stream) for stream in OUTPUTS}
        told |= {"returncode": None, **self.board.times(job, state), "cwd": job.terms.cwd, **files}
        told |= {
            "duration_time": self._so_far_s(state),
            "stdout_localfile_size": sizes["stdout"],
            "stderr_localfile_size": sizes["stderr"],
            # Programs know this one by the name that it was first given.
            "stderr_localfile_localsize": sizes["stderr"],
        }
        if state.phase != "over":
            return _answer(told)
        self.board.looked_elsewhere()
        self.board.tell([job.id])
        return _answer({**told, **ending(state), **self.board.ended(job), **self._inline(job)}, job.id)

    def wait(
        self, tool_exec_id: str, howmuch: float | None = None, unit: str = "s", call: ToolContext | None = None
    ) -> Reply:
        """Wait until a job has ended, the time is up, or somebody interrupts.

        Cancel: it returns at once; the job runs on.
        """
        try:
            budget_s = WAIT_FOR_MAX_SECONDS if howmuch is None else _seconds(howmuch, unit)
            if not 0 <= budget_s <= WAIT_FOR_MAX_SECONDS:
                hint = f"0 to {WAIT_FOR_MAX_SECONDS} seconds; wait again for more"
                raise _wrong(f"a wait cannot take {budget_s:g} seconds", hint)
            job = self.board.job(tool_exec_id)
        except Refusal as refusal:
            return _refused(refusal, tool_exec_id=tool_exec_id)
        self.board.looked_elsewhere()
        clock, cancel = self.board.clock, Cancel() if call is None else call.cancel
        began_s, interrupted_by = clock.monotonic_s(), ""
        while (state := job.state()).phase != "over" and not interrupted_by:
            left_s = began_s + budget_s - clock.monotonic_s()
            if left_s <= 0:
                break
            if self.board.is_interrupted():
                interrupted_by = "user_input"
            elif clock.sleep(min(_POLL_S, left_s), cancel):
                interrupted_by = cancel.reason or "cancel"
        return self._waited(job, state, clock.monotonic_s() - began_s, interrupted_by)

    def recovery(self) -> Recovery:
        """Return how `nohup` finds out whether it started its job: it is found, and never started twice."""

        def intend(keywords: Mapping[str, object], context: ToolContext) -> Mapping[str, object] | None:
            if not self.board.is_kept:
                return None
            jobs = self.board.jobs
            jobs.spool.prepare()
            level = self._shell.level
            told: dict[str, object] = {} if level is None else {"sandbox": level}
            return {"job": jobs.spool.new_name(), "boot": jobs.boot, **told}

        def settle(keywords: Mapping[str, object], context: ToolContext) -> Reply:
            if context.intent is None or not self.board.is_kept:
                raise Refusal("NOT_FOUND", "what became of the job is kept elsewhere", hint="")
            return _behind(
                self._settled(str(context.intent["job"]), str(context.intent["boot"])), context.intent.get("sandbox")
            )

        return Recovery(intend, settle)

    def close(self, *, keep_jobs: bool = False) -> None:
        """End what runs, unless it is to go on."""
        self.board.close(keep_jobs=keep_jobs)

    def _start(self, name: str, wanted: Wanted) -> tuple[Job, JobState]:
        board = self.board
        board.looked_elsewhere()
        made_at, before = board.clock.now_ms() / 1_000, self._names.before()
        job, state = board.jobs.start(
            name, wanted.command, self._options(wanted), wait_before_s=wanted.wait_before_s, made_at=made_at
        )
        self._names.keep(job, before)
        board.link(job)
        board.prune()
        return job, state

    def _started(self, job: Job, state: JobState) -> Reply:
        """Return what is told of a job that was just started, with its end when that comes at once."""
        if state.phase == "scheduled":
            return _answer(self._scheduled(job, state))
        clock = self.board.clock
        until_s = clock.monotonic_s() + ASYNC_FAST_THRESHOLD_S
        while state.phase == "running" and clock.monotonic_s() < until_s:
            clock.sleep(_FAST_POLL_S, Cancel())
            state = job.state()
        return self._told_of(job, state)

    def _told_of(self, job: Job, state: JobState) -> Reply:
        told: dict[str, object] = {"tool_exec_id": job.id, **self.board.times(job, state), "cwd": job.terms.cwd}
        told |= self.board.files(job)
        if state.phase != "over":
            return _answer(told)
        self.board.tell([job.id])
        return _answer(
            {**told, "completed": True, **ending(state), **self.board.ended(job), **self._inline(job)}, job.id
        )

    def _settled(self, name: str, boot: str) -> Reply:
        board = self.board
        entry = board.jobs.spool.entry(name)
        record = entry.read()
        if boot != board.jobs.boot and not record.is_safe:
            return ToolResult("", RESTARTED, status="unknown")
        if not record.began and not entry.is_held() and entry.withdraw():
            return ToolResult("", NEVER, data={"ok": False, "recovered": "not_run"}, status="cancelled")
        job = board.jobs.adopt(name)
        if job is None:
            raise Refusal("NOT_FOUND", "the job's terms are gone", hint="")
        board.link(job)
        state = job.state()
        return self._told_of(job, state) if state.phase != "scheduled" else _answer(self._scheduled(job, state))

    def _waited(self, job: Job, state: JobState, waited_s: float, interrupted_by: str) -> Reply:
        told: dict[str, object] = {"tool_exec_id": job.id, "completed": state.phase == "over"}
        ids = []
        if state.phase == "over":
            ids = [job.id]
            self.board.tell(ids)
            files = {name: path for name, path in self.board.files(job).items() if name != "stdin_localfile"}
            told |= {
                **ending(state),
                **self.board.ended(job),
                **files,
                "command": shown_command(job),
                **self._last_lines(job),
            }
            told |= self._inline(job)
        else:
            told |= {"waited_seconds": round(waited_s, 1), "activity": self.board.activity(job, state)}
            told["hint"] = "it runs on; wait again with nohup_wait, or do something else meanwhile"
            if state.phase == "scheduled":
                told |= {"scheduled": True, **self.board.times(job, state)}
            if interrupted_by:
                told["interrupted_by"] = interrupted_by
        others = self.board.take_untold(but=job.id, most=_OTHERS_MAX)
        if others:
            told["also_completed"] = others
        answer = _answer(told, *ids, *(str(other["tool_exec_id"]) for other in others))
        if interrupted_by and interrupted_by != "user_input":
            return ToolResult("", answer[0], data=answer[1], status="cancelled")
        return answer

    def _scheduled(self, job: Job, state: JobState) -> dict[str, object]:
        told = {"tool_exec_id": job.id, **self.board.times(job, state), "cwd": job.terms.cwd}
        return {**told, **self.board.files(job), "command": shown_command(job)}

    def _so_far_s(self, state: JobState) -> float:
        began = state.started_at
        return 0.0 if began is None else round(max(0.0, self.board.clock.now_ms() / 1_000 - began), 3)

    def _inline(self, job: Job) -> dict[str, object]:
        sizes = {stream: self.board.size_bytes(job, stream) for stream in OUTPUTS}
        return {
            stream: self.board.part(job, stream, 0, size)
            for stream, size in sizes.items()
            if size <= ASYNC_INLINE_MAX_BYTES
        }

    def _last_lines(self, job: Job) -> dict[str, object]:
        told: dict[str, object] = {}
        for stream in OUTPUTS:
            size = self.board.size_bytes(job, stream)
            text = self.board.part(job, stream, size - _LAST_BYTES, _LAST_BYTES)
            told[f"{stream}_last_lines"] = text.splitlines()[-_LAST_LINES:]
        return told

    def _options(self, wanted: Wanted) -> RunOptions:
        return RunOptions(
            cwd=self._shell.root,
            environment=self._shell.environment(),
            timeout_s=wanted.timeout_s,
            grace_s=self._grace_s,
            separates_errors=True,
            limits=_OUTPUT_LIMITS,
            mark=self.board.jobs.spool.mark,
            fence=self._shell.fence,
        )


def _behind(reply: Reply, level: object) -> Reply:
    """Return what is told of a job, with what its fence is made of, for programs."""
    return reply if level is None or isinstance(reply, ToolResult) else (reply[0], {**reply[1], "sandbox": level})


def completion_notice(completions: list[dict[str, object]]) -> str:
    """Return the text that tells of jobs which have ended while nobody waited for them; empty for none."""
    if not completions:
        return ""
    lines = [f"[background] {len(completions)} nohup execution(s) finished while you were not waiting for them:"]
    for done in completions:
        about = f"returncode {done['returncode']}"
        if done.get("timed_out"):
            about += " (its time was up)"
        if done.get("error"):
            about += f" ({done['error']})"
        lines += [
            f"- {done['tool_exec_id']}: {about}, after {done['duration_time']} s: {done['command']}",
            f"  stdout: {done['stdout_localfile']}  stderr: {done['stderr_localfile']}",
        ]
        if isinstance(made := done.get("made"), list):
            lines.append(f"  made: {', '.join(map(visible, made))}; {done['made_note']}")
    return "\n".join(lines)


def with_default_timeout(tool: Tool, minutes: float) -> Tool:
    """Return a `nohup` whose jobs have so many minutes unless a call says otherwise."""
    if minutes == NOHUP_TIMEOUT_MIN:
        return tool
    fn = tool.fn

    def nohup(
        command: str,
        timeout: float | None = None,
        unit: str = "m",
        wait_before_s: float = 0.0,
        call: ToolContext | None = None,
    ) -> Reply:
        times = (minutes, "m") if timeout is None else (timeout, unit)
        answer: Reply = fn(command, *times, wait_before_s, call)
        return answer

    nohup.__name__ = tool.python_function_name
    return replace(tool, fn=nohup)


def _seconds(amount: float, unit: str) -> float:
    if unit not in WAIT_FOR_UNIT_SECONDS:
        raise _wrong(f"no unit of time is called {unit!r}", f"the units are {', '.join(WAIT_FOR_UNIT_SECONDS)}")
    if not math.isfinite(amount):
        raise _wrong(f"{amount} is no length of time", "give a number")
    return amount * WAIT_FOR_UNIT_SECONDS[unit]


def _wrong(problem: str, hint: str) -> Refusal:
    return Refusal("INVALID_INPUT", problem, hint=hint)


def _answer(told: Mapping[str, object], *ended: str) -> tuple[str, dict[str, object]]:
    data = {TOLD: list(ended)} if ended else {}
    return dump(dict(told)), {**data}


def _refused(refusal: Refusal, **more: object) -> Reply:
    told: dict[str, object] = {"error": refusal.message, **({"hint": refusal.hint} if refusal.hint else {}), **more}
    return dump(told), {"ok": False, "error": refusal.message, "code": refusal.refusal, "status": refusal.status}
