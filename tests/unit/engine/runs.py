"""Running an agent in either colour, so that one test holds for both hosts."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeVar

import pytest

from plait.engine.agent import Agent
from plait.engine.result import RunResult
from plait.testing import ScriptedModel

T = TypeVar("T")
Colour = Literal["sync", "async"]
both = pytest.mark.parametrize("colour", ["sync", "async"])


def run(agent: Agent[T], colour: Colour, text: str = "go", **options: Any) -> RunResult[T]:
    """Run the agent in this thread, or in an event loop of its own."""
    if colour == "sync":
        return agent.run(text, **options)
    return asyncio.run(agent.arun(text, **options))


def contents(model: ScriptedModel, request: int = 1) -> list[str]:
    """Return the texts of the results that a request ends with."""
    return [result.content for result in model.requests[request].messages[-1].tool_results]


def statuses(model: ScriptedModel, request: int = 1) -> list[str]:
    """Return how the calls ended whose results a request ends with."""
    return [result.status for result in model.requests[request].messages[-1].tool_results]
