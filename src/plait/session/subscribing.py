"""Subscribing to a session's events, as functions.

Floor: 5. Owns: the public functions; never: who is called when (`hub`).
"""

from __future__ import annotations

from plait.events.named import EventCallback
from plait.session.session import Session


def subscribe(session: Session, type: str, handler: EventCallback) -> None:
    """Have `handler(type, event)` called for every event of a session with this name, in the order of subscription.

    Raises:
        ConfigError: no event has this name.
    """
    session._live.hub.subscribe(type, handler)


def unsubscribe(session: Session, type: str, handler: EventCallback) -> None:
    """Call `handler` no more; one that was never subscribed is no error."""
    session._live.hub.unsubscribe(type, handler)


on = subscribe
