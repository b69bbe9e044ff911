"""From calls to exactly one result each: judged, run, answered without running, or left waiting."""

from __future__ import annotations

import pytest

from plait.core.facts import Asked, Decided, RoundClosed, ToolEnd, ToolStart, TurnStart
from plait.core.messages import StopReason, ToolResult, user
from plait.kernel.effects import NOTHING, Act, Allow, Approve, Ask, Deny, End, Interrupted, Outcome
from plait.kernel.tools import Recovery, Tool, ToolTable
from tests.helpers.worlds import TASK, TOOLS, World, call, needs_number, said


@pytest.mark.parametrize(
    "asked, words",
    [
        (call("nope", "a"), "Unknown tool 'nope'. The tools here are: look, write, count."),
        (call("count", "a", '{"n": "three"}'), "Invalid arguments for 'count': 'n' must be a whole number."),
        (call("look", "a", '{"n": '), "Invalid arguments for 'look': "),
        (call("look", "a", "[1]"), "a JSON object is wanted, not an array"),
        (call("look", "a", '{"n": NaN}'), "NaN is not a JSON number"),
        (call("look", "a", ""), "Send one JSON object"),
    ],
)
def test_a_call_that_cannot_run_is_answered(asked: object, words: str) -> None:
    """Unknown tools and arguments that do not fit get an error result; nobody is asked, and the turn goes on."""
    world = World([said(asked), said("done")])  # type: ignore[arg-type]

    assert End("completed", "done") == world.run()
    result = world.result("a")
    assert ("error", True) == (result.status, words in result.content)
    assert [] == world.approvals == world.acts
    assert [] == world.of_type(ToolStart)


def test_a_denied_call_does_not_run() -> None:
    """The model is told the reason, and the other calls of the message run."""
    world = World([said([call("look", "a"), call("look", "b")]), said("done")], verdicts={"a": Deny("Denied by user.")})

    world.run()

    assert ("denied", "Denied by user.") == (world.result("a").status, world.result("a").content)
    assert {"b": 1} == world.ran


def test_rewritten_arguments_run_and_are_recorded() -> None:
    """What an approver or a hook changed is what runs, and the start says so; the history keeps the model's words."""
    world = World(
        [said(call("count", "a", '{"n": 1}')), said("done")],
        verdicts={"a": Allow(call("count", "a", '{"n": 2}'), {"target": "x"})},
    )

    world.run()

    assert [ToolStart("a", '{"n": 2}', {"target": "x"})] == world.of_type(ToolStart)
    assert [Act((call("count", "a", '{"n": 2}'),))] == world.acts
    assert (call("count", "a", '{"n": 1}'),) == world.state.history[1].tool_calls


def test_rewritten_arguments_are_checked_again() -> None:
    """Arguments that a hook broke never reach the tool."""
    world = World(
        [said(call("count", "a", '{"n": 1}')), said("done")], verdicts={"a": Allow(call("count", "a", '{"n": "2"}'))}
    )

    world.run()

    assert "Invalid arguments" in world.result("a").content
    assert {} == world.ran


def test_only_the_arguments_can_be_rewritten() -> None:
    """A verdict about another call or another tool changes neither the id nor the name of what runs."""
    world = World([said(call("look", "a")), said("done")], verdicts={"a": Allow(call("write", "z", '{"x":1}'))})

    world.run()

    assert [Act((call("look", "a", '{"x":1}'),))] == world.acts


@pytest.mark.parametrize("stop", ["length", "content_filter"])
def test_a_cut_answer_never_runs_its_calls(stop: StopReason) -> None:
    """Calls of an answer that was cut get error results, however whole they look, and the model is asked again."""
    world = World([said([call("write", "a"), call("look", "b")], stop), said("done")])

    assert End("completed", "done") == world.run()
    assert ["error", "error"] == [world.result(each).status for each in ("a", "b")]
    assert "cut off" in world.result("a").content
    assert [] == world.approvals == world.acts


def test_outcomes_come_in_any_order() -> None:
    """Results are in call order in the history, in the order of their coming in the log."""

    class Backwards(World):
        def _wait(self) -> object:
            self._running.reverse()
            return super()._wait()

    world = Backwards([said([call("look", "a"), call("look", "b"), call("look", "c")]), said("done")], together=1)
    world.run()

    assert ["c", "a", "b"] == [fact.result.call_id for fact in world.of_type(ToolEnd)]
    assert "tool: a,b,c" == world.history[2]


def test_outcomes_nobody_waits_for_are_ignored() -> None:
    """A host that hands over an outcome twice, or one of an earlier round, does not break the log."""
    stale = Outcome.of(ToolResult("a", "again"))

    class Stuttering(World):
        def _wait(self) -> object:
            (fresh,) = super()._wait()  # type: ignore[misc]
            return (stale, fresh, fresh, Outcome.of(ToolResult("z")))

    world = Stuttering([said(call("look", "a")), said(call("look", "b")), said("done")])

    assert End("completed", "done") == world.run()
    assert ["again", "did b"] == [fact.result.content for fact in world.of_type(ToolEnd)]


def test_a_result_belongs_to_its_call() -> None:
    """An outcome without a result still closes its call, and a result under a wrong id is put right."""
    world = World(
        [said([call("look", "a"), call("look", "b")]), said("done")],
        results={"a": Outcome("a", "cancelled", None), "b": Outcome("b", "ok", ToolResult("zzz", "mine"))},
    )

    world.run()

    assert ToolResult("a", status="cancelled") == world.result("a")
    assert ToolResult("b", "mine") == world.result("b")


def test_an_approval_may_come_from_outside() -> None:
    """A call that somebody is asked about ends the turn; what its batch could run has run, later batches have not."""
    asked = [call("look", "a"), call("look", "b"), call("write", "c")]
    world = World([said(asked), said("done")], verdicts={"a": Ask("q1", "May I?")})

    assert End("approval_required") == world.run()
    assert [Asked("a", "q1", "May I?")] == world.of_type(Asked)
    assert {"b": 1} == world.ran

    world.record(TurnStart(resumed=True), Decided("a", True))
    assert End("completed", "done") == world.turn(resume=True).end
    assert {"a": 1, "b": 1, "c": 1} == world.ran
    assert ["a", "b", "c"] == [judged.id for judged in world.approvals]
    assert "tool: a,b,c" == world.history[2]


def test_a_denial_may_come_from_outside() -> None:
    """A no from another process is told to the model in its words, or in ours."""
    for reason, told in (("not today", "not today"), ("", "Denied by user.")):
        world = World([said(call("write", "a")), said("done")], verdicts={"a": Ask("q1")})
        world.run()
        world.record(Decided("a", False, reason))

        assert End("completed", "done") == world.turn(resume=True).end
        assert ("denied", told) == (world.result("a").status, world.result("a").content)
        assert {} == world.ran


def test_an_approval_from_outside_may_change_arguments() -> None:
    """Arguments that come with the answer run, are recorded, and are checked like any others."""
    for raw, runs in (('{"n": 5}', 1), ('{"n": "5"}', 0)):
        world = World([said(call("count", "a", '{"n": 1}')), said("done")], verdicts={"a": Ask("q1")})
        world.run()
        world.record(Decided("a", True, arguments=raw))
        world.turn(resume=True)

        assert runs == world.ran["a"]
        assert [ToolStart("a", raw)] * runs == world.of_type(ToolStart)
        assert ("ok" if runs else "error") == world.result("a").status


def test_an_unanswered_question_suspends_again() -> None:
    """Resuming before the answer is there changes nothing and asks nobody twice."""
    world = World([said(call("write", "a"))], verdicts={"a": Ask("q1")})
    world.run()

    assert End("approval_required") == world.turn(resume=True).end
    assert End("approval_required") == world.turn(resume=True).end
    assert 1 == len(world.approvals)
    assert world.state.round is not None


def test_going_on_without_an_answer_closes_the_question() -> None:
    """A new message instead of the answer: the call is told to have not run, and the turn begins after that."""
    world = World([said(call("write", "a")), said("fine")], verdicts={"a": Ask("q1")})
    world.run()

    assert End("completed", "fine") == world.turn(user("never mind")).end
    assert "cancelled" == world.result("a").status
    assert ["tool: a", "user: never mind", "assistant: fine"] == world.history[2:]
    assert 3 == world.state.turn_began


def test_an_outcome_may_come_later() -> None:
    """A call whose result comes from outside leaves the turn waiting; the result is recorded there, and it goes on."""
    world = World(
        [said([call("look", "a"), call("look", "b")]), said("done")],
        results={"a": Outcome("a", "deferred", None, "child-7")},
    )

    assert End("waiting") == world.run()
    assert [Asked("a", "child-7")] == world.of_type(Asked)

    world.record(ToolEnd(ToolResult("a", "the child's answer")))
    assert End("completed", "done") == world.turn(resume=True).end
    assert "the child's answer" == world.result("a").content
    assert {"a": 1, "b": 1} == world.ran


@pytest.mark.parametrize("reason, words", [("", "Denied by user."), ("not now", "not now")], ids=["bare", "reason"])
def test_a_no_to_a_deferred_call_is_its_result(reason: str, words: str) -> None:
    """A started call whose answer from outside is a no is denied: nobody is asked what became of it."""
    world = World(
        [said([call("look", "a"), call("look", "b")]), said("done")],
        results={"a": Outcome("a", "deferred", None, "child-7")},
    )
    world.run()
    world.record(Decided("a", False, reason))

    assert End("completed", "done") == world.turn(resume=True).end
    assert ("denied", words) == (world.result("a").status, world.result("a").content)
    assert [] == [act for act in world.acts if act.resolve]
    assert {"a": 1, "b": 1} == world.ran


def test_a_yes_to_a_deferred_call_is_looked_after() -> None:
    """A started call whose answer from outside is a yes goes on: the host finds out what becomes of it."""
    world = World(
        [said([call("look", "a"), call("look", "b")]), said("done")],
        results={"a": Outcome("a", "deferred", None, "child-7")},
    )
    world.run()
    world.record(Decided("a", True))

    found = Outcome.of(ToolResult("a", "the child's answer"))
    assert "completed" == world.turn(resume=True, answers=[(found,), NOTHING, said("done"), NOTHING]).end.reason  # type: ignore[union-attr]
    assert [Act((call("look", "a"),), resolve=True)] == [act for act in world.acts if act.resolve]


def test_a_yes_from_another_process_is_given_its_intent() -> None:
    """A call that was allowed elsewhere is still started with what will show whether it took effect."""
    recovery = Recovery(lambda keywords, context: {}, lambda keywords, context: "")
    write = Tool("write", "", lambda **_: "", mutates=True, recovery=recovery, parameters={"type": "object"})
    tools = ToolTable([write])
    world = World([said(call("write", "a")), said("done")], tools=tools, verdicts={"a": Ask("q")})
    assert End("approval_required") == world.run()
    world.record(Decided("a", True, arguments='{"n": 2}'))
    rewritten = call("write", "a", '{"n": 2}')

    done = Outcome.of(ToolResult("a", "did a"))
    trace = world.turn(resume=True, answers=[Allow(rewritten, {"path": "f"}), (done,), NOTHING, said("done"), NOTHING])
    assert End("completed", "done") == trace.end
    assert Approve(rewritten, granted=True) in trace.effects
    assert [ToolStart("a", '{"n": 2}', {"path": "f"})] == world.of_type(ToolStart)


def test_a_question_outranks_a_wait() -> None:
    """When somebody has to be asked and something has to come, the turn says that somebody has to be asked."""
    world = World(
        [said([call("look", "a"), call("look", "b")])],
        verdicts={"b": Ask("q1")},
        results={"a": Outcome("a", "deferred", None)},
    )

    assert End("approval_required") == world.run()
    assert {"a": "a", "b": "q1"} == {fact.call_id: fact.request for fact in world.of_type(Asked)}


def test_what_a_dead_process_started_is_resolved() -> None:
    """A started call without an end is not run again: the host is asked what became of it, with what it ran with."""
    asked, rewritten = [call("count", "a", '{"n": 1}'), call("look", "b")], call("count", "a", '{"n": 2}')
    world = World([said("done")])
    world.turn(TASK, answers=[NOTHING, said(asked), Allow(rewritten), Allow(asked[1])])
    assert [ToolStart("a", '{"n": 2}'), ToolStart("b")] == world.of_type(ToolStart)

    assert End("completed", "done") == world.turn(resume=True).end
    assert Act((rewritten, asked[1]), resolve=True) == world.acts[-1]
    assert [] == world.approvals


@pytest.mark.parametrize("partly", [False, True])
def test_an_interrupt_closes_the_round(partly: bool) -> None:
    """Known results are kept, what ran without a seen end is unknown, what did not start did not run."""
    known = (Outcome.of(ToolResult("a", "made it")),) if partly else ()

    class Cut(World):
        def _wait(self) -> object:
            return Interrupted("interrupted", None, known)

    world = Cut([said([call("look", "a"), call("look", "b"), call("write", "c")])])

    assert End("interrupted") == world.run()
    statuses = [world.result(each).status for each in ("a", "b", "c")]
    assert ["ok" if partly else "unknown", "unknown", "cancelled"] == statuses
    assert [RoundClosed(1)] == world.of_type(RoundClosed)
    assert not world.state.in_turn


def test_an_interrupt_with_foreign_outcomes_closes_the_round() -> None:
    """Outcomes of other rounds, doubled ones, and promises for later do not keep a turn from being closed."""
    outcomes = (
        Outcome.of(ToolResult("old", "x")),
        Outcome.of(ToolResult("a", "first")),
        Outcome.of(ToolResult("a", "second")),
        Outcome("b", "deferred", None, "later"),
    )

    class Cut(World):
        def _wait(self) -> object:
            return Interrupted("interrupted", None, outcomes)

    world = Cut([said([call("look", "a"), call("look", "b")])])

    assert End("interrupted") == world.run()
    assert ["first", "unknown"] == [world.result("a").content, world.result("b").status]


def test_an_interrupted_approval_closes_the_round() -> None:
    """Interrupted while it is judged, no call has run."""
    world = World([said([call("look", "a"), call("look", "b")])], verdicts={"b": Interrupted("timeout")})

    assert End("timeout") == world.run()
    assert ["cancelled", "cancelled"] == [world.result(each).status for each in ("a", "b")]
    assert {} == world.ran


def test_a_tool_may_be_forbidden_for_a_turn() -> None:
    """A registered tool that this turn's table does not allow is answered with an error and not run."""
    world = World([said(call("write", "a")), said("done")], tools=ToolTable(TOOLS, compile=needs_number, allowed=[]))

    world.run()

    assert "not permitted here" in world.result("a").content
    assert {} == world.ran


def test_a_resumed_turn_may_have_other_tools() -> None:
    """A question about a tool that is gone when the answer comes ends in an error result, not in a stuck turn."""
    world = World([said(call("write", "a")), said("done")], verdicts={"a": Ask("q")})
    world.run()
    world.record(Decided("a", True))
    world.tools = ToolTable([Tool("other", "", lambda: "")])

    assert End("completed", "done") == world.turn(resume=True).end
    assert "Unknown tool" in world.result("a").content
