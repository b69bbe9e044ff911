"""Keeping the keys of a session up to its conversation.

Floor: 5. Owns: when a key changes by itself; never: what a host has written into one (`resetting`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from plait.core.errors import ConfigError
from plait.core.events import Committed, Event
from plait.core.facts import MessageAdded, Observation, Reset
from plait.events.reducer import counts
from plait.session.session import Session
from plait.session.summaries.terms import prompt_tokens_after


class Following:
    """Keeps the keys of a session up to its conversation; has to hear of a fact before any handler does."""

    def __init__(self) -> None:
        self._session: Callable[[], Session | None] = lambda: None

    def begin(self, session: Session) -> None:
        """Follow into this session from now on, as long as somebody holds it."""
        self._session = weakref.ref(session)

    def __call__(self, event: Event) -> None:
        """Take a fact that is safe."""
        session = self._session()
        if session is None or not isinstance(event, Committed):
            return
        follow(session)
        fact = event.entry.fact
        if isinstance(fact, MessageAdded) and fact.message.role == "assistant":
            session["llm_call_count"] += 1
        elif isinstance(fact, Reset | Observation):
            session["compaction_last_prompt_tokens"] = prompt_tokens_after(
                session.get("compaction_last_prompt_tokens", 0), fact
            )


def follow(session: Session) -> None:
    """Bring a session's keys up to its conversation."""
    live = session._live
    state, items = live.conversation.state, session.get("messages")
    if not isinstance(items, list):
        raise ConfigError(f"session['messages'] is {items!r}", hint="it is a list of dicts; put one there")
    live.mirror.follow(state.history, state.epoch, items)
    if state.usage is not live.counted:
        live.counted = state.usage
        session["usage_totals"].update(counts(live.used_before + state.usage))
