"""What a session does between two steps of a turn: its budget, its size, the host's edits and `step_reducer`.

Floor: 5. Owns: the plan that these come to; never: carrying it out (the loop does).
"""

from __future__ import annotations

import weakref

from plait.core.errors import ConfigError
from plait.core.events import Committed, Event
from plait.core.facts import Reset
from plait.events.named import StepReduced, TokenLimit
from plait.kernel.effects import Boundary, Plan, Replace, Stop
from plait.session.aside_notes import settle_asides
from plait.session.following import follow
from plait.session.history.mirror import Item
from plait.session.history.reducing import STEP_REDUCER, Reduced, reduce_step
from plait.session.live import Live
from plait.session.session import Session
from plait.session.summaries.compacting import planned


class Between:
    """Looks at the session between two steps."""

    def __init__(self, session: weakref.ref[Session], live: Live) -> None:
        self._session = session
        self._live = live
        self._told: StepReduced | None = None
        """Of a reduction that is not safe yet."""
        live.conversation.observers.add(self._tell, Committed)

    def __call__(self, at: Boundary) -> Plan | None:
        """Return what is to be done now."""
        session = self._session()
        if session is None or at.phase == "final":
            return None
        # Whoever watches has heard of the last step, and may have edited the list.
        follow(session)
        return (
            self._over_budget()
            or planned(session, self._live, at)
            or self._reduced(session)
            or self._edited(session["messages"], "host_edit")
        )

    def _reduced(self, session: Session) -> Plan | None:
        reducer, asked = self._live.settings.step_reducer, self._live.model
        # A turn that has just begun may find the last step of the one before it at the end of the list.
        if reducer is None or asked is None or not self._live.conversation.state.steps:
            return None
        reduced = reduce_step(reducer, session, asked[0], asked[1])
        settle_asides(session, self._live)
        if reduced is None:
            return None
        plan = self._replaced(session["messages"], reduced)
        self._told = reduced.told
        if plan is None:
            self._live.hub.emit(reduced.told)
            self._told = None
        return (
            plan
            if reduced.final_reply is None
            else Plan(replace=None if plan is None else plan.replace, final_reply=reduced.final_reply)
        )

    def _replaced(self, items: list[Item], reduced: Reduced) -> Plan | None:
        before = items[reduced.start :]
        items[reduced.start :] = reduced.items
        try:
            return self._edited(items, STEP_REDUCER)
        except ConfigError as error:
            items[reduced.start :] = before
            raise ConfigError(f"the step_reducer returned what is no step: {error.message}", hint=error.hint) from error

    def _edited(self, items: list[Item], why: str) -> Plan | None:
        mirror = self._live.mirror
        edit = mirror.edit(items)
        replacement = None if edit is None else edit.replacement(self._live.conversation.state.history)
        if replacement is None:
            mirror.settle(items)
            return None
        start, end, messages = replacement
        return Plan(replace=Replace(start, end, messages, why))

    def _over_budget(self) -> Plan | None:
        limit, usage = self._live.settings.max_turn_tokens, self._live.conversation.state.turn_usage
        if limit is None:
            return None
        raw = usage.input_tokens + usage.output_tokens
        cached = min(usage.cache_read_tokens, usage.input_tokens)
        if raw - cached < limit:
            return None
        self._live.hub.emit(TokenLimit(raw - cached, limit, raw, cached))
        return Plan(stop=Stop("limit", f"token budget exceeded ({raw - cached:,} of {limit:,} tokens)"))

    def _tell(self, event: Event) -> None:
        """Tell of a reduction once it is safe."""
        if self._told is None or not isinstance(event, Committed):
            return
        fact = event.entry.fact
        if isinstance(fact, Reset) and fact.why == STEP_REDUCER:
            told, self._told = self._told, None
            self._live.hub.emit(told)
