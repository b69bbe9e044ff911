"""A context between runs is held to its budget: cases C1 to C5 of the kernel face."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from plait.core.messages import Message, ToolResult, assistant, user
from plait.engine.agent import Agent
from plait.engine.context_manager import CompactionEvent, ContextManager
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.engine.summarizer import Summarized
from plait.kernel.history import fault_in
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.tools import Tool
from plait.testing import Call, Fail, ScriptedModel, Silence
from tests.helpers.worlds import look_at

BULKY = "w" * 200


def filled(messages: Sequence[Message], **options: Any) -> ContextManager:
    context = ContextManager(**options)
    for message in messages:
        context.add(message)
    return context


def test_c1_old_units_become_a_summary() -> None:
    """Five messages over the budget are a summary and the last two; what was done is told once."""
    context = filled(
        [user(BULKY), assistant(BULKY), user(BULKY), assistant(BULKY), user(BULKY)], budget=50, keep_recent_turns=2
    )

    shown = context.window()

    assert [True, False, False] == [message.content.startswith("Earlier in this session:") for message in shown]
    assert shown == context.messages()
    told = context.take_compaction()
    assert isinstance(told, CompactionEvent)
    assert (3, True) == (told.turns_collapsed, told.tokens_after < told.tokens_before)
    assert None is context.take_compaction()


def test_c2_a_call_and_its_result_stay_together() -> None:
    """A pair is one unit, kept whole behind the summary."""
    pair = [assistant(calls=[look_at("a")]), Message("tool", (ToolResult("a", BULKY),))]

    shown = filled([user(BULKY), assistant(BULKY), *pair], budget=50, keep_recent_turns=1).window()

    assert pair == shown[1:]
    assert fault_in(shown) is None
    # Nothing kept would grow for ever: one unit is.
    assert pair == filled([user(BULKY), assistant(BULKY), *pair], budget=50, keep_recent_turns=0).window()[1:]


def test_c3_fewer_units_than_are_kept_stay() -> None:
    """With nothing older than what is kept, and with nothing to be gained, the history stays, and nothing is told."""
    few = filled([user(BULKY), assistant(BULKY)], budget=10, keep_recent_turns=2)
    short = filled([user("a"), user("b"), user("c")], budget=1, keep_recent_turns=2)

    assert (2, 3) == (len(few.window()), len(short.window()))
    assert (None, None) == (few.take_compaction(), short.take_compaction())


@pytest.mark.parametrize("outcome", ["raises", "blank", "nothing"])
def test_c4_without_a_summary_a_list_stands(outcome: str) -> None:
    """Where the summarizer raises or returns nothing, what was asked is listed."""

    def summarizer(messages: Sequence[Message]) -> Any:
        if outcome == "raises":
            raise RuntimeError("no")
        return " " if outcome == "blank" else None

    messages = [user("rename foo. " + BULKY), *[assistant(BULKY)] * 3]
    shown = filled(messages, budget=50, keep_recent_turns=1, summarizer=summarizer).window()

    assert "Asked: rename foo." in shown[0].content
    written = filled(
        messages, budget=50, keep_recent_turns=1, summarizer=lambda messages: f"{len(messages)} went"
    ).window()
    assert "Earlier in this session: 3 went" == written[0].content


def test_c5_the_task_is_in_every_request() -> None:
    """Twenty bulky steps behind a short task: a turn, and the run after it, show the task's text."""
    steps = iter([*[Call("look", {"at": number}) for number in range(20)], "done", "and on"])
    look = Tool("look", "Look.", lambda at: f"{at}: {BULKY}", parameters={"type": "object"})

    def script(asked: Any) -> Any:
        assert any("rename foo" in message.content for message in asked.messages)
        return "Notes of what was done." if asked.purpose == "compaction" else next(steps)

    with ScriptedModel(script) as model:
        context = ContextManager(budget=100, keep_recent_turns=2)
        rules = Rules(shrinking=Shrinking(trigger_tokens=400, keep_last_units=2))
        agent = Agent(model, [look], context=context, rules=rules)
        assert "done" == agent.run("rename foo").text
        assert "and on" == agent.run("go on").text
        assert any("compaction" == asked.purpose for asked in model.requests)


def test_another_model_writes_the_summaries() -> None:
    """Requests for a summary go to the second model, in both colours; everything else is the first one's."""
    look = Tool("look", "Look.", lambda at: f"{at}: {BULKY * 4}", parameters={"type": "object"})
    rules = Rules(shrinking=Shrinking(trigger_tokens=500, keep_last_units=1))
    for is_async in (False, True):
        steps = [*[Call("look", {"at": number}) for number in range(5)], "done"]
        with ScriptedModel(steps) as model, ScriptedModel(lambda _: "Notes.", context_window=9_000) as other:
            both = Summarized(model, other)
            agent = Agent(both, [look], rules=rules)
            result = asyncio.run(agent.arun("go")) if is_async else agent.run("go")
            assert ("done", "scripted", 9_000, False) == (
                result.text,
                both.name,
                both.context_window,
                both.supports_images,
            )
            assert {"compaction"} == {asked.purpose for asked in other.requests}
            assert {"step"} == {asked.purpose for asked in model.requests}


def test_the_configuration_says_when_and_by_whom(tmp_path: Any) -> None:
    """History is summarised when the window less the answer's room is full; a failing summary leaves a list."""
    config = Config(working_dir=str(tmp_path), output_reserve=13_000, keep_recent_turns=1, enable_todo=True)
    steps = iter([*[Call("todo", {"items": [{"text": BULKY * 10 + str(number)}]}) for number in range(6)], "done"])
    with ScriptedModel(
        lambda asked: Fail("auth", "no") if asked.purpose == "compaction" else next(steps), context_window=16_000
    ) as model:
        agent, _, _ = build_runtime(config, model=model)
        result = agent.run("the task")
        assert "done" == result.text
        assert any(message.role == "summary" and "Earlier:" in message.content for message in result.messages)
    asked: list[str] = []

    class Named(ScriptedModel):
        def with_model(self, name: str) -> ScriptedModel:
            asked.append(name)
            return self

    with Named([]) as model:
        build_runtime(Config(working_dir=str(tmp_path), summarizer_model="small"), model=model)
    assert ["small"] == asked


@pytest.mark.parametrize("is_async", [False, True])
def test_a_summary_that_hangs_is_given_up(is_async: bool) -> None:
    """After its time a list stands in, in both colours, and the turn goes on."""
    steps = iter([*[Call("look", {"at": number}) for number in range(5)], "done"])
    look = Tool("look", "Look.", lambda at: f"{at}: {BULKY * 4}", parameters={"type": "object"})
    rules = Rules(shrinking=Shrinking(trigger_tokens=500, keep_last_units=1, summary_timeout_s=0.1))
    with ScriptedModel(lambda asked: Silence() if asked.purpose == "compaction" else next(steps)) as model:
        agent = Agent(model, [look], rules=rules)
        result = asyncio.run(agent.arun("go")) if is_async else agent.run("go")
    assert ("completed", "done") == (result.status, result.text)
    assert any(message.role == "summary" and "Tools used: look" in message.content for message in result.messages)
