"""When a session's history is made shorter, and who has a word in it: its threshold, a host's own policy, its hooks.

Floor: 5. Owns: these decisions, in the middle of a turn and at its end; never: what goes, or what stands for it
(`kernel.compact`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plait.core.cancel import Cancel
from plait.core.events import Committed, Event
from plait.core.facts import Reset
from plait.core.usage import Usage
from plait.events.named import CompactionSkipped
from plait.events.reducer import counts
from plait.kernel.compact import SKIPPED
from plait.kernel.effects import Boundary, Compact, End, Plan
from plait.kernel.spans import choose, select_turns
from plait.kernel.threshold import is_due
from plait.session.catching_up import error_told

if TYPE_CHECKING:
    from plait.session.live import Live
    from plait.session.session import Session


def planned(session: Session, live: Live, at: Boundary) -> Plan | None:
    """Return the plan that makes history shorter before the next request, None where nobody wants that."""
    if at.shrunk or not _is_wanted(session, live):
        return None
    state, hooks = live.conversation.state, live.hooks
    if live.mirror.edit(session["messages"]) is not None:
        return None  # what a host has edited comes first, and would be lost
    if hooks is not None:
        if live.asked_again_at > session["llm_call_count"]:
            return None
        why = hooks.may_compact("auto", live.signal)
        if why:
            live.asked_again_at = session["llm_call_count"] + state.patience
            live.hub.emit(CompactionSkipped(why))
            return None
    return Plan(compact=Compact())


def at_turn_end(session: Session, live: Live, end: End) -> None:
    """Make history shorter when a turn is over, where that is the policy. What fails there is told, and no more."""
    if end.reason != "completed" or not _is_wanted_at_end(session, live):
        return
    began_s = time.monotonic()
    keep = session["compaction_keep_last_turns"]
    if select_turns(live.conversation.state.history, keep) is None:
        return
    ended, _ = shortened(live, keep, "auto", live.signal)
    if ended.reason not in (SKIPPED, "completed", "interrupted"):
        error_told(session, live, ended, began_s)


def shortened(live: Live, keep_last_turns: int, trigger: str, signal: Cancel | None) -> tuple[End, Usage]:
    """Between turns, have a summary written, if hooks let it; return how that ended, and what it took."""
    spent = _Spent()
    if live.hooks is not None and (why := live.hooks.may_compact(trigger, signal)):
        live.hub.emit(CompactionSkipped(why))
        return End(SKIPPED, detail=why), spent.usage
    forget = live.conversation.observers.add(spent, Committed)
    try:
        end = live.conversation.compact(keep_last_turns, cancel=signal)
    finally:
        forget()
    if live.hooks is not None:
        live.hooks.after_compaction(signal)
    if end.reason == SKIPPED and not spent.has_told:
        live.hub.emit(CompactionSkipped(end.detail))
    return end, spent.usage


def _is_wanted(session: Session, live: Live) -> bool:
    state, rules = live.conversation.state, live.conversation.rules
    policy = live.settings.compaction_policy
    if policy is None:
        return is_due(state, rules)
    if not state.steps or choose(state, rules.shrinking, "threshold") is None:
        return False
    return bool(policy(session, _usage_told(live), "mid_turn"))


def _is_wanted_at_end(session: Session, live: Live) -> bool:
    policy = live.settings.compaction_policy
    if policy is not None:
        return bool(policy(session, _usage_told(live), "turn_end"))
    return session["compaction_enabled"] is not False and session["compaction_policy"] == "every_turn"


def _usage_told(live: Live) -> Mapping[str, int]:
    usage: Any = live.conversation.state.last_usage
    told = counts(usage or Usage.ZERO)
    return {**told, **{f"{name}_tokens": told[name] for name in ("prompt", "completion", "total")}}


class _Spent:
    """Adds up what summaries took."""

    def __init__(self) -> None:
        self.usage = Usage.ZERO
        self.has_told = False
        """The log says of itself that one was of no use."""

    def __call__(self, event: Event) -> None:
        fact = event.entry.fact if isinstance(event, Committed) else None
        if isinstance(fact, Reset):
            self.has_told = self.has_told or fact.is_skipped
            self.usage += fact.usage or Usage.ZERO
