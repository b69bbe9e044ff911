"""Answers as values against llama.cpp's server: what it is held to by a schema, and what it calls, fits the type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import pytest

from plait import Agent, Limits, Tool
from plait.cli.demo.weights import FILE_NAME
from plait.models.chat_model import ChatModel, chat_model
from plait.models.profile_table import LOCAL
from plait.wire.profile import StructuredOutput, WireName
from tests.unit.engine.runs import Colour, both, run

pytestmark = pytest.mark.real_model

FEW = Limits(max_steps=6, max_output_tokens=120)


@dataclass
class Fruit:
    """A fruit."""

    colour: Literal["red", "green", "yellow"]
    is_sweet: bool
    season: Literal["spring", "summer", "autumn"] = "summer"


def model_at(url: str, wire: WireName, takes: StructuredOutput) -> ChatModel:
    """Return the server's model, told how it can be asked for a value."""
    profile = replace(LOCAL, wire=replace(LOCAL.wire, structured_output=takes))
    return chat_model(FILE_NAME, url, wire=wire, profile=profile)


@both
def test_a_schema_holds_a_real_model(real_url: str, colour: Colour) -> None:
    """As a local server is known to be asked, it writes nothing but a value of the type, at the first try."""
    agent = Agent(chat_model(FILE_NAME, real_url), output_type=Fruit, limits=FEW)
    result = run(agent, colour, "Describe an apple.")

    assert ("completed", 1, Fruit) == (result.status, result.steps, type(result.output))


@both
@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
def test_a_real_model_answers_by_call(real_url: str, wire: WireName, colour: Colour) -> None:
    """Where a call is demanded, its arguments are a value of the type; or the run says that they are not."""
    agent = Agent(model_at(real_url, wire, "never"), output_type=Fruit, limits=FEW)
    result = run(agent, colour, "Describe an apple.")

    assert result.status == "completed" or result.reason in ("invalid_output", "max_steps", "loop_guard", "truncated")
    if result.status == "completed":
        assert isinstance(result.output, Fruit)


def test_a_schema_beside_tools(real_url: str) -> None:
    """With a tool beside it the local profile gives the model a tool to answer with, which the server understands."""
    tool = Tool("weigh", "Weigh a fruit.", lambda fruit: "120 g", {"properties": {"fruit": {"type": "string"}}})
    agent = Agent(model_at(real_url, "chat", "without_tools"), [tool], output_type=Fruit, limits=FEW)
    result = agent.run("Describe an apple.")

    assert result.reason in ("completed", "invalid_output", "max_steps", "loop_guard", "truncated")
