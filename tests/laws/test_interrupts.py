"""Whatever a turn waits for, a real Ctrl-C and a signal from another thread end it at once, in every colour."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.events import Delta, Event
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.hosts.stage import Policy
from plait.engine.limits import Limits
from plait.kernel.history import fault_in
from plait.kernel.ports import Setup
from plait.kernel.state import fold
from plait.kernel.tools import Tool, ToolContext, ToolTable
from plait.testing import Call, Fail, ScriptedModel, Silence
from tests.helpers.conversations import TASK
from tests.helpers.hosts import NotedLog
from tests.helpers.warm import run_warm
from tests.helpers.worlds import assert_same_state

ROOT = Path(__file__).parents[2]
ENDS = {
    "model": ([], "Once upon\n[interrupted]"),
    "tool": (["unknown: Interrupted while it"], ""),
    "threads": (["ok: told: interrupted"] * 2, ""),
    "portal": (["unknown: Interrupted while it"], ""),
    "retry": ([], "Do the task."),
}


@pytest.mark.parametrize("where", ENDS)
def test_a_real_interrupt_reaches_every_wait(where: str) -> None:
    """A SIGINT while the model speaks, a tool sleeps, threads run, a coroutine waits, or a retry is due."""
    argv = [sys.executable, "-m", "tests.helpers.engine_interrupts", where]
    ran = run_warm(argv, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)

    assert (0, "") == (ran.returncode, ran.stderr)
    results, last = ENDS[where]
    assert ["interrupted", results, last] == json.loads(ran.stdout)


class Meeting:
    """A conversation that says when it has come to where it waits."""

    def __init__(self, script: list[Any], limits: Limits | None = None) -> None:
        self.is_there = threading.Event()
        self.met = 0
        self.log = NotedLog()
        tools = [
            Tool("wait", "", self._wait, parallel_safe=True),
            Tool("await", "", self._await, parallel_safe=True),
            Tool("write", "", self._wait, mutates=True),
        ]
        model = ScriptedModel(script, allow_unused=True)
        self.conversation = Conversation(
            model,
            Terms(ToolTable(tools), Setup(), Policy(limits=limits or Limits())),
            Workbench(),
            log=self.log,
            alog=self.log,
        )
        self.conversation.observers.add(self._hear, Delta)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Delta) and event.kind == "content":
            self.is_there.set()

    def _wait(self, context: ToolContext) -> str:
        self.met += 1
        self.is_there.set()
        context.cancel.wait(30)
        return f"told: {context.cancel.reason}"

    async def _await(self) -> str:
        self.met += 1
        self.is_there.set()
        await asyncio.sleep(30)
        return "never"

    def run(self, kind: str, cancel: Cancel) -> str:
        """Run the turn and return how it ended."""
        if kind == "sync":
            return self.conversation.turn((TASK,), cancel=cancel).reason
        return asyncio.run(self.conversation.aturn((TASK,), cancel=cancel)).reason


WAITS: dict[str, list[Any]] = {
    "model": [Silence("Once upon")],
    "thread": [Call("write")],
    "threads": [[Call("wait"), Call("wait"), Call("await")]],
    "coroutine": [Call("await")],
}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("where", WAITS)
def test_a_signal_from_another_thread_ends_every_wait(where: str, kind: str) -> None:
    """The tree's signal ends the turn in both colours; a tool that listens is heard, and what it says is kept."""
    meeting, cancel = Meeting(WAITS[where]), Cancel()

    def give() -> None:
        meeting.is_there.wait(30)
        cancel.cancel("interrupted")

    giver = threading.Thread(target=give)
    giver.start()
    reason = meeting.run(kind, cancel)
    giver.join()

    state = meeting.conversation.state
    assert "interrupted" == reason
    assert fault_in(state.history) is None
    assert_same_state(state, fold(meeting.log.durable))
    told = [result.content for message in state.history for result in message.tool_results]
    assert ("thread" in where) == ("told: interrupted" in told), told


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("name", ["wait", "await"])
@pytest.mark.parametrize("concurrency", [1, 2])
def test_calls_that_never_began_did_not_run(kind: str, name: str, concurrency: int) -> None:
    """Of six calls of which one or two run at a time, those that had no turn yet are told to have not run."""
    meeting, cancel = Meeting([[Call(name)] * 6], Limits(tool_concurrency=concurrency)), Cancel()

    def give() -> None:
        while meeting.met < concurrency:
            meeting.is_there.wait(30)
        cancel.cancel("interrupted")

    giver = threading.Thread(target=give)
    giver.start()
    meeting.run(kind, cancel)
    giver.join()

    statuses = [result.status for result in meeting.conversation.state.history[-1].tool_results]
    assert ["cancelled"] * (6 - concurrency) == statuses[concurrency:]
    assert "cancelled" not in statuses[:concurrency]
    assert concurrency == meeting.met


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_retry_is_woken(kind: str) -> None:
    """A turn that waits a minute for its next attempt ends when it is told to."""
    meeting, cancel = Meeting([Fail("overloaded", retry_after_s=60)]), Cancel()
    timer = threading.Timer(0.05, cancel.cancel, ("shutdown",))
    timer.start()

    assert "shutdown" == meeting.run(kind, cancel)
    timer.join()


def cancelled_after(hops: int, script: Callable[[], list[Any]]) -> tuple[Meeting, bool]:
    """Cancel the task of a turn after so many rounds of its event loop; return whether it was still under way."""
    meeting = Meeting(script())

    async def main() -> bool:
        task = asyncio.ensure_future(meeting.conversation.aturn((TASK,)))
        for _ in range(hops):
            await asyncio.sleep(0)
        was_done = task.done()
        task.cancel()
        if was_done:
            await task
        else:
            with pytest.raises(asyncio.CancelledError):
                await task
        assert {asyncio.current_task()} == asyncio.all_tasks()
        return not was_done

    return meeting, asyncio.run(main())


def test_a_cancelled_task_leaves_nothing() -> None:
    """At every round of the event loop: the turn is closed, no task is left, every call has a result."""
    script = [Call("await"), [Call("await"), Call("await")], "Done."]
    for hops in range(40):
        meeting, was_under_way = cancelled_after(hops, lambda: list(script))
        assert was_under_way
        if meeting.log.facts:
            assert not meeting.conversation.state.in_turn
            assert fault_in(meeting.conversation.state.history) is None
            assert_same_state(meeting.conversation.state, fold(meeting.log.durable))
