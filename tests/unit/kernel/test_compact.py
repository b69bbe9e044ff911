"""Making room."""

from __future__ import annotations

from itertools import dropwhile, takewhile
from typing import Any

from hypothesis import given, strategies as st

from plait.core.facts import Reset
from plait.core.messages import Image, Message, Text, ToolCall, ToolResult, assistant, user
from plait.kernel.compact import structural
from plait.kernel.effects import Compact, End, Interrupted, Plan
from plait.kernel.history import fault_in
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.spans import is_task, kept_of, select, size_chars
from tests.helpers.worlds import SPENT, TASK, World, call, failed, look_at, said

COMPACT = Plan(compact=Compact())


def history_of(units: list[str], began: int) -> tuple[list[Message], int]:
    """Make a valid history of questions (`u`), answers (`a`), summaries (`s`) and rounds (`r`)."""
    history: list[Message] = []
    turn_began = 0
    for number, unit in enumerate(units):
        if number == began:
            turn_began = len(history)
        if unit == "r":
            history += [assistant(calls=[call("look", f"c{number}")]), Message("tool", (ToolResult(f"c{number}"),))]
        else:
            role = {"u": "user", "a": "assistant", "s": "summary"}[unit]
            history.append(Message(role, (Text(f"{unit}{number}"),)))  # type: ignore[arg-type]
    return history, turn_began


histories = st.lists(st.sampled_from("uuarrrs"), max_size=14).flatmap(
    lambda units: st.integers(0, len(units)).map(lambda began: history_of(units, began))
)


@given(histories, st.integers(0, 6))
def test_what_goes_never_parts_a_round(made: tuple[list[Message], int], keep: int) -> None:
    """After any selection the history is still valid, the kept units are kept, and the question is in it, whole."""
    history, turn_began = made

    span = select(history, turn_began, keep)

    if span is None:
        return
    after = [*history[: span.start], Message("summary", (Text("S"),)), *kept_of(history, span), *history[span.end :]]
    assert fault_in(after) is None
    assert span.end - span.start >= 2
    assert keep == sum(message.role != "tool" for message in history[span.end :])
    question = takewhile(is_task, dropwhile(lambda message: not is_task(message), history[turn_began:]))
    assert all(any(message is each for each in after) for message in question)


@given(histories, st.integers(1, 6))
def test_shrinking_comes_to_an_end(made: tuple[list[Message], int], keep: int) -> None:
    """Summarising again and again ends with nothing left to summarise."""
    history, turn_began = made
    for _ in range(len(history) + 1):
        span = select(history, turn_began, keep)
        if span is None:
            return
        task = () if span.task is None else (span.task,)
        new = [*history[: span.start], Message("summary", (Text("S"),)), *task, *history[span.end :]]
        assert len(new) < len(history) or span.task is not None
        if len(new) == len(history):
            return  # a summary and the task, kept as they are: the sizes decide that nothing is gained
        history, turn_began = new, min(turn_began, span.start)
    raise AssertionError("no end")


def busy_world(**more: Any) -> World:
    """A world in which a turn with four long rounds is over."""
    ids = ["h0", "h1", "h2", "h3"]
    world = World(
        [*[said(look_at(each)) for each in ids], said("first answer")], results=dict.fromkeys(ids, "x" * 300), **more
    )
    world.run(user("First task."))
    return world


def test_a_plan_summarises() -> None:
    """The old messages give way to the model's notes, the last units stay, and the cost is recorded."""
    world = busy_world().script([said(" NOTES \n"), said("done")], plans={(1, "step"): COMPACT})

    assert "completed" == world.run().reason
    assert [
        "summary: NOTES",
        "assistant: h2",
        "tool: h2",
        "assistant: h3",
        "tool: h3",
        "assistant: first answer",
        "user: Do the task.",
        "assistant: done",
    ] == world.history
    (reset,) = world.of_type(Reset)
    assert ("compaction", SPENT) == (reset.why, reset.usage)
    assert 20 == world.state.turn_usage.input


def test_the_request_for_notes_extends_the_prefix() -> None:
    """The notes are asked for at the end of the history as it was sent, so that a cache holds it."""
    world = busy_world()
    before = tuple(world.state.history)

    world.script([said("NOTES"), said("done")], plans={(1, "step"): COMPACT}).run()

    assert (*before, TASK) == world.requests[0][:-1]
    assert world.requests[0][-1].marked("compaction")
    assert "compaction" == world.thinks[0].purpose


def test_after_an_overflow_only_what_goes_is_shown() -> None:
    """What is known not to fit is not sent again whole."""
    world = busy_world()
    whole = (*world.state.history, TASK)

    world.script([failed("context_overflow"), said("NOTES"), said("done")]).run()

    assert whole == world.requests[0]
    assert whole[:5] == world.requests[1][:-1]


def test_without_a_model_the_notes_are_structural() -> None:
    """When the request for notes fails, or brings no words, what is known without a model stands in."""
    for reply in (failed("auth"), said(""), said(call("look", "z"))):
        world = busy_world().script([reply, said("done")], plans={(1, "step"): COMPACT})

        assert "completed" == world.run().reason
        (summary,) = (message for message in world.state.history if message.role == "summary")
        assert "Earlier: 1 user" in summary.content
        assert "First task." in summary.content


def test_what_gains_nothing_is_not_applied() -> None:
    """Notes that are longer than what they replace are dropped; what they cost is recorded."""
    world = busy_world().script([said("N" * 5000), said("done")], plans={(1, "step"): COMPACT})
    before = [*world.state.history]

    world.run()

    (skipped,) = world.of_type(Reset)
    assert (True, "compaction_skipped", SPENT) == (skipped.is_skipped, skipped.why, skipped.usage)
    assert (0, before) == (world.state.epoch, world.state.history[: len(before)])
    assert 20 == world.state.turn_usage.input


def test_what_was_of_no_use_after_an_overflow_is_paid_for_too() -> None:
    """The turn ends with the overflow, and the cost of the notes is in its usage."""
    world = busy_world().script([failed("context_overflow"), said("N" * 5000)])

    assert "error" == world.run().reason
    (skipped,) = world.of_type(Reset)
    assert ("overflow_skipped", SPENT) == (skipped.why, skipped.usage)
    assert SPENT.input == world.state.turn_usage.input


def test_nothing_old_asks_nobody() -> None:
    """With nothing older than what is kept, no request for notes is made."""
    world = World([said("done")], plans={(1, "step"): COMPACT})

    world.run()

    assert ["step"] == [ask.purpose for ask in world.thinks]


def test_half_a_summary_is_no_answer() -> None:
    """Interrupted while the notes are written, the turn ends without them in the history."""
    cut = Interrupted("interrupted", assistant("1. Objec"))
    world = busy_world().script([cut], plans={(1, "step"): COMPACT})

    assert "interrupted" == world.run().reason
    assert "user: Do the task." == world.history[-1]


def test_an_earlier_summary_is_merged() -> None:
    """A second compaction replaces the first summary; there is one, and the views of before stay what they were."""
    world = busy_world(rules=Rules(shrinking=Shrinking(keep_last_units=1)))
    for number in range(2):
        world.script([said(f"NOTES {number}"), said("z" * 300)], plans={(1, "step"): COMPACT})
        before = world.state.view()
        shown = before.messages
        world.run(user(f"Task {number}."))
        assert shown == before.messages

    assert ["NOTES 1"] == [message.content for message in world.state.history if message.role == "summary"]
    assert 2 == world.state.epoch


def test_a_compaction_at_the_end_keeps_the_answer() -> None:
    """History may be shortened where the turn would end; the answer is still the answer."""
    world = busy_world().script(
        [said("done"), said("NOTES")],
        plans=lambda state, at: COMPACT if at.phase == "final" and state.epoch == 0 else Plan(),
    )

    assert End("completed", "done") == world.run()
    assert 1 == world.state.epoch


def test_structural_notes_name_what_they_can() -> None:
    """Counts, questions, tools and paths come from the messages; guards' words are not the user's."""
    notes = structural(
        [
            Message("summary", (Text("before that"),)),
            user("Fix it."),
            user("Go on.", mark="guard"),
            assistant(calls=[ToolCall("a", "look", '{"path": "b.py"}'), ToolCall("b", "look", '{"path": "a.py"}')]),
            assistant(
                calls=[ToolCall("c", "write", '{"path": 3}'), ToolCall("d", "write", "[1"), ToolCall("e", "x", "[]")]
            ),
        ]
    )

    assert [
        "Earlier: 2 user and 2 assistant messages.",
        "before that",
        "Asked: Fix it.",
        "Tools used: look ×2, write ×2, x ×1",
        "Files: a.py, b.py",
    ] == notes.splitlines()


def test_size_counts_all_words() -> None:
    """Words, thoughts, calls and results count; a picture does not."""
    messages = [user("ab", [Image("x" * 99)]), assistant("c", [ToolCall("a", "de", "fg")])]

    assert 7 == size_chars(messages)
    assert 3 == size_chars([Message("tool", (ToolResult("a", "hij"),))])
