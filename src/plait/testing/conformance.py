"""What every model must hold to, as checks that an implementer can run.

Floor: testing. Owns: the contract of `plait.kernel.ports.Model` as questions and right answers; never: a model.

    check_model(lambda steps: ScriptedModel(steps))

A check that fails raises AssertionError with a sentence that says what must hold.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final, TypeAlias

from plait.core.cancel import Cancel
from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Reply, View
from plait.core.messages import Message, user
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Emit, Model, Setup
from plait.testing.model_steps import Fail, ModelStep, Silence
from plait.testing.steps import Call, Say

MakeModel: TypeAlias = Callable[[Sequence[ModelStep]], AbstractContextManager[Model]]
"""Makes the model under test so that it answers with these steps: `Say`, `Fail` and `Silence`."""

_PATIENCE_S: Final = 20.0


def check_model(make: MakeModel) -> None:
    """Check a model in both colours; every check makes a model of its own.

    Raises:
        AssertionError: the model does not hold to something; the message says to what.
    """
    for think in (_think_sync, _think_async):
        _check_answer(make, think)
        _check_calls(make, think)
        _check_unwatched(make, think)
        _check_failure(make, think)
        _check_interrupt(make, think)
    _check_closing(make)


_ThinkAll: TypeAlias = Callable[[Model, int, "Emit | None", Cancel], list[Reply]]


def _check_answer(make: MakeModel, think: _ThinkAll) -> None:
    pieces: list[Piece] = []
    with make([Say("Hello there.", reasoning="Hm."), Say("Again.")]) as model:
        first, second = think(model, 2, pieces.extend, Cancel())
    said = "".join(text for kind, text in pieces if kind == "content")
    thought = "".join(text for kind, text in pieces if kind == "reasoning")
    _holds(first.message.content == "Hello there.", "an answer is the model's words, whole", first)
    _holds(first.stop == "end_turn", "an answer without calls ends the turn", first)
    _holds(first.message.role == "assistant", "an answer is an assistant's message", first)
    _holds(second.message.content == "Again.", "a conversation goes on", second)
    _holds(said == "Hello there.Again.", "the fragments that were shown are the answer", said)
    _holds(thought in ("", "Hm."), "thoughts are shown as thoughts", thought)


def _check_calls(make: MakeModel, think: _ThinkAll) -> None:
    call = Call("look", '{"at": 12345678901234567890}', id="c1")
    with make([Say("Let me look.", calls=[call])]) as model:
        (reply,) = think(model, 1, None, Cancel())
    _holds(reply.stop == "tool_calls", "an answer with calls asks for them to be run", reply)
    _holds(reply.message.content == "Let me look.", "text beside calls is kept", reply)
    found = [(item.id, item.name, item.raw) for item in reply.message.tool_calls]
    _holds([("c1", "look", call.arguments)] == found, "arguments are kept byte for byte", found)


def _check_unwatched(make: MakeModel, think: _ThinkAll) -> None:
    with make([Say("Nobody watches.")]) as model:
        (reply,) = think(model, 1, None, Cancel())
    _holds(reply.message.content == "Nobody watches.", "an answer comes whole when nobody watches", reply)


def _check_failure(make: MakeModel, think: _ThinkAll) -> None:
    with make([Fail("unavailable", status=503)]) as model:
        try:
            think(model, 1, None, Cancel())
        except ProviderFailed as failed:
            _holds(failed.kind == "unavailable", "a failure has its class", failed.kind)
            _holds(failed.retryable, "what may pass is told to be worth trying again", failed)
        else:
            _holds(False, "a failure is raised as ProviderFailed", None)


def _check_interrupt(make: MakeModel, think: _ThinkAll) -> None:
    cancel = Cancel()
    with make([Silence("One two three.")]) as model:
        timer = threading.Timer(0.1, cancel.cancel, ["enough"])
        timer.start()
        try:
            think(model, 1, None, cancel)
        except (Interrupted, ProviderFailed, asyncio.CancelledError):
            pass
        else:
            _holds(False, "a cancel from another thread ends a request that waits", None)
        finally:
            timer.join()


def _check_closing(make: MakeModel) -> None:
    with make([]) as model:
        channel = model.open(Setup())
        channel.close()
        channel.close()

        async def close_twice() -> None:
            line = model.aopen(Setup())
            await line.aclose()
            await line.aclose()

        asyncio.run(close_twice())


def _think_sync(model: Model, count: int, emit: Emit | None, cancel: Cancel) -> list[Reply]:
    channel = model.open(Setup())
    history = [user("hi")]
    replies: list[Reply] = []
    try:
        for _ in range(count):
            replies.append(channel.think(_ask(history), emit, cancel))
            history += [replies[-1].message, user("go on")]
    finally:
        channel.close()
    return replies


def _think_async(model: Model, count: int, emit: Emit | None, cancel: Cancel) -> list[Reply]:
    async def run() -> list[Reply]:
        channel = model.aopen(Setup())
        history = [user("hi")]
        replies: list[Reply] = []
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        # A driver interrupts an await by cancelling its task; a model may hear the signal itself, or only that.
        undo = cancel.on_cancel(lambda: _cancel_soon(loop, task))
        try:
            for _ in range(count):
                async with asyncio.timeout(_PATIENCE_S):
                    replies.append(await channel.think(_ask(history), emit, cancel))
                history += [replies[-1].message, user("go on")]
        finally:
            undo()
            await channel.aclose()
        return replies

    return asyncio.run(run())


def _cancel_soon(loop: asyncio.AbstractEventLoop, task: asyncio.Task[list[Reply]]) -> None:
    with suppress(RuntimeError):  # the model heard it first, and the loop is over
        loop.call_soon_threadsafe(task.cancel)


def _ask(history: Sequence[Message]) -> Think:
    return Think(View(0, history, len(history)))


def _holds(is_so: bool, what: str, actual: object) -> None:
    assert is_so, f"{what}; got {actual!r}"
