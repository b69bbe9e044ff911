"""Conversations of the engine on noted logs, with tools that keep account of their effects."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from plait.core.cancel import Cancel
from plait.core.events import Committed, Event
from plait.core.facts import Fact
from plait.core.messages import Message, user
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.hosts.stage import Policy
from plait.engine.limits import Limits
from plait.engine.validation import compile_schema
from plait.kernel.effects import End
from plait.kernel.ports import Setup
from plait.kernel.rules import Rules
from plait.kernel.state import fold
from plait.kernel.tools import Tool, ToolTable
from plait.testing import Call, Say, ScriptedModel
from tests.helpers.hosts import NotedLog

TASK = user("Do the task.")

SCRIPT: Sequence[Any] = (
    Say("I look.", calls=[Call("look", {"at": 1}), Call("alook", {"at": 2}), Call("look", {"at": 3}), Call("nope")]),
    Say(calls=[Call("write", {"at": 4}), Call("awrite", {"at": 5}), Call("look", {"at": "no number"})]),
    Say(calls=[Call("fail", {}), Call("look", {"at": 6})]),
    "All done.",
)
"""Readers side by side, sync and async; writers one after the other; an unknown tool, a bad argument, an error."""


@dataclass
class Stand:
    """A conversation with everything around it."""

    log: NotedLog = field(default_factory=NotedLog)
    script: Sequence[Any] = SCRIPT
    concurrency: int = 4
    effects: Counter[int] = field(default_factory=Counter)
    shown: list[int] = field(default_factory=list)
    facts: Sequence[Fact] = ()
    words: str = ""
    """What every result ends with."""

    def __post_init__(self) -> None:
        self.model = ScriptedModel(self._answer, allow_unused=True)
        table = ToolTable(self.tools(), compile=compile_schema)
        policy = Policy(limits=Limits(max_steps=50, tool_concurrency=self.concurrency))
        self.bench = Workbench()
        terms = Terms(table, Setup("", table.schemas), policy, Rules(max_steps=50))
        if self.facts:
            self.log.append(tuple(self.facts))
            self.log.commit()
            self.log.take_committed()
        self.conversation = Conversation(
            self.model, terms, self.bench, state=fold(list(self.facts)), log=self.log, alog=self.log
        )
        self.conversation.observers.add(self._show)

    def tools(self) -> list[Tool]:
        """Tools of both colours; what changes something is counted, and may not run before its start is durable."""

        def look(at: int) -> str:
            return f"saw {at}{self.words}"

        async def alook(at: int) -> str:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return f"saw {at}{self.words}"

        def write(at: int) -> str:
            self._effect(at)
            return f"wrote {at}{self.words}"

        async def awrite(at: int) -> str:
            await asyncio.sleep(0)
            self._effect(at)
            return f"wrote {at}{self.words}"

        def fail() -> str:
            raise ValueError("it broke")

        return [
            Tool("look", "", look, parallel_safe=True),
            Tool("alook", "", alook, parallel_safe=True),
            Tool("write", "", write, mutates=True),
            Tool("awrite", "", awrite, mutates=True),
            Tool("fail", "", fail),
        ]

    def run(self, kind: str, *inputs: Message, cancel: Cancel | None = None, resume: bool = False) -> End:
        """Run a turn under the sync or the async driver."""
        begun = inputs or (() if resume else (TASK,))
        if kind == "sync":
            end = self.conversation.turn(begun, cancel=cancel, resume=resume)
        else:
            end = asyncio.run(self.conversation.aturn(begun, cancel=cancel, resume=resume))
        assert self.log.uncommitted == 0, "returned with facts that are not durable"
        return end

    def close(self) -> None:
        """Give threads back."""
        self.conversation.close()
        self.bench.portal.close()

    def _answer(self, asked: Any) -> Any:
        assert self.log.uncommitted == 0, "a request was made with facts that are not durable"
        step = sum(message.role == "assistant" for message in asked.messages)
        return self.script[min(step, len(self.script) - 1)]

    def _effect(self, at: int) -> None:
        assert self.log.uncommitted == 0, "something changed before its start was durable"
        self.effects[at] += 1

    def _show(self, event: Event) -> None:
        if isinstance(event, Committed):
            assert event.entry.fact is self.log.durable[event.entry.seq - 1]
            self.shown.append(event.entry.seq)
