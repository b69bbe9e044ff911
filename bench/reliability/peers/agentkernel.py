"""agentkernel: `Agent.run` with a session store; which of its two kinds says the variable AGENTKERNEL_STORE."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from agentkernel.agent import Agent
from agentkernel.approval.cli import AutoApprover
from agentkernel.config import Config
from agentkernel.context import ContextManager
from agentkernel.memory import make_memory_store
from agentkernel.providers.openai import OpenAIProvider
from agentkernel.telemetry import NullTelemetry
from agentkernel.tools.base import ToolRegistry, ToolSpec
from agentkernel.types import ToolResult

from bench.reliability.subject import ToolFunction

KIND: Final = os.environ.get("AGENTKERNEL_STORE", "file")
DIST: Final = "agentkernel-cli"
NOTE: Final = f"Agent.run(on_text=…) with its {KIND!r} session store, resumed by session id; it saves when a run ends"
JOURNAL: Final = "memory/s1.jsonl" if KIND == "file" else "memory/memory.db"


def begin(folder: Path, url: str, tools: list[ToolFunction]) -> Any:
    """Make an agent on the session of that id."""
    registry = ToolRegistry()
    for tool in tools:
        registry.register(ToolSpec(tool.name, tool.name, tool.parameters, _handler(tool), mutates=tool.mutates))
    store = make_memory_store(KIND, str(folder / "memory"))
    config = Config(max_iterations=50, approval_policy="auto_allow")
    agent = Agent(
        OpenAIProvider("m", api_key="k", base_url=url),
        registry,
        ContextManager(budget=None),
        AutoApprover("auto_allow"),
        NullTelemetry("s1"),
        config,
        memory=store,
    )
    return agent, store


def _handler(tool: ToolFunction) -> Any:
    return lambda arguments: ToolResult("", tool.run(**arguments))


def texts(opened: Any) -> str:
    """Return what the messages say: of the run, or else of the store."""
    agent, store = opened
    return "\n".join(message.content for message in agent.context.messages() or store.load("s1"))


def turn(opened: Any, text: str | None) -> str:
    """Run; it knows no going on without a question."""
    return str(opened[0].run(text or "Go on.", on_text=lambda _: None))


def end(opened: Any) -> None:
    """Close a store that can be closed."""
    close = getattr(opened[1], "close", None)
    if close is not None:
        close()
