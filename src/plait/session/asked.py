"""Which model a session asks, and with which provider a router's requests stay.

Floor: 5. Owns: the model of a client, kept for as long as neither changes; never: what it is asked.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from plait.core.events import Notice
from plait.core.facts import Observation
from plait.kernel.ports import Model
from plait.models.pinning import pin_of
from plait.session.clients import Wishes, model_for
from plait.session.kept.capture import WatchedModel, watched_client
from plait.session.kept.recorded import PINNED
from plait.session.live import Live
from plait.session.session import Session


def model_asked(live: Live, client: object, name: str, session: Session) -> Model:
    """Return the model of a client; the same one as long as neither changes, so that its line stays open."""
    if live.model is None or live.model[0] is not client or live.model[1] != name:
        settings, observers = live.settings, live.conversation.observers

        def waits(delay_s: float, resume_at: str) -> None:
            observers.publish(Notice("rate_limit_wait", {"delay": delay_s, "resume_at": resume_at}))

        wishes = Wishes(
            session["structured"],
            settings.streams,
            settings.context_window,
            reports_input=session["reports_prompt_tokens"],
            on_wait=waits,
            on_pin=_pinning(weakref.ref(session), live),
        )
        live.model = (client, name, _watched(live, client, name, wishes))
    return live.model[2]


def _watched(live: Live, client: object, name: str, wishes: Wishes) -> Model:
    """Return the model of a client, whose requests and answers are captured where somebody wants that."""
    capture = live.standing.capture
    if capture is None:
        return model_for(client, name, wishes)
    return WatchedModel(model_for(watched_client(client, capture), name, wishes), capture)


def _pinning(session: weakref.ref[Session], live: Live) -> Callable[[str], None]:
    """Return what notes in a session which provider answered first, and tells of it."""

    def pinned(provider: str) -> None:
        opened, live.pinned = session(), provider
        if opened is not None:
            opened["provider"] = pin_of(provider)
        live.conversation.observers.publish(Notice("provider_pinned", {"provider": provider}))

    return pinned


def keep_pin(live: Live) -> None:
    """Record which provider a router's requests stay with, so that a resumed session stays with it too."""
    if live.pinned is not None:
        live.conversation.note(Observation(PINNED, {"provider": live.pinned}))
        live.conversation.commit()
        live.pinned = None
