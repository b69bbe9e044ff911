"""Noticing that a turn gets nowhere."""

from __future__ import annotations

import pytest

from plait.core.messages import Message, StopReason, ToolCall, ToolResult, assistant, user
from plait.kernel.effects import End, Plan
from plait.kernel.guards import repeats
from plait.kernel.history import fault_in
from plait.kernel.rules import Guards, Rules
from tests.helpers.worlds import World, call, look_at, said


def rounds(pattern: str) -> list[Message]:
    """Make a history of rounds: one letter is one kind of call with one kind of result; `|` is a message between."""
    history: list[Message] = [user("task")]
    for number, letter in enumerate(pattern):
        if letter == "|":
            history.append(user("something new"))
        elif letter == "!":
            history.append(user("you repeat yourself", mark="guard"))
        else:
            history += [
                assistant(calls=[ToolCall(f"c{number}", "look", letter)]),
                Message("tool", (ToolResult(f"c{number}", letter),)),
            ]
    return history


@pytest.mark.parametrize(
    "pattern, count",
    [
        ("", 0),
        ("A", 0),
        ("AB", 0),
        ("AA", 2),
        ("BAAA", 3),
        ("ABAB", 2),
        ("ABABA", 2),
        ("ABABABAB", 4),
        ("ABCABCABC", 3),
        ("ABCDABCD", 0),
        ("AA|", 0),
        ("AA|A", 0),
        ("AA|AA", 2),
        ("AAAA!", 4),
        ("AAAA!A", 5),
        ("AAB", 0),
    ],
)
def test_repetition_is_counted_alone_in_twos_and_in_threes(pattern: str, count: int) -> None:
    """The trailing rounds that repeat are counted; something new from outside ends the count, our own words do not."""
    assert count == repeats(rounds(pattern))


def test_a_label_that_counts_is_no_other_call() -> None:
    """Words beside a call that no tool acts on do not make it another one; what a tool acts on does."""

    def asked(*raws: str) -> int:
        history: list[Message] = [user("task")]
        for number, raw in enumerate(raws):
            history += [
                assistant(calls=[ToolCall(f"c{number}", "look", raw)]),
                Message("tool", (ToolResult(f"c{number}", "same"),)),
            ]
        return repeats(history)

    assert 3 == asked('{"p":"a","label":"try 1"}', '{"label":"try 2","p":"a"}', '{"p":"a"}')
    assert 0 == asked('{"p":"a"}', '{"p":"b"}', '{"p":"c"}')
    assert 0 == asked('{"label":1', '{"label":2', "[1]")
    assert 0 == asked('{"label":"' + "x" * 5_000 + '"}', '{"label":"y"}')


def test_only_this_turn_counts() -> None:
    """Rounds of an earlier turn are not held against this one."""
    assert 2 == repeats(rounds("AAAA"), begin=5)


def test_another_result_is_no_repetition() -> None:
    """The same call with another result, or another status, is progress."""
    history = rounds("AAA")
    history[-1] = Message("tool", (ToolResult("c2", "A", status="error"),))

    assert 0 == repeats(history)


def same(state: object, ask: object) -> object:
    """A model that makes the same call for ever."""
    return said(call("look", f"c{state.steps}"))  # type: ignore[attr-defined]


def stubborn(**more: object) -> World:
    """A world whose calls always bring the same."""
    results = {f"c{number}": "nothing" for number in range(100)}
    return World(same, results=results, rules=Rules(max_steps=50, **more))  # type: ignore[arg-type]


def test_a_model_that_repeats_itself_is_told_and_stopped() -> None:
    """X91: after three equal rounds it is told, once; with the sixth the turn ends. The history stays valid."""
    world = stubborn()

    end = world.run()

    assert ("loop_guard", "the same tool calls gave the same results 6 times") == (end.reason, end.detail)
    assert 6 == len(world.thinks)
    told = [message for message in world.state.history if message.marked("guard")]
    assert ["The last 3 rounds"] == [message.content[:17] for message in told]


def test_ping_pong_is_noticed() -> None:
    """Two calls in turns are as good as one."""
    world = World(
        lambda state, _: said(call("look", f"c{state.steps}", f'{{"n":{state.steps % 2}}}')),
        results={f"c{number}": str(number % 2) for number in range(100)},
        rules=Rules(max_steps=50),
    )

    assert "loop_guard" == world.run().reason
    assert 12 == len(world.thinks)


def test_polling_is_progress_as_long_as_something_changes() -> None:
    """The same call may be made as often as it likes, while its results differ."""
    world = World(
        lambda state, _: said(call("look", f"c{state.steps}") if state.steps < 30 else "done"),
        results={f"c{number}": f"{number} %" for number in range(100)},
        rules=Rules(max_steps=50),
    )

    assert End("completed", "done") == world.run()
    assert 0 == world.state.nudges


@pytest.mark.parametrize("raw", ["{", "[]", '{"n": "x"}'])
def test_a_call_that_is_wrong_each_time_is_a_repetition(raw: str) -> None:
    """Calls that are answered without being run, with the same words, get nowhere, too; each has its result."""
    world = World(lambda state, _: said(call("count", f"c{state.steps}", raw)), rules=Rules(max_steps=50))

    assert "loop_guard" == world.run().reason
    assert 6 == len(world.thinks)
    assert 6 == sum(len(message.tool_results) for message in world.state.history)


def test_patience_is_set_by_the_rules() -> None:
    """How often it is told, and when it is stopped, is data."""
    world = stubborn(guards=Guards(repeats_told=2, repeats_max=5))

    world.run()

    assert 5 == len(world.thinks)
    assert 2 == world.state.nudges


def test_warnings_have_a_limit() -> None:
    """A model that ignores every warning is stopped at the next concern."""
    world = stubborn(guards=Guards(repeats_told=2, repeats_max=100, nudges_max=1))

    assert End("loop_guard", detail="the model keeps repeating itself") == world.run()
    assert 4 == len(world.thinks)


def test_an_empty_answer_is_not_the_end() -> None:
    """A model that says nothing is told so once, and is stopped when it goes on saying nothing."""
    once = World([said("  "), said("done")])
    always = World(lambda *_: said(""))

    assert End("completed", "done") == once.run()
    assert End("loop_guard", "", detail="the model gave empty answers") == always.run()
    assert 2 == len(always.thinks)


def test_a_cut_answer_goes_on() -> None:
    """An answer cut by the output limit goes on in the next one, and the reply is both together."""
    world = World([said("Once upon a time ", "length"), said("it ended.")])

    assert End("completed", "Once upon a time it ended.") == world.run()
    assert 1 == world.state.nudges


def test_an_answer_cut_again_is_truncated() -> None:
    """When it is cut once more, what there is is the reply and the reason says that it was cut."""
    world = World(lambda state, _: said(f"{state.steps}", "length"))
    end = world.run()

    assert ("truncated", "01") == (end.reason, end.reply)
    assert 2 == len(world.thinks)


@pytest.mark.parametrize("stop", ["length", "content_filter"])
def test_calls_cut_again_end_the_turn(stop: StopReason) -> None:
    """Calls that were cut off are told so by their results; where the next ones are cut off as well it is over."""
    world = World(lambda state, _: said(call("write", f"c{state.steps}", f'{{"text": "{state.steps}'), stop))

    assert ("truncated" if stop == "length" else stop) == world.run().reason
    assert (2, []) == (len(world.thinks), world.acts)
    assert fault_in(world.state.history) is None


def test_what_is_told_is_told_anew_after_progress() -> None:
    """Only what happens again at once ends a turn: with calls that ran in between the model is told once more."""
    work = iter(range(9))
    answers = [said(""), said(call("look", "a")), said("", "length"), said(call("look", "b")), said(""), said("done")]
    cut = [said([call("write", f"w{next(work)}")], "length"), said(look_at(f"l{next(work)}"))]

    assert End("completed", "done") == World(answers).run()
    assert End("completed", "done") == World([*cut, *cut, said("done")]).run()
    alternating = World(lambda state, _: said("", "length") if state.steps % 2 else said(""))
    assert ("loop_guard", 3) == (alternating.run().reason, len(alternating.thinks))


def test_how_often_it_is_told_is_data() -> None:
    """A model that needs many answers for one long text may be given them; all warnings of a turn have a limit."""
    patient = Rules(guards=Guards(tellings_max=2))
    long = World(lambda state, _: said(f"{state.steps}", "length"), rules=patient)

    assert ("truncated", "012") == ((end := long.run()).reason, end.reply)
    most = World(lambda *_: said(""), rules=Rules(guards=Guards(tellings_max=9, nudges_max=3)))
    assert ("loop_guard", 4) == (most.run().reason, len(most.thinks))


@pytest.mark.parametrize("text", ["", "half an ans"])
def test_a_filtered_answer_ends_the_turn(text: str) -> None:
    """A content filter's cut is surfaced with what there is, not argued with."""
    stop: StopReason = "content_filter"
    end = World([said(text, stop)]).run()

    assert ("content_filter", text) == (end.reason, end.reply)


def test_a_reply_is_only_what_belongs_together() -> None:
    """Answers before a hook's message, before calls, or of an earlier turn are not part of the reply."""
    world = World(
        [said("one"), said(call("look", "a")), said("two"), said("", "length"), said("three")],
        plans={(1, "final"): Plan(inject=(user("and?", mark="hook"),))},
    )
    world.run()

    assert ["one", "", "two"] == [m.content for m in world.state.history if m.role == "assistant"]
    assert End("completed", "three") == world.run(user("next"))


def test_a_warning_is_not_given_twice() -> None:
    """A process that dies between the warning and the request is followed by one that only asks."""
    world = stubborn()
    trace = world.turn(user("task"))
    cut = next(i for i, fact in enumerate(trace.facts) if getattr(fact, "message", user("")).marked("guard"))
    world.facts = list(trace.facts[: cut + 1])

    world.turn(resume=True)

    told = [message.content[:17] for message in world.state.history if message.marked("guard")]
    assert ["The last 3 rounds"] == told
