"""Conversations of plait's engine with a journal under them, and the same without one.

Owns: what is compared; never: how it is measured. Journals are opened before the clock runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plait.core.clock import SystemClock
from plait.core.messages import user
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.hosts.stage import Policy
from plait.engine.limits import Limits, rules_under
from plait.engine.validation import compile_schema
from plait.kernel.ports import Setup
from plait.kernel.rules import Rules
from plait.kernel.tools import Tool, ToolTable
from plait.models.chat_model import ChatModel, chat_model
from plait.store.jsonl import JsonlLog
from plait.store.opening import open_journal
from plait.store.syncer import AsyncJsonlLog, Syncer

FOLDER = Path(__file__).parent / "out" / "journals"
"""On the disk where the repository is: a disk in memory would have nothing to sync."""
CONVERSATIONS_MAX = 64
_LIMITS = Limits(max_steps=100_000)


async def noop(x: str) -> str:
    """Does nothing."""
    return "ok " + x


def noop_in_thread(x: str) -> str:
    """Does nothing."""
    return "ok " + x


@dataclass
class Context:
    """What all conversations of a measurement share."""

    model: ChatModel
    journals: list[JsonlLog]
    bench: Workbench = field(default_factory=Workbench)
    syncer: Syncer = field(default_factory=Syncer)

    def conversation(self, model: str, tool: Callable[[str], object], *, mutates: bool, durable: bool) -> Conversation:
        """Return a conversation that has not begun."""
        made = Tool("noop", "Does nothing.", tool, mutates=mutates, idempotent=not mutates)
        table = ToolTable([made], compile=compile_schema)
        setup = Setup("You are an agent.", table.schemas)
        terms = Terms(table, setup, Policy(limits=_LIMITS), rules_under(_LIMITS, Rules(), seed=0))
        logs: dict[str, Any] = {}
        if durable:
            log = self.journals.pop()
            logs = {"log": log, "alog": AsyncJsonlLog(log, self.syncer)}
        return Conversation(self.model.with_model(model), terms, self.bench, **logs)


def setup(base_url: str) -> Context:
    """Return what conversations need, journals among it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    now_ms = SystemClock().now_ms
    folders = [FOLDER / f"{os.getpid()}-{id(base_url)}" / str(number) for number in range(CONVERSATIONS_MAX)]
    return Context(chat_model("any", base_url), [open_journal(folder, "s", now_ms).log for folder in folders])


async def _arun(context: Context, model: str, *, mutates: bool, durable: bool) -> str:
    conversation = context.conversation(model, noop, mutates=mutates, durable=durable)
    await conversation.aturn((user("go"),))
    await conversation.aclose()
    return conversation.state.history[-1].content


def _run(context: Context, model: str, *, mutates: bool, durable: bool) -> str:
    conversation = context.conversation(model, noop_in_thread, mutates=mutates, durable=durable)
    conversation.turn((user("go"),))
    conversation.close()
    return conversation.state.history[-1].content


async def writing(context: Context, model: str) -> str:
    """Async, on a journal, with a tool that changes something: two barriers a step."""
    return await _arun(context, model, mutates=True, durable=True)


async def writing_in_memory(context: Context, model: str) -> str:
    """The same without a journal."""
    return await _arun(context, model, mutates=True, durable=False)


async def reading(context: Context, model: str) -> str:
    """Async, on a journal, with a tool that only reads: one barrier a step."""
    return await _arun(context, model, mutates=False, durable=True)


async def reading_in_memory(context: Context, model: str) -> str:
    """The same without a journal."""
    return await _arun(context, model, mutates=False, durable=False)


def writing_sync(context: Context, model: str) -> str:
    """Sync, on a journal, with a tool that changes something."""
    return _run(context, model, mutates=True, durable=True)


def writing_sync_in_memory(context: Context, model: str) -> str:
    """The same without a journal."""
    return _run(context, model, mutates=True, durable=False)
