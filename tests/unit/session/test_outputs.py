"""Answers of sessions that are values, and pictures of their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plait import init_session, run_agent, run_task, run_turn
from plait.core.errors import ConfigError, InvalidOutput
from plait.core.messages import Image
from plait.engine.structured import ANSWER_TOOL
from plait.kernel.tools import Tool
from plait.session.result import SessionResult
from plait.session.session import Session
from plait.testing import Call, ScriptedModel, ScriptServer
from plait.tools.spec import schema_entry
from plait.wire.profile import StructuredOutput
from tests.unit.models.test_structured_requests import extends


@dataclass
class City:
    name: str
    people: int


GOOD = '{"name":"Paris","people":2}'
BAD = '{"name":"Paris"}'


def look(at: str) -> str:
    """Look at something."""
    return f"{at} is blue"


LOOK = Tool("look", "Look at something.", look)
SPEC = {"model": "m", "endpoint": "http://127.0.0.1:9", "tool_specs": [schema_entry(LOOK)]}


WAYS: tuple[StructuredOutput, ...] = ("always", "never")


def opened(*, output_type: Any = None, **options: Any) -> Session:
    """A session that keeps nothing."""
    return init_session(SPEC, output_type=output_type, tools=[LOOK], durable=False, strict_cache_proof=False, **options)


def test_a_session_has_an_output_type() -> None:
    """Every turn of a session with a type comes to a value; a tool for that is there from the first request on."""
    for takes in WAYS:
        answer = GOOD if takes == "always" else Call(ANSWER_TOOL, GOOD)
        with ScriptedModel([answer, answer], structured_output=takes) as model:
            session = opened(output_type=City)
            results: list[Any] = [run_turn(model, "m", session, "go"), run_turn(model, "m", session, "again")]

        assert [City("Paris", 2)] * 2 == [result.output for result in results]
        assert [GOOD] * 2 == [result.final_reply for result in results]
        setups = [request.setup for request in model.requests]
        assert setups[0].tools == setups[1].tools
        names = [tool["function"]["name"] for tool in session["tools"]]
        assert names == [tool.name for tool in setups[0].tools]
        assert set(names) == set(session["tool_dispatch"])


def test_a_turn_has_an_output_type_of_its_own() -> None:
    """One turn of a session may be asked for a value: its head stays what it was, with any endpoint."""
    for takes in WAYS:
        with ScriptedModel(["Hello.", "3", "Bye."], structured_output=takes) as model:
            session = opened()
            run_turn(model, "m", session, "one")
            three = run_turn(model, "m", session, "two", output_type=int)
            bye = run_turn(model, "m", session, "three")

        assert (3, "Bye.") == (three.output, bye.output)
        assert 1 == len({tuple(tool.name for tool in request.setup.tools) for request in model.requests})
        assert (takes == "never") == ("JSON Schema" in model.requests[1].last_text)


def test_requests_of_a_session_extend_each_other() -> None:
    """Over a real wire, with the answering tool, a repair and a second turn, each request begins with the last one."""
    script = [Call("look", {"at": "sky"}), Call(ANSWER_TOOL, BAD), Call(ANSWER_TOOL, GOOD), Call(ANSWER_TOOL, GOOD)]
    with ScriptServer(script) as server:
        spec = {**SPEC, "endpoint": server.url}
        with init_session(spec, output_type=City, tools=[LOOK], durable=False, strict_cache_proof=False) as session:
            from plait import create_client

            with create_client(spec) as client:
                first: SessionResult[Any] = run_turn(client, "m", session, "one")
                second: SessionResult[Any] = run_turn(client, "m", session, "two")

    assert (3, City("Paris", 2), City("Paris", 2)) == (first.steps, first.output, second.output)
    assert [True] * 3 == extends([request.body for request in server.requests])


def test_an_answer_that_stays_wrong() -> None:
    """The result has the error, its text, and the status; the session's messages hold all that was said."""
    events: list[tuple[str, Any]] = []
    with ScriptedModel([BAD, BAD]) as model:
        session = opened(output_type=City, on_event=lambda name, event: events.append((name, event)))
        result = run_turn(model, "m", session, "go")

    assert ("error", None) == (result.status, result.final_reply)
    assert isinstance(result.error, InvalidOutput)
    assert BAD == result.error.text
    with pytest.raises(InvalidOutput):
        _ = result.output
    assert [BAD, BAD] == [item["content"] for item in session["messages"] if item["role"] == "assistant"]
    assert ["InvalidOutput"] == [event["error_class"] for name, event in events if name == "error"]


def test_the_final_answer_is_told() -> None:
    """The event of a turn's end has the answer, also where a tool brought it."""
    told: list[str] = []
    with ScriptedModel([Call(ANSWER_TOOL, GOOD)], structured_output="never") as model:
        session = opened(
            output_type=City,
            on_event=lambda name, event: told.append(event["text"]) if name == "final_answer" else None,
        )
        run_turn(model, "m", session, "go")

    assert [GOOD] == told


def test_whole_tasks_have_output_types_and_pictures(tmp_path: Path) -> None:
    """`run_task` and `run_agent` take both."""
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    picture = Image.from_path(tmp_path / "dot.png")
    shared: dict[str, Any] = {"tools": [LOOK], "durable": False, "strict_cache_proof": False}
    with ScriptedModel([GOOD, "[1]"], supports_images=True) as model:
        shared["client"] = model
        city = run_task(SPEC, "go", output_type=City, images=["dot.png"], **shared)
        numbers = run_agent(task="go", model="m", endpoint="http://127.0.0.1:9", output_type=list[int], **shared)

    assert (City("Paris", 2), [1]) == (city.output, numbers.output)
    assert (picture,) == model.requests[0].messages[0].images


def test_what_cannot_be_used_is_refused_first() -> None:
    """A type that is none and a picture that is not there are told before a turn begins."""
    with pytest.raises(ConfigError, match="no output type"):
        opened(output_type=bytes)
    session = opened()
    with pytest.raises(ConfigError, match=r"gone\.png"):
        run_turn(ScriptedModel([], supports_images=True), "m", session, "go", images=["gone.png"])
    with pytest.raises(ConfigError, match="no output type"):
        run_turn(ScriptedModel([]), "m", session, "go", output_type=complex)
    assert [] == [item for item in session["messages"] if item["role"] != "system"]


def test_a_model_that_writes_its_calls_into_its_text() -> None:
    """Such a model is told in words, and its answer is not taken for a call."""
    spec = {**SPEC, "behaviour": {"call_delivery_mode": "inline"}}
    with ScriptServer([f'{{"value":{GOOD}}}']) as server:
        result = run_task(
            {**spec, "endpoint": server.url},
            "go",
            output_type=City,
            tools=[LOOK],
            durable=False,
            strict_cache_proof=False,
        )

    assert City("Paris", 2) == result.output
    assert "JSON Schema" in server.requests[0].last_text
