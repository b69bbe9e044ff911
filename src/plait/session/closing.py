"""The end of a turn that an earlier process left unfinished, without asking the model anything more.

Floor: 5. Owns: what happens to such a turn when its session goes elsewhere; never: a request.
"""

from __future__ import annotations

from typing import Final

from plait.core.cancel import Cancel
from plait.core.exchange import Reply
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import AsyncChannel, Channel, Emit, Setup
from plait.session.live import Live

_FORGONE: Final = "Not run: the conversation went elsewhere before the answer came."


def close_turn(live: Live) -> None:
    """Bring an unfinished turn to its end: what still runs is stopped, what nobody saw the end of is looked into."""
    conversation = live.conversation
    if conversation.state.in_turn:
        live.standing.log.begin()
        cancel = Cancel()
        cancel.cancel("interrupted")
        conversation.change(_Nobody(conversation.model.name), conversation.terms)
        conversation.turn(cancel=cancel, resume=True)
    conversation.forgo(_FORGONE)


class _Nobody:
    """A model that is never asked: the turn is over before."""

    context_window = None
    supports_images = False

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, setup: Setup) -> Channel:
        """Open a line that nobody answers."""
        return _Silence()

    def aopen(self, setup: Setup) -> AsyncChannel:
        """Refuse: nobody awaits it."""
        raise AssertionError("a turn is closed in a thread")


class _Silence:
    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Stop: the turn is to end."""
        raise Interrupted(cancel.reason or "interrupted")

    def close(self) -> None:
        """Nothing is held."""
