"""P-POOL: agents in tools of agents, with calls side by side at every level, never wait for each other's threads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from plait.engine.agent import Agent
from plait.engine.limits import Limits
from plait.engine.threads import Threads
from plait.kernel.tools import Tool
from plait.testing import Call, ScriptedModel

DEPTH = 20


def read(at: int) -> str:
    """Read something."""
    return f"read {at}"


def agent_of(depth: int, pool: Threads, kind: str) -> Agent:
    """An agent with four calls side by side, one of which runs the next agent down."""

    def ask(depth: int) -> str:
        return agent_of(depth, pool, kind).run("Go down.").text

    async def aask(depth: int) -> str:
        return (await agent_of(depth, pool, kind).arun("Go down.")).text

    calls = [Call("read", {"at": at}) for at in range(3)]
    script: list[Any] = [
        [*calls[:2], Call("ask", {"depth": depth - 1}), calls[2]] if depth else calls,
        f"depth {depth}",
    ]
    tools = [
        Tool("read", "", read, parallel_safe=True),
        Tool("ask", "", aask if kind == "async" else ask, parallel_safe=True),
    ]
    return Agent(ScriptedModel(script), tools, threads=pool, limits=Limits(tool_concurrency=4))


@pytest.mark.parametrize("threads_max", [2, 512])
@pytest.mark.parametrize("kind", ["sync", "async", "sync in async"])
def test_twenty_levels_do_not_wait_for_each_other(kind: str, threads_max: int) -> None:
    """However small the pool and however deep the tree, the outermost agent gets its answer."""
    answers: list[str] = []

    def work() -> None:
        agent = agent_of(DEPTH, Threads(threads_max), kind)
        result = agent.run("Go down.") if kind == "sync" else asyncio.run(agent.arun("Go down."))
        answers.append(result.text)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)

    assert [f"depth {DEPTH}"] == answers


def test_threads_are_shared() -> None:
    """Two hundred calls, four at a time, need no more threads than a few that take turns."""
    calls = [[Call("read", {"at": at}) for at in range(4)] for _ in range(50)]
    before = set(threading.enumerate())

    Agent(ScriptedModel([*calls, "Done."]), [Tool("read", "", read, parallel_safe=True)], threads=Threads()).run(
        "Read."
    )

    assert len(set(threading.enumerate()) - before) <= 8
