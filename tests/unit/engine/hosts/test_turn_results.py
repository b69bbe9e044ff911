"""What the results of a turn may take together, and looks that bring nothing new."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plait.core.messages import Message
from plait.engine.agent import Agent
from plait.engine.context_manager import ContextManager
from plait.engine.limits import Limits
from plait.engine.spec import default_specification
from plait.engine.spec_limits import limits_of_spec
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, ScriptedModel

SPEC = default_specification("m", "http://127.0.0.1:1/v1") | {
    "behaviour": {"call_delivery_mode": "structured_tool_calls"}
}


def results(messages: Any) -> list[str]:
    """Return the texts of all tool results, in order."""
    return [result.content for message in messages for result in message.tool_results]


def long(n: int, note: str = "") -> str:
    """Return lines."""
    return "\n".join(f"line {index}" for index in range(n))


LOOK = Tool("look", "Look.", long, idempotent=True, parallel_safe=True)
ACT = Tool("act", "Act.", long, mutates=True)


@pytest.mark.parametrize("most, cut", [(4_999, True), (5_000, False), (5_001, False)])
def test_a_turn_has_room_for_so_many_tokens_of_results(most: int, cut: bool) -> None:
    """Two results of 10,000 characters each fit into 5,000 tokens exactly; one token less cuts the second one."""
    size = 10_000
    tool = Tool("fill", "Fill.", lambda: "x" * size)
    calls = [Call("fill", id="c0"), Call("fill", id="c1"), "done"]

    with ScriptedModel(calls) as model:
        limits = Limits(max_turn_result_tokens=most)
        told = results(Agent(model, [tool], limits=limits).run("go").messages)

    assert (size, cut) == (len(told[0]), "characters left out" in told[1])
    assert cut == (told[1] != told[0])


def test_each_result_keeps_a_little() -> None:
    """When a turn has shown all it may, a result still shows its beginning and its end; another turn begins anew."""
    calls = [
        [Call("look", {"n": 400}, id=f"c{number}") for number in range(3)],
        "done",
        Call("look", {"n": 400}),
        "done",
    ]

    with ScriptedModel(calls) as model:
        agent = Agent(model, [LOOK], limits=Limits(max_turn_result_tokens=1), context=ContextManager())
        told = results(agent.run("go").messages)
        later = results(agent.run("again").messages)

    assert all(2_000 < len(text) < 2_100 and text.startswith("line 0\n") and text.endswith("line 399") for text in told)
    assert 4 == len(later)
    assert 2_000 < len(later[-1]) < 2_100


def test_what_is_cut_is_in_a_file_that_the_model_can_read(tmp_path: Path) -> None:
    """In a session any tool's long result is kept whole, and `read_file` opens it; without that tool none is named."""
    calls = [Call("look", {"n": 3_000}, id="c0"), "done"]
    with (
        ScriptedModel(calls) as model,
        init_session(
            SPEC,
            tools=[LOOK],
            limits=Limits(max_tool_result_tokens=1_000),
            session_dir=str(tmp_path),
            strict_cache_proof=False,
        ) as session,
    ):
        run_turn(model, "m", session, "go")
        (told,) = [item["content"] for item in session["messages"] if item["role"] == "tool"]
        path = told.split("all of it is in ")[1].split(": open it with read_file")[0]
        kept = Path(path).read_text()

    assert (True, long(3_000)) == (len(told) <= 4_100, kept)


def test_an_equal_look_is_told_in_a_sentence_where_somebody_wants_that() -> None:
    """The same look with the same result says that it brought nothing new; nothing that was sent is changed."""
    steps = [
        Call("look", {"n": 100, "note": "a"}, id="c0"),
        Call("look", {"n": 100, "note": "b"}, id="c1"),
        Call("look", {"n": 101}, id="c2"),
        Call("act", {"n": 100}, id="c3"),
        Call("act", {"n": 100}, id="c4"),
        Call("look", {"n": 10}, id="c5"),
        Call("look", {"n": 10}, id="c6"),
        "done",
    ]
    with ScriptedModel(steps) as model:
        result = Agent(model, [LOOK, ACT], limits=Limits(dedupe_reads=True)).run("go")

    told = results(result.messages)
    sentence = f"Unchanged: the same call brought the same {len(long(100))} characters before; see there."
    assert [long(100), sentence, long(101), long(100), long(100), long(10), long(10)] == told
    shown: list[list[Message]] = [list(request.messages) for request in model.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(shown))


def test_a_look_that_is_no_longer_shown_brings_all_of_it() -> None:
    """Without being asked for nothing is left out, and what history has lost is shown again."""
    twice = [Call("look", {"n": 100}, id="c0"), "done", Call("look", {"n": 100}, id="c1"), "done"]
    with ScriptedModel(twice) as model:
        agent = Agent(model, [LOOK], limits=Limits(dedupe_reads=True))
        assert long(100) == results(agent.run("go").messages)[0]
        assert long(100) == results(agent.run("go").messages)[0]
    with ScriptedModel([Call("look", {"n": 100}), Call("look", {"n": 100}), "done"]) as model:
        assert [long(100)] * 2 == results(Agent(model, [LOOK]).run("go").messages)


def test_a_spec_says_it_too() -> None:
    """Both stand in a spec's limits."""
    told = {"max_turn_result_tokens": 9_000, "dedupe_reads": True}

    assert Limits(max_turn_result_tokens=9_000, dedupe_reads=True) == limits_of_spec({"limits": told}, Limits())
