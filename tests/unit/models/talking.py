"""Conversations with a model in either colour behind one function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from plait.core.cancel import Cancel
from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Purpose, Reply, View
from plait.core.messages import Message, user
from plait.kernel.effects import Think
from plait.kernel.ports import AsyncChannel, Channel, Emit, Setup


class Openable(Protocol):
    """A model, as far as a conversation needs it."""

    def open(self, setup: Setup) -> Channel: ...

    def aopen(self, setup: Setup) -> AsyncChannel: ...


Talk = Callable[..., list[Reply | ProviderFailed]]


def ask_of(
    history: Sequence[Message], *, extra: tuple[Message, ...] = (), epoch: int = 0, purpose: Purpose = "step"
) -> Think:
    """Make the effect for one request that shows the whole history."""
    return Think(View(epoch, history, len(history), extra), purpose)


def talk_sync(
    model: Openable, count: int, setup: Setup | None = None, emit: Emit | None = None, cancel: Cancel | None = None
) -> list[Reply | ProviderFailed]:
    """Ask `count` times in one conversation; answers are added to it, failures are returned in their place."""
    channel = model.open(setup or Setup())
    history = [user("hi")]
    outcomes: list[Reply | ProviderFailed] = []
    for _ in range(count):
        try:
            outcomes.append(channel.think(ask_of(history), emit, cancel or Cancel()))
        except ProviderFailed as failed:
            outcomes.append(failed)
        _go_on(history, outcomes[-1])
    channel.close()
    return outcomes


def talk_async(
    model: Openable, count: int, setup: Setup | None = None, emit: Emit | None = None, cancel: Cancel | None = None
) -> list[Reply | ProviderFailed]:
    """The same in an event loop."""

    async def run() -> list[Reply | ProviderFailed]:
        channel = model.aopen(setup or Setup())
        history = [user("hi")]
        outcomes: list[Reply | ProviderFailed] = []
        for _ in range(count):
            try:
                outcomes.append(await channel.think(ask_of(history), emit, cancel or Cancel()))
            except ProviderFailed as failed:
                outcomes.append(failed)
            _go_on(history, outcomes[-1])
        await channel.aclose()
        return outcomes

    return asyncio.run(run())


TALKS: dict[str, Talk] = {"sync": talk_sync, "async": talk_async}


def text_of(outcome: Reply | ProviderFailed) -> str:
    """Return the words of an answer; a failure is raised."""
    if isinstance(outcome, ProviderFailed):
        raise outcome
    return outcome.message.content


def joined(pieces: Sequence[Piece], kind: str = "content") -> str:
    """Return the text of all fragments of a kind."""
    return "".join(text for name, text in pieces if name == kind)


def _go_on(history: list[Message], outcome: Reply | ProviderFailed) -> None:
    if isinstance(outcome, Reply):
        history += [outcome.message, user("go on")]
