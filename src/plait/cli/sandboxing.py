"""What of a run has a fence around it: by the flags, the user's own file and the repository's.

Floor: 7. Owns: which of them has the word, what a user is told; never: a fence (`hands.fence`), or what a
session does with one (`session.confining`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plait.cli.approving import Denial
from plait.cli.surroundings import own_places, readable_around, variables_around
from plait.config.places import project_root
from plait.config.settings import CONFIG_FILE, user_settings
from plait.core.errors import ConfigError
from plait.core.messages import ToolCall
from plait.events import named
from plait.hands.fence.environment import loaders_in
from plait.hands.fence.late import LateFence
from plait.hands.fence.policy import SandboxPolicy, is_beneath
from plait.session.confining import Confinement

if TYPE_CHECKING:
    from plait.cli.run_options import RunOptions
    from plait.config.sandbox_table import SandboxTable
    from plait.events.named import EventCallback, NamedEvent

_TIMEOUT_S: Final = 3_600.0
_UNMADE: Final = re.compile(r"bwrap: [^\n]*\n\[exit code 1\]")
"""All there is of a command around which no fence could be made after all: it is bubblewrap's own line."""
_ELSEWHERE: Final = "work in a folder of it"
"""What to do in a home, which a policy is never made for."""
ADVICE: Final = "The user can allow more: --sandbox-network HOST, [sandbox] in plait.toml, or --sandbox off"


def confinement_for(
    options: RunOptions, missing: Callable[[str], object], tell: Callable[[str], object]
) -> Confinement:
    """Return what a run in the current folder has a fence around.

    Args:
        missing: told, once and with the reason, when a command finds no fence.
        tell: says something else to the user.

    Raises:
        ConfigError: a file or a flag says what means nothing, or `on` is asked for and no fence can be made.
    """
    table = None if options.is_show else _table_here(options.config, os.getcwd(), tell)
    mode = options.sandbox or (table and table.mode) or "auto"
    if mode == "off":
        if options.sandbox_network:
            raise ConfigError("--sandbox-network needs a sandbox, and there is none", hint="leave --sandbox off out")
        return Confinement("off")
    cwd = os.path.realpath(os.getcwd())
    reason = _whole_home(cwd)
    policy = None if reason else _policy(cwd, table, options.sandbox_network)
    if mode != "on":
        return Confinement("auto", LateFence(policy, reason=reason, missing=missing), ADVICE)
    late = LateFence(policy, reason=reason)
    if late.found() is None:
        hint = f"{late.advice or _ELSEWHERE}, or do without: --sandbox auto"
        raise ConfigError(f"--sandbox on: {late.reason}", hint=hint)
    return Confinement("on", late, ADVICE)


def outcome_of(confinement: Confinement) -> Mapping[str, object]:
    """Return what the JSON of a run says: `{mode, level, reason}`."""
    late = confinement.late
    return {
        "mode": confinement.mode,
        "level": None if late is None else late.level,
        "reason": None if late is None or late.level != "none" else late.reason,
    }


def hearing(confinement: Confinement, denials: list[Denial], show: EventCallback) -> EventCallback:
    """Return a handler that shows events and notes the calls that did not run for want of a way into the sandbox."""
    if confinement.late is None:
        return show
    calls: dict[str, ToolCall] = {}

    def hear(name: str, event: NamedEvent) -> None:
        if isinstance(event, named.ToolCall):
            calls[event.call_id] = ToolCall.of(event.call_id, event.name, event.args)
        elif isinstance(event, named.ToolResult):
            call = calls.pop(event.call_id, None)
            if call is not None and _found_no_way_in(event):
                denials.append(Denial(call, "sandbox"))
        show(name, event)

    return hear


def _found_no_way_in(event: named.ToolResult) -> bool:
    """Say whether a call ended before its fence stood, or its tool was refused one."""
    if _UNMADE.match(event.result):
        return True
    if event.status != "error":
        return False
    from plait.tools.answer import refused
    from plait.tools.fenced_executor import cannot_run

    return event.result == refused(cannot_run(event.name)).content


def missing_words(late: LateFence, reason: str, *, says_yes: bool, is_asked: bool) -> str:
    """Return the line that tells of a fence that cannot be made, what follows from it, and what to do."""
    if late.is_barred:
        then = "no command runs, unless you say --sandbox off"
    elif says_yes:
        then = "commands run without one, as --yes says"
    else:
        then = "every command is asked for" if is_asked else "none runs unless a rule or --yes allows it"
    return f"plait: {reason}; {then} ({_ELSEWHERE if late.policy is None else 'plait doctor sandbox'})"


def _table_here(config: str | None, cwd: str, tell: Callable[[str], object]) -> SandboxTable | None:
    """Return what the user's file and the repository's say for a folder, or the one that stands in their place."""
    own_file, root = user_settings(os.environ), str(project_root(cwd))
    project_file = project_root(cwd) / CONFIG_FILE
    if config is None and not (os.path.lexists(own_file) or os.path.lexists(project_file)):
        return None
    from plait.config.sandbox_table import SandboxTable, table_in  # most folders have no such file

    if config is not None:
        return table_in(Path(os.path.expanduser(config)))
    own = table_in(own_file) or SandboxTable()
    found = None if project_file == own_file else table_in(project_file)
    if found is None:
        return own
    from plait.engine.trusting import vouched

    project = found.seen_from(root, cwd)
    if vouched(cwd, None).is_trusted:
        return project.over(own)
    table, unused = own.tightened_by(project)
    if unused:
        names = ", ".join(unused)
        tell(f"plait: [sandbox] in {str(project_file)!r} may only tighten until you trust it; not used: {names}")
    return table


def _whole_home(cwd: str) -> str:
    """Return why a folder is too much for commands to change unasked; empty where it is not."""
    if not is_beneath(os.path.realpath(os.path.expanduser("~")), cwd):
        return ""
    what = "the whole machine" if cwd == "/" else "your whole home, with what your other programs obey"
    return f"no sandbox can be made here: the folder is {what}"


def _policy(cwd: str, table: SandboxTable | None, hosts: Sequence[str]) -> SandboxPolicy:
    """Return the policy for a folder; raise `ConfigError` where what it is to hold cannot be had."""
    kept = (table and table.read_only) or ()
    read_only = [path for path in kept if os.path.realpath(os.path.expanduser(path)) != cwd]
    writable = (".",) if table is None or table.writable is None else table.writable
    environment = None if table is None else table.environment
    # What plait itself goes by, where it lies in the folder, is changed by no command.
    own = [path for path in own_places(os.environ) if is_beneath(path, cwd) and path != cwd]
    if wrong := loaders_in(environment or {}):
        raise ConfigError(f"a sandbox's environment cannot set {', '.join(wrong)}", hint="leave it out of [sandbox]")
    try:
        return SandboxPolicy(
            cwd,
            network=tuple(dict.fromkeys((*((table and table.network) or ()), *hosts))) or "none",
            writable_paths=writable if len(read_only) == len(kept) else (),
            read_only_paths=(*read_only, *own, *readable_around(cwd, os.environ)),
            timeout_seconds=_TIMEOUT_S,
            environment={**variables_around(), **(environment or {})},
            landlock_alone=bool(table and table.landlock_alone),
        )
    except ValueError as error:
        raise ConfigError(
            f"no sandbox can be made of this: {error}", hint="mend --sandbox-network, or [sandbox] in plait.toml"
        ) from error
