"""The scripted model, at the model port, in both colours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from plait.core.cancel import Cancel
from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Reply, ToolSchema, View
from plait.core.messages import Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Model, Setup
from plait.testing import (
    Asked,
    Call,
    Fail,
    Raw,
    Say,
    ScriptedModel,
    ScriptError,
    Silence,
    UnexpectedRequest,
    UnusedStep,
    VirtualClock,
    When,
)

Asking = Callable[..., Reply]
EMPTY = Setup()


def think(*messages: Message) -> Think:
    """Return a request with these messages."""
    history = list(messages or [user("hi")])
    return Think(View(0, history, len(history)))


def ask_sync(
    model: ScriptedModel,
    ask: Think,
    pieces: list[Piece] | None = None,
    cancel: Cancel | None = None,
    setup: Setup = EMPTY,
) -> Reply:
    """Make one request in this thread."""
    channel = model.open(setup)
    try:
        return channel.think(ask, None if pieces is None else pieces.extend, cancel or Cancel())
    finally:
        channel.close()


def ask_async(
    model: ScriptedModel,
    ask: Think,
    pieces: list[Piece] | None = None,
    cancel: Cancel | None = None,
    setup: Setup = EMPTY,
) -> Reply:
    """Make one request in an event loop."""

    async def main() -> Reply:
        channel = model.aopen(setup)
        try:
            return await channel.think(ask, None if pieces is None else pieces.extend, cancel or Cancel())
        finally:
            await channel.aclose()

    return asyncio.run(main())


colours = pytest.mark.parametrize("ask", [ask_sync, ask_async], ids=["sync", "async"])


def content(pieces: Sequence[Piece], kind: str) -> str:
    """Join the fragments of one kind."""
    return "".join(text for piece, text in pieces if piece == kind)


def test_it_is_a_model() -> None:
    """The double stands where a model stands."""
    model: Model = ScriptedModel([], name="m", context_window=1_000, supports_images=True)

    assert ("m", 1_000, True) == (model.name, model.context_window, model.supports_images)


@colours
def test_an_answer_is_whole_and_streamed(ask: Asking) -> None:
    """The reply holds reasoning, text and calls; the fragments add up to it."""
    model = ScriptedModel([Say("one two", reasoning="hm", calls=[Call("look", {"path": "a" * 50}), Call("run")])])
    pieces: list[Piece] = []

    reply = ask(model, think(), pieces)

    arguments = '{"path":"' + "a" * 50 + '"}'
    assert (
        Reasoning("hm"),
        Text("one two"),
        ToolCall("call_1_0", "look", arguments),
        ToolCall("call_1_1", "run", "{}"),
    ) == reply.message.parts
    assert ("tool_calls", "tool_calls") == (reply.stop, reply.raw_stop)
    assert ("hm", "one two") == (content(pieces, "reasoning"), content(pieces, "content"))
    assert arguments + "{}" == content(pieces, "tool_arguments")
    assert ("content", "one") in pieces


@colours
def test_every_request_is_recorded(ask: Asking) -> None:
    """What the loop asked is kept: messages, setup, purpose."""
    setup = Setup(system="be kind")
    model = ScriptedModel(["a", "b"])
    ask(model, think(), setup=setup)
    ask(model, think(user("hi"), assistant("a"), Message("tool", (ToolResult("c", "result"),))))

    assert [1, 2] == [asked.number for asked in model.requests]
    assert setup == model.requests[0].setup
    assert ("hi", "hi\na\nresult", "result") == (
        model.requests[0].text,
        model.requests[1].text,
        model.requests[1].last_text,
    )
    assert ("step", 1, "scripted") == (model.requests[0].purpose, model.requests[0].attempt, model.requests[0].model)


@colours
def test_a_failure_carries_what_was_said(ask: Asking) -> None:
    """A scripted failure is a ProviderFailed with its class, wait and the partial answer."""
    model = ScriptedModel([Fail("rate_limit", after="half an", retry_after_s=2.0, status=429)])
    pieces: list[Piece] = []

    with pytest.raises(ProviderFailed, match="scripted failure") as caught:
        ask(model, think(), pieces)

    assert ("rate_limit", 2.0, 429, True) == (
        caught.value.kind,
        caught.value.retry_after_s,
        caught.value.status,
        caught.value.retryable,
    )
    assert caught.value.partial is not None
    assert "half an" == caught.value.partial.content == content(pieces, "content")


@colours
def test_an_exception_is_raised_as_it_is(ask: Asking) -> None:
    """Any exception can be a step."""
    with pytest.raises(ZeroDivisionError):
        ask(ScriptedModel([ZeroDivisionError()]), think())


@colours
def test_a_ready_reply_is_passed_on(ask: Asking) -> None:
    """A whole `Reply` is returned untouched."""
    reply = Reply(assistant("as it is"), "pause", Usage(1, 2))

    assert reply is ask(ScriptedModel([reply]), think())


@colours
def test_an_unexpected_request_is_an_error(ask: Asking) -> None:
    """A request without a step raises at once and again at the check."""
    model = ScriptedModel([])
    with pytest.raises(UnexpectedRequest):
        ask(model, think())
    with pytest.raises(UnexpectedRequest):
        model.check()


def test_an_unused_step_is_an_error() -> None:
    """Leaving the block checks the script; an exception on its way gets a note instead."""
    with pytest.raises(UnusedStep), ScriptedModel(["never"]):
        pass
    with pytest.raises(ZeroDivisionError) as caught, ScriptedModel(["never"]):
        _ = 1 / 0
    with ScriptedModel(["never"], allow_unused=True):
        pass

    assert "the scripted model says: 1 of" in caught.value.__notes__[0]


@colours
def test_functions_and_rules_answer(ask: Asking) -> None:
    """A script may be a function, or have rules beside its order."""

    def echo(asked: Asked) -> str:
        return asked.last_text.upper()

    rule = When("a title", last="name it")
    ruled = ScriptedModel(["one", rule])

    assert "HI" == ask(ScriptedModel(echo), think()).message.content
    assert "a title" == ask(ruled, think(user("name it"))).message.content
    assert "one" == ask(ruled, think()).message.content


@colours
def test_delays_pass_on_the_clock(ask: Asking) -> None:
    """Delays are spent on the given clock, a virtual one in no time."""
    clock = VirtualClock()
    model = ScriptedModel([Say(["a", "b"], delay_s=3_600, gap_s=60)], clock=clock)

    ask(model, think())

    assert 3_720.0 == clock.monotonic_s()


@colours
def test_silence_ends_with_a_cancel(ask: Asking) -> None:
    """A model that says nothing more is left as soon as the request is cancelled, with what it had said."""
    model = ScriptedModel([Silence("so far")])
    cancel = Cancel()
    timer = threading.Timer(0.05, cancel.cancel, ("enough",))
    timer.start()

    with pytest.raises(Interrupted) as caught:
        ask(model, think(), cancel=cancel)
    timer.join()

    assert "enough" == caught.value.reason
    assert caught.value.partial is not None
    assert "so far" == caught.value.partial.content


@colours
def test_a_cancelled_request_ends_a_delay(ask: Asking) -> None:
    """A delay on the machine's clock is cut short."""
    cancel = Cancel()
    timer = threading.Timer(0.05, cancel.cancel, ("enough",))
    timer.start()

    with pytest.raises(Interrupted):
        ask(ScriptedModel([Say("late", delay_s=30)]), think(), cancel=cancel)
    timer.join()


def test_a_cancelled_task_stays_cancelled() -> None:
    """Cancelling the task that waits for a silent model raises CancelledError, nothing else."""

    async def main() -> None:
        channel = ScriptedModel([Silence()]).aopen(Setup())
        task = asyncio.create_task(channel.think(think(), None, Cancel()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@colours
def test_usage_counts_the_prefix(ask: Asking) -> None:
    """Usage grows with the history, and what an earlier request began with is read from the cache."""
    history = [user("x" * 4_000)]
    model = ScriptedModel(["a", "b", Say("c", usage={"input": 7})])

    first = ask(model, think(*history)).usage
    second = ask(model, think(*history, assistant("a"), user("more"))).usage

    assert 0 == first.cache_read
    assert (first.input or 0) > 1_000
    assert (second.cache_read or 0) >= 896
    assert Usage(7) == ask(model, think()).usage


@colours
def test_free_text_calls_are_marked(ask: Asking) -> None:
    """A call to a tool that takes free text is a custom call."""
    setup = Setup(tools=(ToolSchema("patch", "", {}, custom_format={"type": "text"}),))

    reply = ask(ScriptedModel([Call("patch", "*** Begin")]), think(), setup=setup)

    assert ToolCall("call_1_0", "patch", "*** Begin", True) == reply.message.tool_calls[0]


@colours
def test_steps_that_make_no_sense_are_refused(ask: Asking) -> None:
    """Raw bytes and unknown stop reasons are errors of the script."""
    with pytest.raises(ScriptError, match="has no wire"):
        ask(ScriptedModel([Raw(b"")]), think())  # type: ignore[list-item]
    with pytest.raises(ScriptError, match="no model stops for the reason 'lunch'"):
        ask(ScriptedModel([Say("a", finish_reason="lunch")]), think())


def test_open_lines_are_counted() -> None:
    """A line counts from its opening to its first closing."""
    model = ScriptedModel([])
    channel = model.open(Setup())

    assert 1 == model.open_channels
    channel.close()
    channel.close()
    assert 0 == model.open_channels
