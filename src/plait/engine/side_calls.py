"""A tool call beside a conversation: by its rules, with its tools, into its log, and no part of its history.

Floor: 4. Owns: one call in the caller's thread; never: the steps of it (`kernel.side_calls`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plait.core.cancel import Cancel
from plait.core.exchange import Reply
from plait.core.facts import Entry, Fact
from plait.core.messages import ToolCall, ToolResult
from plait.core.side_calls import side_call_told
from plait.core.values import dataclass
from plait.engine.hosts.stage import Stage
from plait.engine.hosts.sync_host import SyncHost
from plait.kernel.drivers import drive
from plait.kernel.effects import Think
from plait.kernel.log import FactLog
from plait.kernel.ports import Emit
from plait.kernel.side_calls import beside, one_call
from plait.tools.portal import Portal


def call_beside(call: ToolCall, stage: Stage, log: FactLog, portal: Portal) -> ToolResult:
    """Run one call and return its result; nobody is asked for leave, because the caller gives it.

    Durability: its start is in the log before it can change anything, its result on return.
    Cancel: as a turn; the call has a result then too.
    """
    state = beside(call)
    policy = replace(stage.policy, approver=None, plan_mode=False, wanted=None)
    stage = replace(stage, state=state, policy=policy, tools=stage.tools.for_host())
    drive(one_call(state, stage.tools), SyncHost(stage, _SideLog(log, call), _Silence(), portal))
    return state.history[-1].tool_results[0]


@dataclass(frozen=True, slots=True)
class _SideLog:
    """Writes what happens to one call as observations."""

    log: FactLog
    call: ToolCall

    def append(self, facts: tuple[Fact, ...]) -> None:
        told = (side_call_told(self.call, fact) for fact in facts)
        self.log.append(tuple(each for each in told if each is not None))

    def commit(self) -> None:
        self.log.commit()

    def take_committed(self) -> Sequence[Entry]:
        return self.log.take_committed()


class _Silence:
    """A line on which nobody is asked anything."""

    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Refuse: a call asks no model."""
        raise AssertionError("a call beside the conversation asked its model")

    def close(self) -> None:
        """Nothing is held."""
