"""A turn, played without a world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plait.core.exchange import Reply
from plait.core.facts import MessageAdded, TurnEnd, TurnStart
from plait.core.messages import Control, Message, Reasoning, StopReason, Text, ToolCall, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.kernel.effects import (
    NOTHING,
    Act,
    Allow,
    Approve,
    Boundary,
    End,
    Interrupted,
    Outcome,
    Plan,
    Record,
    Replace,
    Stop,
    Think,
    Wait,
)
from plait.kernel.loop import turn
from plait.kernel.rules import Rules
from plait.kernel.scripted import play
from plait.kernel.state import State
from tests.helpers.worlds import TABLE, TASK, World, call, failed, said


def test_words_are_an_answer() -> None:
    """A model that only speaks is asked once, and its words are the reply."""
    world = World([said("hello")])

    assert End("completed", "hello") == world.run(user("hi"))
    assert ["user: hi", "assistant: hello"] == world.history
    assert [(1, "step"), (1, "final")] == world.boundaries


def test_the_order_of_effects() -> None:
    """Judge, record the start, start, wait, record the end, ask again: effects come in this order and no other."""
    look = call("look", "a")
    trace = play(
        turn(State(), TABLE, Rules(), (TASK,)),
        iter(
            [NOTHING, said(look), Allow(look), (Outcome.of(ToolResult("a", "seen")),), NOTHING, said("done"), NOTHING]
        ),
    )

    kinds = [type(effect) for effect in trace.effects]
    assert [
        Record, Boundary, Think, Record,
        Approve, Record, Act, Wait, Record, Record,
        Boundary, Think, Record, Boundary, Record,
    ] == kinds  # fmt: skip
    assert End("completed", "done") == trace.end


def test_a_call_and_its_result_are_paired() -> None:
    """The next request ends with the calls and one message of their results, in the order of the calls."""
    world = World([said([call("look", "a"), call("look", "b"), call("write", "c")]), said("done")], together=1)

    world.run()

    assert ["user: Do the task.", "assistant: a,b,c", "tool: a,b,c", "assistant: done"] == world.history
    assert {"a": 1, "b": 1, "c": 1} == world.ran
    assert [("a", "b"), ("c",)] == [tuple(call.id for call in act.calls) for act in world.acts]


def test_a_later_batch_is_judged_after_an_earlier_one_ended() -> None:
    """A call that may change something is only judged when the calls before it have their results."""
    world = World([said([call("write", "a"), call("write", "b")]), said("done")])

    trace = world.turn(TASK)

    judged = [index for index, effect in enumerate(trace.effects) if isinstance(effect, Approve)]
    waited = [index for index, effect in enumerate(trace.effects) if isinstance(effect, Wait)]
    assert judged[0] < waited[0] < judged[1] < waited[1]


@pytest.mark.parametrize("stop", ["end_turn", "length"])
def test_an_answer_can_be_the_last_one(stop: StopReason) -> None:
    """An answer that halts the turn is recorded, even one that was cut off, and nothing is asked after it."""
    halt = RuntimeError("enough")
    world = World([Reply(assistant("words"), stop, halt=halt)])

    trace = world.turn(TASK)

    assert End("error", error=halt, detail="enough") == trace.end
    assert ["user: Do the task.", "assistant: words"] == world.history


def test_calls_of_the_last_answer_do_not_run() -> None:
    """Where an answer halts the turn its calls are closed, one result each, and none was judged."""
    asked = said([call("look", "a"), call("write", "b")])
    halt = RuntimeError("enough")
    world = World([replace(asked, halt=halt)])

    trace = world.turn(TASK)

    assert End("error", error=halt, detail="enough") == trace.end
    assert ["user: Do the task.", "assistant: a,b", "tool: a,b"] == world.history
    assert ["cancelled", "cancelled"] == [result.status for result in world.state.history[-1].tool_results]
    assert [] == [effect for effect in trace.effects if isinstance(effect, Approve)]


def test_steps_have_a_limit() -> None:
    """After as many answers as the rules allow, the turn ends with a valid history and says why."""
    world = World(
        lambda state, _: said(call("look", f"c{state.steps}", f'{{"n": {state.steps}}}')), rules=Rules(max_steps=3)
    )

    end = world.run()

    assert ("max_steps", None) == (end.reason, end.reply)
    assert "max iterations" in end.detail
    assert 3 == len(world.thinks)
    assert "tool: c2" == world.history[-1]


def test_steering_joins_at_the_boundary() -> None:
    """A message that a plan injects is in the next request, after the results that were there."""
    steer = user("look left", mark="steering")
    world = World([said(call("look", "a")), said("done")], plans={(2, "step"): Plan(inject=(steer,))})

    world.run()

    assert ["assistant: a", "tool: a", "user: look left", "assistant: done"] == world.history[1:]
    assert steer == world.requests[1][-1]


def test_a_stop_hook_goes_on_once() -> None:
    """A message injected where the turn would end makes the model go on; without another one it ends."""
    plans = {(1, "final"): Plan(inject=(user("not yet", mark="hook"),))}
    world = World([said("done?"), said("done!")], plans=plans)

    assert End("completed", "done!") == world.run()
    assert [(1, "step"), (1, "final"), (2, "step"), (2, "final")] == world.boundaries


def test_a_plan_can_stop_the_turn() -> None:
    """A stop at a boundary ends the turn without another request; at the last one it keeps the answer."""
    early = World([], plans={(1, "step"): Plan(stop=Stop("limit", "no money left"))})
    late = World([said("here it is")], plans={(1, "final"): Plan(stop=Stop("limit", "no money left"))})

    assert End("limit", detail="no money left") == early.run()
    assert End("limit", "here it is", detail="no money left") == late.run()
    assert [TurnEnd("limit", "no money left")] == late.of_type(TurnEnd)


def test_a_plan_can_answer_for_the_model() -> None:
    """A final reply is taken as the model's answer: no request is made, and the last boundary is still asked."""
    world = World([], plans={(1, "step"): Plan(final_reply="from the cache")})

    assert End("completed", "from the cache") == world.run()
    assert ["user: Do the task.", "assistant: from the cache"] == world.history
    assert [(1, "step"), (1, "final")] == world.boundaries


def test_a_plan_is_obeyed_in_order() -> None:
    """Replace, then inject, then the final reply."""
    plan = Plan(replace=Replace(0, 1, (user("short"),), "reduce"), inject=(user("more"),), final_reply="ok")
    world = World([], plans={(1, "step"): plan})

    world.run()

    assert ["user: short", "user: more", "assistant: ok"] == world.history
    assert 1 == world.state.epoch


@pytest.mark.parametrize(
    "plan",
    [
        Plan(replace=Replace(0, 99, (), "x")),
        Plan(replace=Replace(2, 1, (), "x")),
        Plan(replace=Replace(-1, 0, (), "x")),
        Plan(replace=Replace(1, 2, (), "parts a call from its result")),
        Plan(replace=Replace(0, 0, (assistant(calls=[call("look", "z")]),), "leaves a call open")),
        Plan(inject=(Message("tool", (ToolResult("z"),)),)),
        Plan(inject=(assistant(calls=[call("look", "z")]),)),
    ],
)
def test_a_plan_cannot_break_the_history(plan: Plan) -> None:
    """What no provider would take is refused before it is recorded, and the turn is closed with an error."""
    world = World([said(call("look", "a")), said("done")], plans={(2, "step"): plan})

    end = world.run()

    assert "error" == end.reason
    assert isinstance(end.error, ValueError)
    assert ["user: Do the task.", "assistant: a", "tool: a"] == world.history
    assert not world.state.in_turn


def test_inputs_hold_no_calls() -> None:
    """A turn that would begin with calls or results is refused before anything is recorded."""
    world = World([])

    with pytest.raises(ValueError, match="tool calls"):
        world.turn(assistant(calls=[call("look", "a")]))
    assert [] == world.facts


def test_a_turn_without_inputs_goes_on() -> None:
    """Nothing has to be said for the model to be asked again."""
    world = World([said("one"), said("two")])
    world.run()

    assert End("completed", "two") == world.turn().end
    assert ["assistant: one", "assistant: two"] == world.history[1:]


def test_the_sender_is_recorded() -> None:
    """A turn that somebody else than the user began says who."""
    trace = play(turn(State(), TABLE, Rules(), (TASK,), sender="hook:ci"), iter([]))

    assert [TurnStart(sender="hook:ci"), MessageAdded(TASK)] == trace.facts
    assert Boundary(1, "step") == trace.pending
    assert trace.end is None


def test_a_pause_asks_again() -> None:
    """A model that pauses is asked again with what it said, up to the limit of steps."""
    world = World([said("let me think", "pause"), said("done")])

    assert End("completed", "done") == world.run()
    assert "assistant: let me think" == world.history[1]
    assert 2 == len(world.requests[1])


def test_a_refusal_is_an_answer() -> None:
    """A model that refuses, even without words, has answered."""
    world = World([said("", "refusal")])

    assert End("completed", "") == world.run()


def test_thoughts_are_no_answer() -> None:
    """An answer that only thinks is empty: the model is told, and asked again."""
    world = World([said(Message("assistant", (Reasoning("hm"),))), said("done")])

    assert End("completed", "done") == world.run()
    assert world.state.history[2].marked("guard")


def test_ids_used_before_are_made_unique() -> None:
    """A provider that counts its calls from zero in every answer does not get two results for one id."""
    world = World([said(call("look", "0")), said([call("look", "0", '{"b":1}'), call("write", "")]), said("done")])

    world.run()

    assert ["assistant: 0", "tool: 0", "assistant: 0-2,call", "tool: 0-2,call"] == world.history[1:5]


def test_a_repeated_call_is_one_call() -> None:
    """The same call twice in one answer runs once; another call under its id gets an id of its own."""
    twice = call("look", "a")
    world = World([said([twice, twice, call("look", "a", '{"b":1}')]), said("done")])

    world.run()

    assert ["a", "a-2"] == [call.id for call in world.state.history[1].tool_calls]
    assert {"a": 1, "a-2": 1} == world.ran


def test_ids_of_replaced_messages_stay_taken() -> None:
    """After history was put in place from outside, its call ids are not given out again."""
    earlier = (assistant(calls=[call("look", "a")]), Message("tool", (ToolResult("a"),)))
    plans = {(1, "step"): Plan(replace=Replace(0, 0, earlier, "context"))}
    world = World([said(call("look", "a")), said("done")], plans=plans)

    world.run()

    assert "assistant: a-2" == world.history[3]


def test_free_text_is_for_tools_that_take_it() -> None:
    """A custom call to a tool that takes JSON gets an error result instead of a guess."""
    free = ToolCall("a", "look", "free {text", custom=True)
    world = World([said(free), said("done")])

    world.run()

    assert "takes JSON arguments" in world.result("a").content


def test_a_crashed_turn_is_closed_by_the_next() -> None:
    """A new turn over a broken one first says that the old one ended, and answers its open calls."""
    world = World([said([call("write", "a"), call("write", "b")]), said("fresh")])
    world.turn(TASK, answers=[NOTHING, said([call("write", "a"), call("write", "b")]), Allow(call("write", "a"))])

    world.script([said("fresh")])
    assert End("completed", "fresh") == world.turn(user("again")).end
    assert ["interrupted", "completed"] == [fact.reason for fact in world.of_type(TurnEnd)]
    assert ("unknown", "cancelled") == (world.result("a").status, world.result("b").status)
    assert ["tool: a,b", "user: again", "assistant: fresh"] == world.history[2:]


def test_an_interrupted_answer_is_no_answer() -> None:
    """What the model had said when it was interrupted stays, marked; resuming asks it again."""
    partial = assistant("Once upon")
    world = World([Interrupted("interrupted", partial), said("a time")])

    assert End("interrupted") == world.run()
    assert Message("assistant", (Text("Once upon\n[interrupted]"), Control("interrupted"))) == world.state.history[-1]
    assert End("completed", "a time") == world.turn(resume=True).end


def test_what_an_interrupted_answer_used_is_recorded() -> None:
    """What the endpoint had said of it stands in the turn's end, and counts."""
    spent = Usage(7, 0)
    world = World([Interrupted("interrupted", assistant("Once"), usage=spent)])

    assert "interrupted" == world.run().reason
    assert spent == world.of_type(TurnEnd)[-1].usage
    assert 7 == world.state.usage.input


def test_a_finished_turn_can_be_resumed() -> None:
    """Resuming what was already answered asks no model and gives the answer again."""
    world = World([said("done")])
    world.run()

    assert End("completed", "done") == world.turn(resume=True).end
    assert 1 == len(world.thinks)


def test_a_crash_leaves_nothing_behind() -> None:
    """A loop that is dropped in the middle records no more; its facts are the prefix of a turn."""
    trace = play(turn(State(), TABLE, Rules(), (TASK,)), iter([NOTHING]))

    assert [TurnStart(), MessageAdded(TASK)] == trace.facts
    assert isinstance(trace.pending, Think)


def test_a_failure_that_is_no_answer_to_a_request_has_no_place_in_the_loop() -> None:
    """`ProviderFailed` enters the loop at a request and nowhere else: the drivers see to it."""
    with pytest.raises(type(failed())):
        play(turn(State(), TABLE, Rules(), (TASK,)), iter([failed()]))
