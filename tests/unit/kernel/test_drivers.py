"""What both interpreters do alike: the order of barriers, and what happens when a host goes wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from plait.core.facts import RetryScheduled, ToolEnd, ToolStart, TurnEnd
from plait.core.messages import ToolResult
from plait.kernel.effects import Allow, End, Interrupted, Outcome
from plait.kernel.history import fault_in
from tests.helpers.hosts import Crash, DiskFull, NotedLog, Notes, SmallAsyncHost, SmallHost
from tests.helpers.worlds import call, failed, said

Run = Callable[..., End]
COLOURS = pytest.mark.parametrize("kind", [SmallHost, SmallAsyncHost])
SCRIPT = ([call("look", "a"), call("look", "b")], call("write", "c"), "done")


def run(host: Any, **more: Any) -> End:
    """Run a turn of either host."""
    driven = host.drive(**more)
    end: End = driven if isinstance(host, SmallHost) else asyncio.run(driven)
    return end


def script() -> list[Any]:
    """Replies with a round of two readers, a round with a writer, and an answer."""
    return [said(what) for what in SCRIPT]


@COLOURS
def test_a_turn_runs(kind: type[Notes]) -> None:
    """Effects are met in order, every fact is durable and shown once, and memory is what the log says."""
    host = kind(script())

    assert End("completed", "done") == run(host)
    assert [
        "boundary 1 step", "think", "approve a", "approve b", "act a,b", "wait", "wait",
        "boundary 2 step", "think", "approve c", "act c", "wait",
        "boundary 3 step", "think", "boundary 3 final",
    ] == host.seen  # fmt: skip
    host.check_closed()


@COLOURS
@pytest.mark.parametrize(
    "calls, barriers",
    [
        ([], 2),
        ([call("look", "a")], 3),
        ([call("look", "a"), call("look", "b"), call("look", "c")], 5),
        ([call("write", "a")], 4),
        ([call("write", "a"), call("write", "b"), call("write", "c")], 6),
    ],
)
def test_barriers_are_as_many_as_are_needed(kind: type[Notes], calls: list[Any], barriers: int) -> None:
    """One before each request and at the end, one before a start that changes something, one before a wait for many."""
    host = kind([*([said(calls)] if calls else []), said("done")])

    run(host)

    assert barriers == host.log.commits


@COLOURS
def test_a_wait_for_the_next_attempt_is_durable(kind: type[Notes]) -> None:
    """That a request failed is safe before the wait begins."""
    host = kind([failed(), said("done")])

    assert "completed" == run(host).reason
    assert 1 == len([fact for fact in host.log.facts if isinstance(fact, RetryScheduled)])


@COLOURS
@pytest.mark.parametrize("problem", [RuntimeError("bug"), failed(), Interrupted("timeout")], ids=repr)
@pytest.mark.parametrize("where", ["boundary", "think", "approve", "wait"])
def test_whatever_a_host_raises_closes_the_turn(kind: type[Notes], where: str, problem: Exception) -> None:
    """An exception at any effect ends the turn with a valid history; it is told on the end, not lost, not escaped."""
    scripts: dict[str, Any] = {
        "boundary": {"replies": [], "boundary": problem},
        "think": {"replies": [problem] * 6},
        "approve": {"replies": [said([call("write", "a")])], "approve": problem},
        "wait": {"replies": [said([call("look", "a"), call("look", "b")])], "calls": {"b": problem}},
    }
    host = kind(**scripts[where])

    end = run(host)

    told = isinstance(problem, Interrupted)
    assert ("timeout" if told else "error", None if told else problem) == (end.reason, end.error)
    assert fault_in(host.state.history) is None
    host.check_closed()


@COLOURS
def test_a_call_that_brought_something_keeps_it(kind: type[Notes]) -> None:
    """Interrupted at the second call, the first one's result stays; the second one's end is unknown."""
    host = kind([said([call("look", "a"), call("look", "b")])], calls={"b": Interrupted("interrupted")})

    run(host)

    assert [("a", "ok"), ("b", "unknown")] == [
        (fact.result.call_id, fact.result.status) for fact in host.log.facts if isinstance(fact, ToolEnd)
    ]


@COLOURS
def test_an_observer_that_breaks_its_word_closes_the_turn(kind: type[Notes]) -> None:
    """An exception out of `publish` ends the turn like any other, with what it was about already durable."""

    def publish(event: Any) -> None:
        if event.entry.seq == 3:
            raise RuntimeError("observer")

    host = kind(script(), publish=publish)
    end = run(host)

    assert ("error", "observer") == (end.reason, end.detail)
    assert not host.state.in_turn
    host.check_safe("over")


@COLOURS
@pytest.mark.parametrize("number", range(1, 7))
def test_a_failing_barrier_abandons_the_turn(kind: type[Notes], number: int) -> None:
    """When facts cannot be made durable, nothing more is done, recorded or shown, and the failure is raised."""
    loops = []
    host = kind(script(), log=NotedLog(fail_at=number))
    make = host.loop
    host.loop = lambda *a, **k: loops.append(make(*a, **k)) or loops[-1]  # type: ignore[method-assign,func-returns-value]

    with pytest.raises(DiskFull):
        run(host)

    assert len(host.published) == len(host.log.durable)
    assert 1 == host.abandoned
    assert 0 == host.running
    assert TurnEnd not in {type(fact) for fact in host.log.durable}
    with pytest.raises(StopIteration):
        loops[0].send(None)


@COLOURS
def test_a_crash_at_any_fact_stops_what_runs(kind: type[Notes]) -> None:
    """Whatever leaves the driver, nothing is left running."""
    for crash_at in range(14):
        host = kind(script(), log=NotedLog(crash_at=crash_at))
        with pytest.raises(Crash):
            run(host)
        assert (0, 1) == (host.running, host.abandoned)


@COLOURS
def test_told_before_it_began(kind: type[Notes]) -> None:
    """A turn whose signal was given before its first effect asks nobody anything."""
    host = kind([])
    host.cancel.cancel("shutdown")

    assert End("shutdown") == run(host)
    assert [] == host.seen
    host.check_closed()


@COLOURS
def test_told_during_each_effect(kind: type[Notes]) -> None:
    """Whenever the signal is given, the effect under way is the last one, and its result is not lost."""
    total = len(_told_at(kind, 10_000).seen)
    for number in range(1, total + 1):
        host = _told_at(kind, number)
        assert not host.state.in_turn
        assert fault_in(host.state.history) is None
        assert number <= len(host.seen) <= number + 1, host.seen
        ends = {fact.result.call_id: fact.result for fact in host.log.facts if isinstance(fact, ToolEnd)}
        cut = {"ok"} if kind is SmallHost else {"ok", "unknown"}  # a tool that is awaited can be cut off
        assert cut >= {ends[done].status for done in host.ran}


def _told_at(kind: type[Notes], number: int) -> Notes:
    """Run a turn in which the signal is given as soon as the `number`-th effect is noted."""

    class Told(list[str]):
        def append(self, what: str) -> None:
            super().append(what)
            if len(self) == number:
                host.cancel.cancel("interrupted")

    host: Any = kind(script())
    host.seen = Told()
    end = run(host)
    assert end.reason == ("interrupted" if host.cancel.reason else "completed") or number >= len(host.seen)
    host.check_closed()
    return host  # type: ignore[no-any-return]


@COLOURS
def test_a_call_is_not_started_after_the_signal(kind: type[Notes]) -> None:
    """Told while a call was judged, the call does not start, and the history says that it did not run."""
    host: Any = kind([said(call("write", "a"))])

    def approve() -> Any:
        host.cancel.cancel("interrupted")
        return Allow(call("write", "a"))

    host._approve = approve

    assert End("interrupted") == run(host)
    assert [] == host.ran
    results = [fact.result for fact in host.log.facts if isinstance(fact, ToolEnd)]
    assert [ToolResult("a", "Not run: the turn was interrupted.", status="cancelled")] == results
    assert [ToolStart("a")] == [fact for fact in host.log.facts if isinstance(fact, ToolStart)]


@COLOURS
def test_told_by_another_thread(kind: type[Notes]) -> None:
    """A signal from another thread while the model speaks ends the turn, with what it had said."""
    host: Any = kind([])

    def speak() -> Any:
        host.partial_words = "Once upon"
        thread = threading.Thread(target=host.cancel.cancel, args=("interrupted",))
        thread.start()
        thread.join()
        if isinstance(host, SmallHost):
            raise Interrupted("interrupted")
        return asyncio.sleep(60)

    host._replies = [speak]

    assert End("interrupted") == run(host)
    assert "Once upon\n[interrupted]" == host.state.history[-1].content
    host.check_closed()


@COLOURS
def test_an_exit_is_raised_when_the_turn_is_closed(kind: type[Notes]) -> None:
    """A tool that ends the process ends the turn first."""
    host = kind([said(call("look", "a"))], calls={"a": SystemExit(3)})

    with pytest.raises(SystemExit) as raised:
        run(host)

    assert 3 == raised.value.code
    host.check_closed()
    assert TurnEnd("interrupted") == host.log.durable[-1]


def test_an_interrupt_that_is_not_ours_is_raised_when_the_turn_is_closed() -> None:
    """Outside of the main thread a KeyboardInterrupt belongs to somebody else: the turn is closed, then it goes on."""
    host = SmallHost([said(call("look", "a"))], calls={"a": KeyboardInterrupt()})
    raised: list[BaseException] = []

    def work() -> None:
        try:
            host.drive()
        except KeyboardInterrupt as interrupt:
            raised.append(interrupt)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert 1 == len(raised)
    host.check_closed()


@COLOURS
def test_outcomes_of_an_earlier_round_do_not_break_a_later_one(kind: type[Notes]) -> None:
    """A host that still remembers the last outcome when it is interrupted in the next round closes it all the same."""
    host: Any = kind([said(call("look", "a")), said(call("look", "b"))])

    def approve() -> Any:
        if host.state.steps == 2:
            host._handed = [Outcome.of(ToolResult("a", "again"))]
            raise Interrupted("interrupted")
        return Allow(call("look", "a"))

    host._approve = approve

    assert End("interrupted") == run(host)
    host.check_closed()


@COLOURS
def test_a_resumed_turn_goes_on(kind: type[Notes]) -> None:
    """What one host left open, another one finishes from the facts alone."""
    first = kind(script(), log=NotedLog(crash_at=9))
    with pytest.raises(Crash):
        run(first)
    second = kind(script()[1:])
    second.log.append(tuple(first.log.facts))
    second.log.commit()
    second.log.take_committed()
    second.published = list(range(1, 10))
    for fact in first.log.facts:
        second.state.apply(fact)

    assert End("completed", "done") == run(second, resume=True)
    second.check_closed()
