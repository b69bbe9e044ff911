"""How a turn is run, and what it is played on; the same for both colours.

Floor: 4. Owns: the terms of one turn as data; never: a decision (`base_host`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from plait.core.cancel import Cancel
from plait.core.clock import Clock
from plait.core.facts import ToolStart
from plait.core.messages import ToolCall
from plait.core.values import dataclass
from plait.engine.approval import Approver
from plait.engine.cache.watch import CacheWatch
from plait.engine.calls import Finishing
from plait.engine.gates import Gates
from plait.engine.limits import Limits
from plait.engine.observers import Observers
from plait.engine.threads import Threads
from plait.kernel.effects import Allow, Boundary, Deny, Outcome
from plait.kernel.rules import Rules
from plait.kernel.state import State
from plait.kernel.tools import Tool, ToolTable

if TYPE_CHECKING:
    from plait.engine.structured import Wanted

Noting = Callable[[tuple[Outcome, ...], Mapping[str, int], int], tuple[Outcome, ...]]
"""Looks at calls that have ended, in the turn's thread, before their results are recorded, and may note something below
what they say. It gets when each was started, and when they ended: milliseconds since 1970. It is quick and does not
raise."""

Resolve = Callable[[ToolCall, ToolStart, Cancel], Outcome]
"""Finds out what became of a call that an earlier process started; `ToolStart` is what it recorded before.

Sync, and may take as long as what still runs; given the cancel signal it stops that. It does not raise.
"""

BoundaryHook = Callable[[Boundary], Any]
"""Asked at every boundary; returns a `Plan`, or None for nothing. May be a coroutine in an async host."""


@dataclass(frozen=True)
class Policy:
    """How a conversation's turns are run; the same for both colours."""

    approver: Approver | None = None
    """None: every call that the table holds may run."""
    limits: Limits = field(default_factory=Limits)
    finishing: Finishing = field(default_factory=Finishing)
    plan_mode: bool = False
    """One decision for all calls of a message, through the approver's `approve_plan`."""
    on_boundary: BoundaryHook | None = None
    on_results: Noting | None = None
    before_call: Callable[[ToolCall, Tool], Allow | Deny | None] | None = None
    """Judges a call before the approver does; None leaves it to the approver."""
    gates: Gates | None = None
    """Have a word before and after calls, and at the end: hooks."""
    wanted: Wanted | None = None
    """What the turn's answer has to be, where it is more than text."""
    shrinks: bool = False
    """History is summarised when it has grown large, as the rules say; False: `on_boundary` decides that."""
    is_watched: bool = False
    """Somebody is to know of every call before it runs, so that each start is made durable."""


@dataclass(frozen=True)
class Stage:
    """What one turn is played on."""

    state: State
    tools: ToolTable
    policy: Policy
    observers: Observers
    cancel: Cancel
    clock: Clock
    threads: Threads
    resolve: Resolve
    cache: CacheWatch
    is_durable: bool = False
    """Facts outlive the process, so that calls are started with what will show whether they took effect."""
    rules: Rules = field(default_factory=Rules)
    """What the loop goes by."""
    before_s: float = 0.0
    """Seconds that the conversation's turns took before this one."""
