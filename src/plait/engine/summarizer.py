"""A model that has another one write its summaries.

Floor: 4. Owns: which of the two a request goes to; never: a request.
"""

from __future__ import annotations

from typing import Any, cast

from plait.core.cancel import Cancel
from plait.core.exchange import Reply
from plait.engine.wrapped_model import WrappedModel
from plait.kernel.effects import Think
from plait.kernel.ports import AsyncChannel, Channel, Emit, Model, Setup


class Summarized(WrappedModel):
    """Everything is the first model's own, but requests for a summary go to the second.

    Its cache knows nothing of the conversation, so that it pays where it is much cheaper.
    """

    def __init__(self, model: Model, summarizer: Model) -> None:
        super().__init__(model)
        self._summarizer = summarizer

    @property
    def context_window(self) -> int | None:
        """Tokens that fit into both, where it is known."""
        windows = [each.context_window for each in (self._model, self._summarizer)]
        return min((window for window in windows if window is not None), default=None)

    def open(self, setup: Setup) -> Channel:
        """Open a line for a thread."""
        return cast("Channel", _Channel(self._model.open(setup), self._summarizer.open(setup)))

    def aopen(self, setup: Setup) -> AsyncChannel:
        """Open a line for an event loop."""
        return cast("AsyncChannel", _AsyncChannel(self._model.aopen(setup), self._summarizer.aopen(setup)))


class _Channel:
    def __init__(self, own: Channel, other: Channel) -> None:
        self._own, self._other = own, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Ask one of them."""
        return (self._other if ask.purpose == "compaction" else self._own).think(ask, emit, cancel)

    def close(self) -> None:
        """Let both go."""
        self._own.close()
        self._other.close()


class _AsyncChannel:
    def __init__(self, own: AsyncChannel, other: AsyncChannel) -> None:
        self._own, self._other = own, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Ask one of them."""
        return await (self._other if ask.purpose == "compaction" else self._own).think(ask, emit, cancel)

    async def aclose(self) -> None:
        """Let both go."""
        await self._own.aclose()
        await self._other.aclose()
