"""One hook run to its end: a command with its payload on stdin, or a function with it as an argument.

Floor: 3. Owns: what a hook is given and how its end is taken down; never: what it means (`verdict`), or waiting for it.
"""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.strict_json import JsonInvalid, dump, text_of
from plait.core.values import dataclass
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.environment import child_environment
from plait.hands.fence.policy import is_beneath
from plait.hands.process import run
from plait.hooks.decision import RawHookResult
from plait.hooks.entry import HookBlock, HookEntry, HookHandler

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence

GRACE_S: Final = 0.25
"""Between asking a command to end and killing it, when its time is up."""
_NOT_STARTED: Final = (126, 127)
_HIDDEN: Final = "(it ran in the sandbox, where only what its read_only_paths name is visible, and no home)"
_KEPT_BYTES: Final = 1 << 20
_LIMITS: Final = CaptureLimits(head_bytes=_KEPT_BYTES, tail_bytes=0)


@dataclass(frozen=True, slots=True)
class Ground:
    """Where commands of hooks run."""

    cwd: str
    project: str
    """The root of the project, which hooks know as `CLAUDE_PROJECT_DIR` and `PLAIT_PROJECT_DIR`."""
    mark: str
    """Carried by everything that they start, so that it is found at the end of the session."""
    environment: Mapping[str, str] | None = None
    """What they may see before credentials are taken out; None is this process's own."""
    fence: Fence | None = None
    """Stands around each of them, as around the commands of the model."""

    def variables(self) -> dict[str, str]:
        """Return the environment of a command."""
        own = {"CLAUDE_PROJECT_DIR": self.project, "PLAIT_PROJECT_DIR": self.project}
        seen = child_environment(os.environ if self.environment is None else self.environment, **own)
        return seen if self.fence is None else self.fence.environment(seen)


def run_hook(entry: HookEntry, payload: Mapping[str, Any], ground: Ground, cancel: Cancel) -> RawHookResult:
    """Run one hook and return how it ended; never raises for what a hook does.

    Cancel: a command is stopped with all that it started; a function goes on, and whoever waits for it gives it up.
    """
    why = "" if entry.guard is None else entry.guard()
    if why:
        return RawHookResult(None, failure=why)
    if entry.fn is not None:
        return run_function(entry.fn, payload)
    return run_command(entry, payload, ground, cancel)


def run_command(entry: HookEntry, payload: Mapping[str, Any], ground: Ground, cancel: Cancel) -> RawHookResult:
    """Run a hook's command; see `run_hook`."""
    assert entry.command is not None
    command, fence = _command_of(entry), ground.fence
    if fence is not None and entry.args is not None:
        command, fence = _shown(command, fence, ground)
    options = RunOptions(
        cwd=ground.cwd,
        environment=ground.variables(),
        input=dump(dict(payload)).encode() + b"\n",
        timeout_s=entry.limit_s,
        grace_s=GRACE_S,
        separates_errors=True,
        limits=_LIMITS,
        mark=ground.mark,
        fence=fence,
    )
    try:
        raw = _raw(run(command, options, cancel), entry.limit_s)
        return raw if fence is None or raw.exit_code not in _NOT_STARTED else _advised(raw)
    except Refusal as refusal:
        return RawHookResult(None, failure=f"it could not be started: {refusal.message}")


def _command_of(entry: HookEntry) -> Command:
    assert entry.command is not None
    if entry.args is None:
        return Command.shell(entry.command)
    return Command((os.path.expanduser(entry.command), *entry.args))


def _shown(command: Command, fence: Fence, ground: Ground) -> tuple[Command, Fence]:
    """Return a program that its user has chosen, and the fence with that one file visible in it."""
    program, *rest = command.argv
    place = os.path.normpath(os.path.join(ground.cwd, program))
    if not os.path.dirname(program) or not os.path.isfile(place) or is_beneath(place, fence.policy.root):
        return command, fence
    real = os.path.realpath(place)
    return Command((real, *rest)), fence.showing(real)


def _advised(raw: RawHookResult) -> RawHookResult:
    return replace(raw, stderr="\n".join(filter(None, (raw.stderr.rstrip(), _HIDDEN))))


def _raw(finished: Finished, limit_s: float) -> RawHookResult:
    errors = "" if finished.errors is None else finished.errors.head
    if finished.end == "exited" and finished.exit_code is not None:
        output = finished.output
        return RawHookResult(finished.exit_code, output.head, errors, is_cut=output.is_truncated)
    if finished.timed_out:
        return RawHookResult(None, stderr=errors, failure=timed_out(limit_s))
    if finished.cancelled:
        return RawHookResult(None, stderr=errors, failure=STOPPED)
    return RawHookResult(None, stderr=errors, failure=f"it was ended by signal {finished.signal}")


STOPPED: Final = "it was stopped, because the turn was"


def timed_out(limit_s: float) -> str:
    """Return what is wrong with a hook that took too long."""
    return f"it took longer than {limit_s:g} s"


def run_function(fn: HookHandler, payload: Mapping[str, Any]) -> RawHookResult:
    """Call a hook in Python with a payload of its own, and take down its end as that of a command."""
    try:
        said = fn(copy.deepcopy(dict(payload)))
    except HookBlock as block:
        return RawHookResult(2, stderr=text_of(block))
    except (Exception, SystemExit) as error:  # boundary: a hook's failure is an error of the hook
        return RawHookResult(1, stderr=text_of(error) or type(error).__name__)
    if said is None:
        return RawHookResult()
    if isinstance(said, str):
        return RawHookResult(stdout=said[:_KEPT_BYTES], is_cut=len(said) > _KEPT_BYTES)
    if isinstance(said, Mapping):
        try:
            return RawHookResult(stdout=dump(dict(said)))
        except JsonInvalid as error:
            return RawHookResult(None, failure=f"it returned what JSON cannot say: {error}")
    if inspect.isawaitable(said):
        if isinstance(said, Coroutine):
            said.close()
        return RawHookResult(None, failure="it is a coroutine; a hook is a plain function")
    return RawHookResult(None, failure=f"it returned {type(said).__name__!r} where None, a dict or a text is wanted")
