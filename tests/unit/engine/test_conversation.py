"""A conversation: one turn at a time, its log, its line, what an earlier process left."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import JournalError, JournalFull, JournalPoisoned, SessionBusy
from plait.core.events import Committed, Event
from plait.core.facts import MessageAdded, Reset, ToolStart, TurnStart
from plait.core.messages import Message, Text, ToolCall, ToolResult, assistant, user
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.validation import compile_schema
from plait.kernel.effects import Outcome
from plait.kernel.history import fault_in
from plait.kernel.log import MemoryLog
from plait.kernel.ports import Setup
from plait.kernel.state import fold
from plait.kernel.tools import Tool, ToolTable
from plait.testing import Call, ScriptedModel


def echo(text: str) -> str:
    """Say it again."""
    return f"echo:{text}"


ECHO = Tool("echo", "x", echo)


def terms(*tools: Tool, **more: Any) -> Terms:
    """Return the terms of a conversation with these tools."""
    table = ToolTable(tools, compile=compile_schema)
    return Terms(table, Setup("", table.schemas), **more)


class FailingLog(MemoryLog):
    """A log whose barrier fails from the n-th on."""

    def __init__(self, fails_at: int) -> None:
        super().__init__(lambda: 0)
        self._left = fails_at

    def commit(self) -> None:
        """Fail when it is time."""
        self._left -= 1
        if self._left <= 0:
            raise JournalFull("no space left")
        super().commit()


def test_turns_share_one_line() -> None:
    """The line to the model is opened with the first turn and given back by `close`, in either colour."""

    async def aturns(model: ScriptedModel) -> int:
        conversation = Conversation(model, terms(), Workbench())
        for text in ("a", "b"):
            await conversation.aturn((user(text),))
        lines = model.open_channels
        await conversation.aclose()
        return lines

    with ScriptedModel(["one", "two", "three", "four"]) as model:
        conversation = Conversation(model, terms(), Workbench())
        assert 0 == model.open_channels
        for text in ("a", "b"):
            conversation.turn((user(text),))
        assert 1 == model.open_channels
        conversation.close()
        assert 1 == asyncio.run(aturns(model))
        assert 0 == model.open_channels


def test_one_turn_at_a_time() -> None:
    """A second turn, or a rewrite, in the middle of one is refused; the first goes on."""
    problems: list[BaseException] = []
    conversation: Conversation

    def again() -> None:
        for attempt in (lambda: conversation.turn(()), lambda: conversation.rewrite(0, 0, (), "x")):
            with pytest.raises(SessionBusy) as caught:
                attempt()
            problems.append(caught.value)

    with ScriptedModel([Call("again"), "done"]) as model:
        conversation = Conversation(model, terms(Tool("again", "x", again)), Workbench())
        end = conversation.turn((user("go"),))

    assert ("completed", 2) == (end.reason, len(problems))


def test_other_conversations_go_on_meanwhile() -> None:
    """Conversations of one workbench run at the same time, in threads and in tasks."""
    bench, meet = Workbench(), threading.Barrier(4, timeout=10)

    def wait() -> str:
        meet.wait()
        return "met"

    def turn() -> None:
        with ScriptedModel([Call("wait"), "done"]) as model:
            Conversation(model, terms(Tool("wait", "x", wait)), bench).turn((user("go"),))

    async def aturn() -> None:
        with ScriptedModel([Call("wait"), "done"]) as model:
            await Conversation(model, terms(Tool("wait", "x", wait)), bench).aturn((user("go"),))

    async def main() -> None:
        await asyncio.gather(aturn(), aturn())

    threads = [threading.Thread(target=turn) for _ in range(2)]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_log_that_fails_ends_the_conversation(fails_at: int) -> None:
    """After a failed barrier nothing more is promised: the turn is abandoned, and every later one refused."""
    log = FailingLog(fails_at)

    with ScriptedModel([Call("echo", {"text": "x"}), "done"], allow_unused=True) as model:
        conversation = Conversation(model, terms(ECHO), Workbench(), log=log, alog=log)
        with pytest.raises(JournalError):
            conversation.turn((user("go"),))
        with pytest.raises(JournalPoisoned, match="failed before: no space left"):
            conversation.turn((user("again"),))


def test_a_rewrite_is_a_fact() -> None:
    """Replaced history is recorded, and shown once it is safe."""
    heard: list[Event] = []
    with ScriptedModel([]) as model:
        conversation = Conversation(model, terms(), Workbench())
        conversation.observers.add(heard.append)
        conversation.rewrite(0, 0, (user("before"),), "host_edit")
        assert ([user("before")], []) == (conversation.state.history, heard)
        conversation.commit()

    (event,) = heard
    assert isinstance(event, Committed)
    assert Reset(0, 0, (user("before"),), "host_edit") == event.entry.fact


def test_a_rewrite_that_does_not_fit_changes_nothing() -> None:
    """A range outside of the history is refused, and neither the state nor the log has heard of it."""
    log = MemoryLog(lambda: 0)
    conversation = Conversation(ScriptedModel([]), terms(), Workbench(), log=log, alog=log)

    with pytest.raises(ValueError, match="messages 1 to 3"):
        conversation.rewrite(1, 3, (), "x")

    assert ([], []) == (conversation.state.history, log.entries)


def test_another_model_from_the_next_turn_on() -> None:
    """A conversation may change its model: the old line is given back, and the new one gets all of it."""
    with ScriptedModel(["one"]) as first, ScriptedModel(["two"]) as second:
        conversation = Conversation(first, terms(), Workbench())
        conversation.turn((user("a"),))
        conversation.change(first, conversation.terms)
        assert 1 == first.open_channels
        conversation.change(second, conversation.terms)
        conversation.turn((user("b"),))

    assert 0 == first.open_channels
    assert ["a", "one", "b"] == [message.content for message in second.requests[0].messages]


STARTED = (
    TurnStart(),
    MessageAdded(user("go")),
    MessageAdded(assistant("", [ToolCall.of("c1", "echo", {"text": "x"})]), None, "tool_calls"),
    ToolStart("c1"),
)


def test_what_an_earlier_process_left_is_finished_first() -> None:
    """An unfinished turn goes on before a new one; a call whose end nobody saw is unknown, and not run again."""
    ran: list[str] = []
    tool = Tool("echo", "x", ran.append)

    with ScriptedModel(["recovered", "done"]) as model:
        conversation = Conversation(model, terms(tool), Workbench(), state=fold(STARTED))
        end = conversation.turn((user("new task"),))

    assert ("done", []) == (end.reply, ran)
    (result,) = model.requests[0].messages[-1].tool_results
    assert "unknown" == result.status
    assert "Check before repeating it" in result.content
    assert fault_in(conversation.state.history) is None


def test_a_call_that_may_be_repeated_is_run_again() -> None:
    """A lost call of a tool that is as good twice as once simply runs."""
    with ScriptedModel(["recovered"]) as model:
        tool = Tool("echo", "x", echo, idempotent=True)
        conversation = Conversation(model, terms(tool), Workbench(), state=fold(STARTED))
        end = conversation.turn(resume=True)

    assert "recovered" == end.reply
    assert ["echo:x"] == [result.content for result in model.requests[0].messages[-1].tool_results]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_somebody_may_know_what_became_of_a_lost_call(colour: str) -> None:
    """A face that can find out how a lost call ended gives its result, in either colour."""

    def resolve(call: ToolCall, start: ToolStart, cancel: Cancel) -> Outcome:
        return Outcome.of(ToolResult(call.id, f"it had finished: {call.name}"))

    with ScriptedModel(["recovered"]) as model:
        conversation = Conversation(model, terms(ECHO, resolve=resolve), Workbench(), state=fold(STARTED))
        if colour == "sync":
            conversation.turn(resume=True)
        else:
            asyncio.run(conversation.aturn(resume=True))

    assert ["it had finished: echo"] == [result.content for result in model.requests[0].messages[-1].tool_results]


def test_a_history_that_is_handed_in_is_gone_on_with() -> None:
    """A state that was folded elsewhere is where the conversation begins."""
    state = fold((Reset(0, 0, (Message("summary", (Text("before"),)),), "restored"),))

    with ScriptedModel(["ok"]) as model:
        Conversation(model, terms(), Workbench(), state=state).turn((user("next"),))

    assert ["before", "next"] == [message.content for message in model.requests[0].messages]
