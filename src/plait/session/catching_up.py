"""What comes after a turn: keys, capture and cache follow the conversation, handlers hear of an error.

Floor: 5. Owns: these steps, for whoever has changed a conversation; never: the turn's result (`turns`).
"""

from __future__ import annotations

import time

from plait.core.errors import ContextWindowExceededError, ModelError, PlaitError
from plait.engine.result import error_of, status_of
from plait.events.named import ContextOverflowAbort, Error
from plait.kernel.effects import End
from plait.session.clients import adapter_of
from plait.session.following import follow
from plait.session.live import Live
from plait.session.session import Session


def catch_up(session: Session, live: Live) -> None:
    """Bring everything that follows the conversation up to it; raise what a handler raised meanwhile."""
    follow(session)
    if (capture := live.standing.capture) is not None:
        capture.commit()
    live.standing.snapshot.keep(session, live.log.journal)
    live.conversation.observers.raise_fault()


def error_told(session: Session, live: Live, end: End, began_s: float) -> PlaitError | None:
    """Return the error of an end that has one, after the handlers have heard of it."""
    model = live.conversation.model
    error = error_of(end, model=model.name, endpoint=str(getattr(model, "endpoint", session["endpoint"])))
    if error is not None and status_of(end.reason) == "error":
        if isinstance(error, ContextWindowExceededError):
            live.hub.emit(ContextOverflowAbort(live.conversation.state.shrinks))
        adapter = adapter_of(None if live.model is None else live.model[0])
        live.hub.emit(_error_event(error, time.monotonic() - began_s, adapter))
    return error


def _error_event(error: PlaitError, elapsed_s: float, adapter: str) -> Error:
    code = error.error_code if isinstance(error, ModelError) else error.code
    status = error.status if isinstance(error, ModelError) else None
    text = f"{error.message}. {error.hint}" if error.hint else error.message
    return Error(text, type(error).__name__, error.message, code, status, round(elapsed_s, 3), adapter)
