"""Observers hear everything they asked for, and cannot break what they observe."""

from __future__ import annotations

import pytest

from plait.core.events import AttemptReset, Committed, Delta, Event, Piece, StreamEnd
from plait.core.facts import TurnEnd
from plait.core.messages import user
from plait.engine.agent import Agent
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.observers import Observers
from plait.kernel.history import fault_in
from plait.kernel.ports import Setup
from plait.kernel.rules import Retry, Rules
from plait.kernel.tools import Tool, ToolTable
from plait.testing import Call, Fail, Say, ScriptedModel
from tests.unit.engine.runs import Colour, both, run


def test_handlers_by_type_in_the_order_they_came() -> None:
    """A handler hears the types it named, or all of them; its undo can be called twice."""
    observers, heard = Observers(), []
    undo = observers.add(lambda event: heard.append(("end", event)), StreamEnd)
    observers.add(lambda event: heard.append(("all", event)))
    first, second = StreamEnd(1), Delta("content", "x", 1)
    observers.publish(first)
    observers.publish(second)
    undo()
    undo()
    observers.publish(first)

    assert [("end", first), ("all", first), ("all", second), ("all", first)] == heard


def test_a_fault_is_kept_and_raised_once() -> None:
    """The first exception of a handler is raised when the host asks, once; the other handlers have heard the event."""
    observers, heard = Observers(), []

    def fail(event: Event) -> None:
        raise KeyError("first")

    observers.add(fail)
    observers.add(heard.append)
    observers.publish(StreamEnd(1))
    observers.publish(StreamEnd(2))

    with pytest.raises(KeyError, match="first"):
        observers.raise_fault()
    observers.raise_fault()
    assert 2 == len(heard)


def test_fragments_are_wanted_by_those_who_take_them() -> None:
    """Fragments are made while a handler takes them, by type or by taking everything."""
    observers = Observers()
    assert not observers.wants_deltas
    observers.add(lambda event: None, StreamEnd)
    assert not observers.wants_deltas
    undo = observers.add(lambda event: None, Delta)
    assert observers.wants_deltas
    undo()
    assert not observers.wants_deltas


def test_who_reads_hears_the_words_in_order() -> None:
    """A reader hears words and nothing else, alone and beside handlers, in the order in which they came."""
    observers, heard = Observers(), []
    pieces: list[Piece] = [("reasoning", "hm"), ("content", "a"), ("tool_arguments", "{}"), ("content", "b")]
    stop = observers.add_text(lambda text: heard.append(("read", text)))
    observers.publish_pieces(pieces, 1)
    undo = observers.add(lambda event: heard.append(("heard", event)), Delta)
    observers.publish_pieces(pieces[1:2], 2)
    undo()
    observers.publish_pieces(pieces[3:], 3)
    stop()
    observers.publish_pieces(pieces, 4)

    alone, beside = [("read", "a"), ("read", "b")], [("read", "a"), ("heard", Delta("content", "a", 2))]
    assert [*alone, *beside, ("read", "b")] == heard
    assert not observers.wants_deltas


def test_a_reader_that_fails_is_a_handler_that_fails() -> None:
    """A reader's exception is kept, the others hear on, and one that leaves hears no further word."""
    observers, heard = Observers(), []

    def fail(text: str) -> None:
        raise KeyError(text)

    def leave(text: str) -> None:
        heard.append(text)
        stop()

    observers.add_text(fail)
    stop = observers.add_text(leave)
    observers.publish_pieces([("content", "a"), ("content", "b")], 1)

    with pytest.raises(KeyError, match="a"):
        observers.raise_fault()
    assert ["a"] == heard


@both
@pytest.mark.parametrize("kind", [Committed, Delta, StreamEnd])
def test_a_handler_that_fails_ends_the_run_with_a_valid_history(colour: Colour, kind: type[Event]) -> None:
    """Its exception comes out of the run, after every call has its result."""

    def fail(event: Event) -> None:
        if isinstance(event, kind):
            raise ZeroDivisionError

    steps = [Say("thinking", calls=[Call("echo")]), "done"]
    with ScriptedModel(steps, allow_unused=True) as model, pytest.raises(ZeroDivisionError):
        run(Agent(model, [Tool("echo", "x", lambda: "")], on_event=fail), colour)

    assert 0 == model.open_channels


def test_the_facts_of_a_failed_turn_are_closed() -> None:
    """After a handler's fault the turn has its end, and the conversation goes on."""
    table = ToolTable([Tool("echo", "x", lambda: "", mutates=True)])
    with ScriptedModel([Call("echo"), "after"]) as model:
        conversation = Conversation(model, Terms(table, Setup("", table.schemas)), Workbench())

        def fail(event: Event) -> None:
            if isinstance(event, Committed) and "ToolStart" in repr(event):
                raise ZeroDivisionError

        undo = conversation.observers.add(fail)
        end = conversation.turn((user("go"),))
        undo()
        again = conversation.turn((user("go on"),))

    assert (ZeroDivisionError, "after") == (type(end.error), again.reply)
    assert fault_in(conversation.state.history) is None


@both
def test_what_is_published_of_a_run(colour: Colour) -> None:
    """Fragments come at once, a withdrawn attempt is told, and facts come after their barrier, in order."""
    heard: list[Event] = []
    steps = [Fail("timeout", after=["hal"]), Say(["hel", "lo"])]
    with ScriptedModel(steps) as model:
        agent = Agent(model, on_event=heard.append, rules=Rules(retry=Retry(base_s=0.001)))
        run(agent, colour)

    shown = [event for event in heard if not isinstance(event, Committed)]
    assert [
        Delta("content", "hal", 1),
        AttemptReset(1, 2, 1),
        Delta("content", "hel", 1),
        Delta("content", "lo", 1),
        StreamEnd(1),
    ] == shown
    entries = [event.entry for event in heard if isinstance(event, Committed)]
    assert list(range(1, len(entries) + 1)) == [entry.seq for entry in entries]
    assert isinstance(entries[-1].fact, TurnEnd)


@both
def test_text_as_it_comes(colour: Colour) -> None:
    """`on_text` gets the fragments of answers and nothing else."""
    said: list[str] = []
    with ScriptedModel([Say("I look.", reasoning="hm", calls=[Call("echo")]), "done"]) as model:
        run(Agent(model, [Tool("echo", "x", lambda: "")]), colour, on_text=said.append)

    assert "I look.done" == "".join(said)
