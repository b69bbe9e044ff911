"""Retries as a conversation has them: what is waited, what is withdrawn, and that every wait can be ended."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.events import AttemptReset, Committed, Delta, Event
from plait.core.exchange import ProviderFailed
from plait.core.facts import MessageAdded, RetryScheduled, TurnEnd, TurnStart
from plait.core.messages import user
from plait.engine.agent import Agent
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.result import RunResult
from plait.kernel.effects import End
from plait.kernel.ports import Setup
from plait.kernel.rules import Retry, Rules
from plait.kernel.tools import ToolTable
from plait.store.opening import open_journal
from plait.testing import Fail, Say, ScriptedModel, VirtualClock

START_MS = 1_700_000_000_000
SLOW = Rules(retry=Retry(base_s=3_600, cap_s=3_600))


def run(agent: Agent, colour: str, **options: Any) -> RunResult:
    """Run a task in this thread, or in an event loop."""
    return agent.run("x", **options) if colour == "sync" else asyncio.run(agent.arun("x", **options))


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_what_is_decided_is_a_fact_and_an_event(colour: str) -> None:
    """Every retry is recorded before its wait, each withdrawal is told with its size, and giving up says why."""
    heard: list[Event] = []
    clock = VirtualClock()
    script = [Fail("overloaded", "busy", retry_after_s=7.0, after=["one ", "two "]), Fail("timeout", "slow")]
    with ScriptedModel(script) as model:
        agent = Agent(model, on_event=heard.append, clock=clock, rules=Rules(retry=Retry(2)))
        result = run(agent, colour)

    facts = [event.entry.fact for event in heard if isinstance(event, Committed)]
    assert [RetryScheduled(1, 7_000, "overloaded", "busy")] == [f for f in facts if isinstance(f, RetryScheduled)]
    assert [AttemptReset(1, 2, 2)] == [event for event in heard if isinstance(event, AttemptReset)]
    assert (7.0,) == clock.sleeps
    assert TurnEnd("error", "slow; gave up after 2 requests") == facts[-1]
    assert "gave up after 2 requests" in str(result.error)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_text_is_withdrawn_where_room_had_to_be_made(colour: str) -> None:
    """Words that were shown before a stream told of an overflow do not count, though no request is retried as such."""
    heard: list[Event] = []
    overflow = Fail("context_overflow", "too long", after=["half"])
    long: list[Say | Fail] = [Say("earlier"), *[Say(f"a{n}") for n in range(4)], overflow, Say("summary"), Say("whole")]
    with ScriptedModel(long) as model:
        conversation = Conversation(model, Terms(ToolTable([]), Setup()), Workbench(VirtualClock()))
        conversation.observers.add(heard.append)

        async def talk() -> str | None:
            for number in range(5):
                await conversation.aturn((user(f"q{number}"),))
            end = await conversation.aturn((user("last"),))
            await conversation.aclose()
            return end.reply

        if colour == "async":
            reply = asyncio.run(talk())
        else:
            for number in range(5):
                conversation.turn((user(f"q{number}"),))
            reply = conversation.turn((user("last"),)).reply

    assert "whole" == reply
    assert [(1, 1)] == [(event.attempt, event.withdrawn) for event in heard if isinstance(event, AttemptReset)]
    last = max(index for index, event in enumerate(heard) if isinstance(event, AttemptReset))
    assert ["whole"] == [event.text for event in heard[last:] if isinstance(event, Delta)]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_cancel_ends_the_wait_for_a_retry(colour: str) -> None:
    """An hour's wait is over at once when somebody says so, and the history has nothing of the failure."""
    cancel = Cancel()
    timer = threading.Timer(0.05, cancel.cancel, ["timeout"])

    def script(asked: object) -> Fail:
        timer.start()
        return Fail("overloaded")

    result = run(Agent(ScriptedModel(script), rules=SLOW), colour, cancel=cancel)
    timer.join()

    assert ("interrupted", "timeout") == (result.status, result.reason)
    assert ["user"] == [message.role for message in result.messages]


def test_a_cancelled_task_ends_the_wait_for_a_retry() -> None:
    """A task that is cancelled while it waits raises CancelledError, as every await does."""

    async def main() -> None:
        asked = asyncio.Event()

        def script(_: object) -> Fail:
            asked.set()
            return Fail("overloaded")

        task = asyncio.create_task(Agent(ScriptedModel(script), rules=SLOW).arun("x"))
        await asked.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@pytest.mark.parametrize("passed_s, left_s", [(0, 100.0), (40, 60.0), (3_600, 0.0), (-40, 100.0)])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_restart_waits_only_for_what_is_left(tmp_path: Path, colour: str, passed_s: int, left_s: float) -> None:
    """The process that goes on waits from when the retry was scheduled, whatever the clock did meanwhile."""
    log = open_journal(tmp_path, "s1", lambda: START_MS).log
    log.append((TurnStart(), MessageAdded(user("x")), RetryScheduled(1, 100_000, "rate_limit")))
    log.commit()
    log.close()

    clock = VirtualClock(start_ms=START_MS + passed_s * 1_000)
    again = open_journal(tmp_path, "s1", clock.now_ms)
    with ScriptedModel(["done"]) as model:
        terms, bench = Terms(ToolTable([]), Setup()), Workbench(clock)
        if colour == "sync":
            conversation = Conversation(model, terms, bench, state=again.state, log=again.log)
            end = conversation.turn(resume=True)
            conversation.close()
        else:
            conversation = Conversation(model, terms, bench, state=again.state)
            end = asyncio.run(_finish(conversation))
    again.log.close()

    assert ("completed", "done") == (end.reason, end.reply)
    assert (left_s,) == clock.sleeps


async def _finish(conversation: Conversation) -> End:
    end = await conversation.aturn(resume=True)
    await conversation.aclose()
    return end


def test_a_failure_says_why_it_was_given_up() -> None:
    """The words about giving up follow the failure's own."""
    failed = ProviderFailed("timeout", "slow")
    assert "slow" == str(failed)
    failed.gave_up = "gave up after 6 requests"
    assert "slow; gave up after 6 requests" == str(failed)


def test_ctrl_c_ends_the_wait_for_a_retry() -> None:
    """A real SIGINT in the middle of an hour's wait closes the turn at once, and raises nothing."""
    code = (
        "from plait import Agent, Retry, Rules\n"
        "from plait.core.events import Committed\n"
        "from plait.core.facts import RetryScheduled\n"
        "from plait.testing import Fail, ScriptedModel\n"
        "def tell(event):\n"
        "    if isinstance(event, Committed) and isinstance(event.entry.fact, RetryScheduled):\n"
        "        print('waiting', flush=True)\n"
        "rules = Rules(retry=Retry(base_s=3600, cap_s=3600))\n"
        "result = Agent(ScriptedModel([Fail('overloaded')]), rules=rules, on_event=tell).run('x')\n"
        "print(result.status, [message.role for message in result.messages])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "waiting\n" == process.stdout.readline()
    time.sleep(0.2)  # until it waits
    process.send_signal(signal.SIGINT)
    said, complaints = process.communicate(timeout=60)

    assert ("interrupted ['user']\n", "", 0) == (said, complaints, process.returncode)
