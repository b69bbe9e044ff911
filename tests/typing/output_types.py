"""What a type checker knows of an answer's type; mypy and basedpyright read this file, nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from plait import Agent, AgentSpec, RunResult, Session, SessionResult, run, run_agent, run_task, run_turn


@dataclass
class City:
    """A dataclass as an output type."""

    name: str


class Film(TypedDict):
    """A typed dict as an output type."""

    title: str


SCHEMA = {"type": "object"}


def of_an_agent() -> None:
    """An agent's type is that of its runs, text where it has none; a schema says nothing to a checker."""
    assert_type(Agent("m"), Agent[str])
    assert_type(Agent("m").run("x").output, str)
    assert_type(Agent("m", output_type=City), Agent[City])
    assert_type(Agent("m", output_type=City).run("x"), RunResult[City])
    assert_type(Agent("m", output_type=Film).run("x").raise_for_status().output["title"], str)
    assert_type(Agent("m", output_type=SCHEMA).run("x").output, Any)


async def of_a_run(agent: Agent, result: RunResult) -> None:
    """A run's own type goes before that of its agent, in both colours."""
    assert_type(agent.run("x", output_type=City).output, City)
    assert_type((await agent.arun("x", output_type=list[int])).output, list[int])
    assert_type(agent.run("x", output_type=City | None).output, Any)
    assert_type(agent.run("x", output_type=SCHEMA).output, Any)
    assert_type(result.output, str)


def of_sessions(spec: AgentSpec, session: Session) -> None:
    """The functions of the session face know the type that they were given."""
    assert_type(run_task(spec, "x"), SessionResult)
    assert_type(run_task(spec, "x", output_type=City, images=["a.png"]).output, City)
    assert_type(run_agent(task="x", model="m", endpoint="e", tools=[], output_type=int).output, int)
    assert_type(run(spec, "x", output_type=Film, timeout=3.0).output, Film)
    assert_type(run_turn(None, "m", session, "x", output_type=City).output, City)
    assert_type(run_turn(None, "m", session, "x", output_type=SCHEMA, images=[b""]).output, Any)
