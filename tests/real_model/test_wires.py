"""All three wires, in both colours, against llama.cpp's server: shapes are checked, never what a small model says."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from plait.cli.demo.local_server import CONTEXT_TOKENS
from plait.cli.demo.weights import FILE_NAME
from plait.core.cancel import Cancel
from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Reply, ToolSchema, View
from plait.core.messages import Message, ToolResult, user
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Emit, Options, Setup
from plait.models.chat_model import ChatModel, chat_model
from plait.models.profile_table import LOCAL
from plait.wire.profile import WireName

pytestmark = pytest.mark.real_model

WIRES: Sequence[WireName] = ("chat", "responses", "anthropic")
SYSTEM = "You are a helpful assistant. " * 8
LOOK = ToolSchema(
    "look",
    "Looks into a folder.",
    {
        "type": "object",
        "properties": {"folder": {"type": "string", "enum": ["left", "right"]}},
        "required": ["folder"],
        "additionalProperties": False,
    },
)


class Line:
    """One conversation with the server, in either colour."""

    def __init__(self, url: str, wire: WireName, colour: str, *, streams: bool = True) -> None:
        self.model: ChatModel = chat_model(FILE_NAME, url, wire=wire, profile=replace(LOCAL, streams=streams))
        self.history: list[Message] = [user("What is in the folders? Answer in one sentence.")]
        self.pieces: list[Piece] = []
        self._colour = colour

    def ask(self, setup: Setup, times: int = 1) -> list[Reply]:
        """Ask so many times in one conversation and return the answers; they become part of it."""
        return asyncio.run(self._ask_async(setup, times)) if self._colour == "async" else self._ask_sync(setup, times)

    def _ask_sync(self, setup: Setup, times: int) -> list[Reply]:
        channel = self.model.open(setup)
        replies = []
        for _ in range(times):
            for attempt in (1, 2):
                try:
                    replies.append(channel.think(self._think(), self._emit, Cancel()))
                    break
                except ProviderFailed as failed:
                    _again(failed, attempt)
            self._go_on(replies[-1].message)
        self.model.close()
        return replies

    async def _ask_async(self, setup: Setup, times: int) -> list[Reply]:
        channel = self.model.aopen(setup)
        replies = []
        for _ in range(times):
            for attempt in (1, 2):
                try:
                    replies.append(await channel.think(self._think(), self._emit, Cancel()))
                    break
                except ProviderFailed as failed:
                    _again(failed, attempt)
            self._go_on(replies[-1].message)
        await self.model.aclose()
        return replies

    @property
    def _emit(self) -> Emit:
        return self.pieces.extend

    def _think(self) -> Think:
        return Think(View(0, self.history, len(self.history)))

    def _go_on(self, message: Message) -> None:
        self.history.append(message)
        results = tuple(ToolResult(call.id, "a tree") for call in message.tool_calls)
        self.history.append(Message("tool", results) if results else user("Go on."))

    def shown(self, kind: str) -> str:
        """Return what was shown of a kind while the answers came."""
        return "".join(text for name, text in self.pieces if name == kind)


def _again(failed: ProviderFailed, attempt: int) -> None:
    """Let a request be made again where its connection was closed in the instant in which it was used.

    This server promises to keep connections and closes them after a stream; a transport falls for it once at most.
    """
    if attempt > 1 or (failed.detail, failed.retryable) != ("closed", True):
        raise failed


def setup_for(*, tools: bool = False, choice: str | None = None, tokens: int = 24) -> Setup:
    """Return what a conversation begins with."""
    options = Options(max_output_tokens=tokens, temperature=0, tool_choice=choice)
    return Setup(SYSTEM, (LOOK,) if tools else (), options)


def is_counted(reply: Reply) -> bool:
    """Say whether an answer reports what it used."""
    return (reply.usage.input or 0) > 0 and (reply.usage.output or 0) > 0


@pytest.mark.parametrize("streams", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("wire", WIRES)
def test_an_answer(real_url: str, wire: WireName, colour: str, streams: bool) -> None:
    """Words, why they end and what they cost come back; what was shown on the way is what was said."""
    line = Line(real_url, wire, colour, streams=streams)

    (reply,) = line.ask(setup_for())

    assert reply.message.content.strip()
    assert reply.stop in ("end_turn", "length")
    assert is_counted(reply)
    assert line.shown("content") == reply.message.content
    assert (len(line.pieces) > 1) is streams


@pytest.mark.parametrize("streams", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_forced_call_and_its_result(real_url: str, wire: WireName, colour: str, streams: bool) -> None:
    """An ordered call comes whole and valid, its result is taken, and the second request's prompt was in the cache."""
    line = Line(real_url, wire, colour, streams=streams)

    called, again = line.ask(setup_for(tools=True, choice="required", tokens=60), times=2)

    (call,) = called.message.tool_calls
    assert ("look", "tool_calls") == (call.name, called.stop)
    assert call.arguments["folder"] in ("left", "right")
    assert is_counted(called)
    assert again.message.tool_calls
    assert (again.usage.cache_read or 0) > 0
    assert call.id != again.message.tool_calls[0].id


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("wire", WIRES)
def test_the_second_request_is_cached(real_url: str, wire: WireName, colour: str) -> None:
    """Most of a prompt that begins with the one before it is read from the server's cache, and reported as such."""
    line = Line(real_url, wire, colour)

    first, second = line.ask(setup_for(), times=2)

    assert first.usage.cache_read is not None
    assert (second.usage.cache_read or 0) >= 0.6 * (first.usage.input or 0)
    assert (second.usage.input or 0) > (first.usage.input or 0)


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_prompt_that_is_too_long(real_url: str, wire: WireName, colour: str) -> None:
    """It is refused as an overflow, with the size of the window, and is not worth another attempt as it is."""
    line = Line(real_url, wire, colour)
    line.history[0] = user("apple " * (CONTEXT_TOKENS + 500))

    with pytest.raises(ProviderFailed) as refused:
        line.ask(setup_for())

    requested, limit = refused.value.tokens or (None, None)
    assert ("context_overflow", False) == (refused.value.kind, refused.value.retryable)
    assert CONTEXT_TOKENS == limit
    assert requested is not None
    assert requested > CONTEXT_TOKENS


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_can_be_stopped(real_url: str, wire: WireName, colour: str) -> None:
    """A stop signal in the middle of a stream ends it at once, and the server's one place is free for the next."""
    line = Line(real_url, wire, colour)
    cancel = Cancel()
    began = threading.Event()

    def emit(_: Sequence[Piece]) -> None:
        if not began.is_set():
            began.set()
            threading.Timer(0.05, cancel.cancel, ("interrupted",)).start()

    setup, ask = setup_for(tokens=2_000), Think(View(0, line.history, 1))

    def think() -> Reply:
        if colour == "sync":
            return line.model.open(setup).think(ask, emit, cancel)
        return asyncio.run(line.model.aopen(setup).think(ask, emit, cancel))

    with pytest.raises(Interrupted):
        think()
    assert began.is_set()
    (reply,) = line.ask(setup_for())
    assert reply.message.content


def test_an_answer_to_a_schema(real_url: str) -> None:
    """A JSON Schema is held to by the server's grammar, on the wire on which it takes one."""
    line = Line(real_url, "chat", "sync")
    options = Options(max_output_tokens=40, temperature=0, response_schema=dict(LOOK.parameters))

    (reply,) = line.ask(Setup(SYSTEM, (), options))

    assert json.loads(reply.message.content)["folder"] in ("left", "right")
