"""A model that plays a script, in the process: no sockets, no bytes, every request on record.

Floor: testing. Owns: the double at the model port and its two channels; never: a wire.

    with ScriptedModel([Call("add", {"a": 1, "b": 2}), "It is 3."]) as model:
        assert "It is 3." == Agent(model, [add]).run("What is 1 + 2?").text
    assert "3" == model.requests[1].messages[-1].tool_results[0].content
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeAlias, get_args

from plait.core.cancel import Cancel
from plait.core.clock import Clock, SystemClock
from plait.core.events import DeltaKind, Piece
from plait.core.exchange import Reply
from plait.core.messages import Message, Part, Reasoning, StopReason, Text, ToolCall
from plait.core.usage import Usage
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Emit, Setup
from plait.testing.errors import ScriptError
from plait.testing.model_steps import Asked, Fail, ModelScript, ModelStep, Silence
from plait.testing.player import Player
from plait.testing.prefix_cache import PrefixCache, tokens
from plait.testing.response import Hang, Pause
from plait.testing.steps import Raw, Say, argument_deltas, as_answer, deltas, joined, with_ids
from plait.wire.profile import StructuredOutput

_ORIGIN: Final = "scripted"
_STOPS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {"stop": "end_turn", **{reason: reason for reason in get_args(StopReason)}}
)

_Move: TypeAlias = Piece | Pause | Hang
_Performance: TypeAlias = Generator[_Move, None, Reply]
"""What a step does, without saying how one waits: the sync and the async channel both play it."""


class ScriptedModel:
    """A model whose answers are written down; safe to share between threads and event loops.

    Args:
        script: steps and rules, or a function of the request.
        clock: where `delay_s` and `gap_s` are spent; a `VirtualClock` spends no time.
        repeat: begin the steps again when they are used up.
        allow_unused: do not complain about steps that nobody asked for.
        structured_output: whether it takes a schema for its answers; with "never" it is given a tool to answer with.

    `check`, or leaving a `with` block, raises where the script and the requests disagreed.
    """

    def __init__(
        self,
        script: ModelScript,
        *,
        name: str = "scripted",
        context_window: int | None = None,
        supports_images: bool = False,
        structured_output: StructuredOutput = "always",
        clock: Clock | None = None,
        repeat: bool = False,
        allow_unused: bool = False,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self.supports_images = supports_images
        self.structured_output: StructuredOutput = structured_output
        self.clock: Clock = clock or SystemClock()
        self._player: Player[Asked, ModelStep] = Player(script, repeat=repeat, allow_unused=allow_unused)
        self._cache = PrefixCache()
        self._lock = threading.Lock()
        self._requests: list[Asked] = []
        self._open_channels = 0

    @property
    def requests(self) -> tuple[Asked, ...]:
        """Every request so far, in the order in which they came."""
        with self._lock:
            return tuple(self._requests)

    @property
    def open_channels(self) -> int:
        """How many lines were opened and not closed yet."""
        return self._open_channels

    def open(self, setup: Setup) -> ScriptedChannel:
        """Open a line for a thread."""
        return ScriptedChannel(self, setup)

    def aopen(self, setup: Setup) -> AsyncScriptedChannel:
        """Open a line for an event loop."""
        return AsyncScriptedChannel(self, setup)

    def check(self) -> None:
        """Say where the script and the requests disagreed.

        Raises:
            UnexpectedRequest: a request had no step. UnusedStep: a step had no request. ScriptError: the function
                that is the script raised.
        """
        self._player.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.check()
        except ScriptError as disagreement:
            if error is None:
                raise
            error.add_note(f"the scripted model says: {disagreement}")

    def count_channel(self, change: int) -> None:
        """Keep count of the open lines; for the channels."""
        with self._lock:
            self._open_channels += change

    def perform(self, setup: Setup, ask: Think) -> _Performance:
        """Record a request and play the step that answers it; for the channels.

        Raises:
            UnexpectedRequest: no step answers. ProviderFailed: the step says so.
        """
        asked = self._record(setup, ask)
        step = self._player.answer(asked)
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, Reply):
            return step
        if isinstance(step, Fail | Silence):
            yield from _pieces("content", deltas(step.after))
        if isinstance(step, Fail):
            raise step.error(_partial(joined(step.after)))
        while isinstance(step, Silence):
            yield Hang()
        answer = as_answer(step)
        if isinstance(answer, Raw):
            raise ScriptError("raw bytes are a step of a ScriptServer; a ScriptedModel has no wire")
        return (yield from self._say(with_ids(answer, f"call_{asked.number}"), asked))

    def _record(self, setup: Setup, ask: Think) -> Asked:
        messages = tuple(ask.view.messages)
        with self._lock:
            asked = Asked(len(self._requests) + 1, self.name, setup, messages, ask.purpose, ask.attempt)
            self._requests.append(asked)
        return asked

    def _say(self, say: Say, asked: Asked) -> _Performance:
        if say.stop not in _STOPS:
            raise ScriptError(f"no model stops for the reason {say.stop!r}; known: {', '.join(_STOPS)}")
        yield Pause(say.delay_s)
        for piece in _spoken(say):
            yield piece
            yield Pause(say.gap_s)
        return Reply(_message(say, asked.setup), _STOPS[say.stop], self._usage(say, asked), say.stop)

    def _usage(self, say: Say, asked: Asked) -> Usage:
        if say.usage is not None:
            given: Mapping[str, Any] = say.usage
            return Usage(**given)
        prompt = "\n".join([repr(asked.setup), *map(repr, asked.messages)])
        count = self._cache.count(prompt.encode("utf-8", "surrogatepass"))
        return Usage(count.prompt, max(1, tokens(say.output_bytes())), count.cached)


class _Line:
    """What both channels are: a setup, and a place in the model's count of open lines."""

    def __init__(self, model: ScriptedModel, setup: Setup) -> None:
        self._model = model
        self._setup = setup
        self._is_open = True
        model.count_channel(+1)

    def _hang_up(self) -> None:
        if self._is_open:
            self._is_open = False
            self._model.count_channel(-1)


class ScriptedChannel(_Line):
    """One conversation's line to a `ScriptedModel`, for a thread."""

    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Play the next step.

        Raises:
            ProviderFailed: the step says so. UnexpectedRequest: there is no step. Interrupted: `cancel` was given.
        """
        playing = _Playing(self._model.perform(self._setup, ask), emit, cancel)
        while (wait := playing.next_wait()) is not None:
            if isinstance(wait, Hang):
                cancel.wait()
            else:
                self._model.clock.sleep(wait.seconds, cancel)
        return playing.reply()

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._hang_up()


class AsyncScriptedChannel(_Line):
    """The same for an event loop."""

    async def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Play the next step.

        Raises:
            ProviderFailed: the step says so. UnexpectedRequest: there is no step. Interrupted: `cancel` was given.
        """
        playing = _Playing(self._model.perform(self._setup, ask), emit, cancel)
        while (wait := playing.next_wait()) is not None:
            if isinstance(wait, Hang):
                await _until_cancelled(asyncio.get_running_loop().create_future(), cancel)
            else:
                await _until_cancelled(asyncio.ensure_future(self._model.clock.asleep(wait.seconds)), cancel)
        return playing.reply()

    async def aclose(self) -> None:
        """Hang up; may be called twice."""
        self._hang_up()


class _Playing:
    """A performance under way: hands its fragments on, and stops where one has to wait."""

    def __init__(self, performance: _Performance, emit: Emit | None, cancel: Cancel) -> None:
        self._performance = performance
        self._emit = emit
        self._cancel = cancel
        self._said: list[str] = []
        self._reply: Reply | None = None

    def next_wait(self) -> Pause | Hang | None:
        """Go on to the next wait, or to the end (None).

        Raises:
            Interrupted: the request was cancelled; it carries what had been said.
        """
        while True:
            if self._cancel.reason is not None:
                raise Interrupted(self._cancel.reason, _partial("".join(self._said)))
            try:
                move = next(self._performance)
            except StopIteration as done:
                self._reply = done.value
                return None
            if isinstance(move, tuple):
                self._hand_on(move)
            elif isinstance(move, Hang) or move.seconds > 0:
                return move

    def reply(self) -> Reply:
        """Return what the performance ended with."""
        assert self._reply is not None
        return self._reply

    def _hand_on(self, piece: Piece) -> None:
        kind, text = piece
        if kind == "content":
            self._said.append(text)
        if self._emit is not None:
            self._emit((piece,))


async def _until_cancelled(waiting: asyncio.Future[None], cancel: Cancel) -> None:
    """Wait for the future, or until `cancel` is given; a cancelled task stays cancelled."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it
            loop.call_soon_threadsafe(waiting.cancel)

    undo = cancel.on_cancel(stop)
    try:
        await asyncio.wait((waiting,))
    finally:
        undo()
        waiting.cancel()


def _spoken(say: Say) -> Iterable[Piece]:
    yield from _pieces("reasoning", deltas(say.reasoning))
    yield from _pieces("content", deltas(say.text))
    for call in say.calls:
        yield from _pieces("tool_arguments", argument_deltas(call))


def _pieces(kind: DeltaKind, texts: Sequence[str]) -> Iterable[Piece]:
    return ((kind, text) for text in texts)


def _message(say: Say, setup: Setup) -> Message:
    free_text = {schema.name for schema in setup.tools if schema.custom_format is not None}
    parts: list[Part] = [Reasoning(joined(say.reasoning))] if say.reasoning else []
    parts += [Text(joined(say.text))] if say.text else []
    parts += [ToolCall(call.id or "", call.name, call.arguments_text, call.name in free_text) for call in say.calls]
    return Message("assistant", tuple(parts), _ORIGIN)


def _partial(text: str) -> Message | None:
    return Message("assistant", (Text(text),), _ORIGIN) if text else None
