"""A request that is too large loses pictures before words, and a log tells it so that it can be run again."""

from __future__ import annotations

from plait.core.facts import MessageAdded, Reset, RetryScheduled
from plait.core.messages import Image, Message, Text, ToolResult
from plait.kernel.effects import Outcome, Think
from plait.kernel.media import LEFT_OUT
from plait.kernel.rerun import rerun
from plait.kernel.rules import Retry, Rules
from tests.helpers.worlds import World, failed, look_at, said

OLD, NEW = Image("b2xk"), Image("bmV3")


def test_older_pictures_go_first() -> None:
    """The newest message that has pictures keeps them until there is nothing else to leave out."""
    asked = Message("user", (Text("What is this?"), OLD))
    shown = Outcome.of(ToolResult("a", "a photo", images=(NEW,)))
    too_large = failed("request_too_large")
    world = World([said(look_at("a")), too_large, too_large, too_large], results={"a": shown})

    end = world.run(asked)

    assert "error" == end.reason
    assert [(0, 1), (2, 3)] == [(fact.start, fact.end) for fact in world.of_type(Reset)]
    assert f"What is this?{LEFT_OUT}" == world.state.history[0].content
    assert [f"a photo\n{LEFT_OUT}"] == [result.content for result in world.state.history[2].tool_results]
    assert not any(message.images for message in world.state.history)
    assert 0 == world.state.turn_began


def test_it_comes_out_the_same_again() -> None:
    """A failure that was waited out, pictures that were left out and the answer are told by the facts alone."""
    asked = Message("user", (Text("What is this?"), OLD))
    world = World([failed(), failed("request_too_large"), said("a cat")], rules=Rules(retry=Retry(seed=1)))
    assert "completed" == world.run(asked).reason

    told = rerun(world.facts, world.tools, world.rules, lambda _: "")

    assert (1, 1) == (len(world.of_type(RetryScheduled)), len(world.of_type(Reset)))
    assert (None, 0) == (told.difference, told.followed)


def test_a_request_that_said_more_has_no_digest() -> None:
    """A call that the server could not read is shown to the model once; no log claims to make that request again."""
    unreadable = failed("protocol", code="tool_use_failed", partial=Message("assistant", (Text("look("),)))
    replies = [unreadable, unreadable, said("fine")]
    world = World(replies, rules=Rules(retry=Retry(seed=1)))

    world.run()

    assert [0, 2, 0] == [len(ask.view.extra) for ask in world.thinks if isinstance(ask, Think)]
    assert ["user: Do the task.", "assistant: fine"] == world.history
    answers = [fact for fact in world.of_type(MessageAdded) if fact.message.role == "assistant"]
    assert [""] == [fact.sent for fact in answers]
