"""Answers that are values: asked for, checked, repaired once, or told to be none."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from plait import Agent, Cancel, ContextManager, Limits, Options, Profile, Tool
from plait.core.errors import ConfigError, InvalidOutput, LimitReached, PlaitError
from plait.core.events import Committed, Event
from plait.core.facts import TurnEnd
from plait.core.messages import Message, ToolCall, assistant, user
from plait.engine.structured import ANSWER_TOOL, REPAIR
from plait.kernel.effects import Boundary, Plan
from plait.testing import Call, Fail, Say, ScriptedModel
from plait.wire.profile import StructuredOutput
from tests.unit.engine.runs import Colour, both, run


@dataclass
class City:
    name: str
    people: int
    tags: list[str] = field(default_factory=list)


class Guest(BaseModel):
    name: str
    age: int

    @field_validator("age")
    @classmethod
    def _is_adult(cls, age: int) -> int:
        if age < 18:
            raise ValueError("guests are adults")
        return age


PARIS = {"name": "Paris", "people": 2}
GOOD = '{"name":"Paris","people":2}'
BAD = '{"name":"Paris"}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

deliveries = pytest.mark.parametrize("takes", ["always", "never"])


def look(at: str) -> str:
    """Look at something."""
    return f"{at} is blue"


LOOK = Tool("look", "Look at something.", look)


def said(text: str, takes: str) -> str | Call:
    """A model's answer in words, or by the tool that it is given for that."""
    return text if takes == "always" else Call(ANSWER_TOOL, text)


def marks(messages: Any) -> list[bool]:
    """Return which messages tell the model that its answer did not fit."""
    return [message.marked(REPAIR) for message in messages]


@both
@deliveries
def test_an_answer_is_a_value(colour: Colour, takes: StructuredOutput) -> None:
    """`output` is an instance of the type, `text` what the model wrote; one request was enough."""
    with ScriptedModel([said(GOOD, takes)], structured_output=takes) as model:
        result = run(Agent(model, output_type=City), colour)

    assert City("Paris", 2) == result.output
    assert (GOOD, "completed", 1, None) == (result.text, result.status, result.steps, result.error)
    assert result is result.raise_for_status()


@both
@deliveries
def test_tools_are_used_before_the_answer(colour: Colour, takes: StructuredOutput) -> None:
    """In the same turn the model calls tools, and only its last word is read."""
    script = [Say("I will look.", calls=[Call("look", {"at": "sky"})]), said(GOOD, takes)]
    with ScriptedModel(script, structured_output=takes) as model:
        result = run(Agent(model, [LOOK], output_type=City), colour)

    assert (City("Paris", 2), 2) == (result.output, result.steps)
    assert ["sky is blue"] == [item.content for item in model.requests[1].messages[-1].tool_results]


@both
@deliveries
def test_a_wrong_answer_is_told_once_and_mended(colour: Colour, takes: StructuredOutput) -> None:
    """The model is told what does not fit, by name, and its second answer counts."""
    with ScriptedModel([said(BAD, takes), said(GOOD, takes)], structured_output=takes) as model:
        result = run(Agent(model, output_type=City), colour)

    told = model.requests[1].messages[-1]
    assert "people" in "".join([told.content, *(item.content for item in told.tool_results)])
    assert (City("Paris", 2), 2, GOOD) == (result.output, result.steps, result.text)
    assert [False, takes == "always"] == [marks(model.requests[0].messages)[-1], marks([told])[0]]


@both
@deliveries
def test_an_answer_that_stays_wrong_is_an_error(colour: Colour, takes: StructuredOutput) -> None:
    """After one repair the run ends as an error with what is wrong; what the model said is all there."""
    ends: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, Committed) and isinstance(event.entry.fact, TurnEnd):
            ends.append(event.entry.fact.reason)

    with ScriptedModel([said(BAD, takes), said(BAD, takes)], structured_output=takes) as model:
        result = run(Agent(model, output_type=City, on_event=watch), colour)

    assert ("error", "invalid_output", BAD, 2) == (result.status, result.reason, result.text, result.steps)
    assert ["invalid_output"] == ends
    assert isinstance(result.error, InvalidOutput)
    assert (BAD, "protocol", "invalid_output") == (result.error.text, result.error.kind, result.error.code)
    assert '"people" is a required property' == result.error.problems
    with pytest.raises(InvalidOutput):
        result.raise_for_status()
    with pytest.raises(InvalidOutput):
        _ = result.output


@pytest.mark.parametrize(
    "wanted, text, value",
    [
        (int, "3", 3),
        (int, '{"value": 3}', 3),
        (bool, "true", True),
        (list[int], "[1,2]", [1, 2]),
        (list[City], f"[{GOOD}]", [City("Paris", 2)]),
        (City | None, "null", None),
        (dict[str, int], '{"a":1}', {"a": 1}),
        (SCHEMA, '{"n":1,"more":2}', {"n": 1, "more": 2}),
        ({"type": "array", "items": {"type": "integer"}}, '{"value":[1]}', [1]),
        ({"properties": {"n": {"type": "integer"}}}, '{"n":1}', {"n": 1}),
        (City, f"```json\n{GOOD}\n```", City("Paris", 2)),
        (City, f"\n\n```\n{GOOD}\n```\n", City("Paris", 2)),
        (Guest, '{"name":"Ada","age":36}', Guest(name="Ada", age=36)),
    ],
    ids=range(13),
)
def test_what_answers_are_taken(wanted: Any, text: str, value: object) -> None:
    """Types, unions and schemas, whose value stands alone or in an object, with or without a fence."""
    with ScriptedModel([text]) as model:
        result = Agent(model).run("go", output_type=wanted)

    assert value == result.output


@pytest.mark.parametrize(
    "wanted, text, problem",
    [
        (int, "three", "no JSON value"),
        (int, "", "no JSON value"),
        (int, '{"value": "3"}', "is not of type"),
        (City, f"Here it is: {GOOD}", "no JSON value"),
        (City, '{"name":"x","people":1,"mayor":"y"}', "mayor"),
        (City, '{"name":"x","people":NaN}', "NaN"),
        (datetime.date, '"tomorrow"', "Invalid isoformat"),
        (Guest, '{"name":"Tim","age":3}', "at 'age': Value error, guests are adults"),
    ],
    ids=range(8),
)
def test_what_answers_are_not_taken(wanted: Any, text: str, problem: str) -> None:
    """What is no JSON, no value of the schema, or refused by the type's own code is told with the reason."""
    asked: list[str] = []

    def script(request: Any) -> str:
        asked.append(request.last_text)
        return text

    result = Agent(ScriptedModel(script), limits=Limits(max_steps=9)).run("go", output_type=wanted)

    assert result.error is not None
    if text:
        assert ("invalid_output", True, 2) == (result.reason, problem in str(result.error), result.steps)
        assert problem in asked[1]
    else:
        assert "loop_guard" == result.reason


@both
def test_what_a_type_refuses_is_told_by_the_tool(colour: Colour) -> None:
    """An answer by call that fits the schema and not the type's own code is an error result, and is mended."""
    script = [Call(ANSWER_TOOL, {"name": "Tim", "age": 3}), Call(ANSWER_TOOL, {"name": "Ada", "age": 36})]
    with ScriptedModel(script, structured_output="never") as model:
        result = run(Agent(model, output_type=Guest), colour)

    assert Guest(name="Ada", age=36) == result.output
    assert "guests are adults" in model.requests[1].messages[-1].tool_results[0].content


@both
def test_words_in_place_of_a_call_are_read(colour: Colour) -> None:
    """A model that was given a tool and answers in words is believed where they are a value, else told to call it."""
    with ScriptedModel([GOOD], structured_output="never") as model:
        assert City("Paris", 2) == run(Agent(model, output_type=City), colour).output
    with ScriptedModel(["It is Paris.", Call(ANSWER_TOOL, GOOD)], structured_output="never") as model:
        assert City("Paris", 2) == run(Agent(model, output_type=City), colour).output

    assert f"calling the tool {ANSWER_TOOL}" in model.requests[1].last_text


def test_one_repair_in_all() -> None:
    """Words that do not fit and a call that does not fit are two wrong answers, not one of each."""
    with ScriptedModel(["It is Paris.", Call(ANSWER_TOOL, BAD)], structured_output="never") as model:
        result = Agent(model, output_type=City).run("go")

    assert ("invalid_output", BAD) == (result.reason, result.text)


@pytest.mark.parametrize("takes", ["always", "without_tools"])
def test_a_schema_goes_to_those_who_take_one(takes: StructuredOutput) -> None:
    """Without tools the schema is a parameter, the closed one, and the model sees no tool."""
    with ScriptedModel([GOOD], structured_output=takes) as model:
        Agent(model, output_type=City).run("go")

    setup = model.requests[0].setup
    assert ((), None) == (setup.tools, setup.options.tool_choice)
    assert setup.options.response_schema is not None
    assert ["name", "people", "tags"] == setup.options.response_schema["required"]


@pytest.mark.parametrize("takes, choice", [("without_tools", "required"), ("never", "required")])
def test_a_tool_goes_to_the_others(takes: StructuredOutput, choice: str) -> None:
    """Beside tools, or where no schema is taken, a last tool stands for the answer, from the first request on."""
    script = [Call("look", {"at": "sky"}), Call(ANSWER_TOOL, GOOD)]
    with ScriptedModel(script, structured_output=takes) as model:
        Agent(model, [LOOK], output_type=City).run("go")

    setups = [request.setup for request in model.requests]
    assert setups[0] == setups[1]
    assert ["look", ANSWER_TOOL] == [tool.name for tool in setups[0].tools]
    assert (choice, None) == (setups[0].options.tool_choice, setups[0].options.response_schema)


def test_the_one_tool_is_named() -> None:
    """Where there is nothing else to call, the answering tool itself is chosen; a caller's own choice stands."""
    with ScriptedModel([Call(ANSWER_TOOL, GOOD)] * 2, structured_output="never") as model:
        Agent(model, output_type=City).run("go")
        Agent(model, output_type=City, options=Options(tool_choice="auto")).run("go")

    assert [ANSWER_TOOL, "auto"] == [request.setup.options.tool_choice for request in model.requests]


def test_a_name_that_is_taken() -> None:
    """A tool of the caller's with the answering tool's name keeps it."""
    own = Tool(ANSWER_TOOL, "Look.", look)
    with ScriptedModel(
        [Call(ANSWER_TOOL, {"at": "x"}), Call(f"{ANSWER_TOOL}_2", GOOD)], structured_output="never"
    ) as m:
        assert City("Paris", 2) == Agent(m, [own], output_type=City).run("go").output


def test_the_answer_ends_the_turn_among_other_calls() -> None:
    """Calls beside the answer are run, and the model is not asked again."""
    calls = [Call("look", {"at": "sky"}), Call(ANSWER_TOOL, GOOD)]
    with ScriptedModel([calls], structured_output="never") as model:
        result = Agent(model, [LOOK], output_type=City).run("go")

    assert (City("Paris", 2), 1) == (result.output, result.steps)
    assert ["sky is blue", "The answer was taken."] == [item.content for item in result.messages[-1].tool_results]


@deliveries
def test_the_last_step_may_be_the_answer(takes: StructuredOutput) -> None:
    """A ceiling of one step leaves room for an answer, and none for a repair."""
    one = Limits(max_steps=1)
    with ScriptedModel([said(GOOD, takes), said(BAD, takes)], structured_output=takes) as model:
        good = Agent(model, output_type=City, limits=one).run("go")
        bad = Agent(model, output_type=City, limits=one).run("go")

    assert City("Paris", 2) == good.output
    assert {"always": "invalid_output", "never": "max_steps"}[takes] == bad.reason
    assert bad.error is not None


def test_a_refusal_is_not_repaired() -> None:
    """A model that refuses is not asked again, and its words are kept."""
    with ScriptedModel([Say("I cannot say.", finish_reason="refusal")]) as model:
        result = Agent(model, output_type=City).run("go")

    assert ("invalid_output", "I cannot say.") == (result.reason, result.text)
    assert "refused" in str(result.error)


def test_an_answer_that_was_cut_off_may_begin_anew() -> None:
    """Told to go on, a model that is held to a schema starts over: the last part is all of the answer."""
    with ScriptedModel([Say('{"name":"Pa', finish_reason="length"), GOOD]) as model:
        result = Agent(model, output_type=City).run("go")
    with ScriptedModel([Say('{"name":"Paris",', finish_reason="length"), '"people":2}']) as model:
        joined = Agent(model, output_type=City).run("go")

    assert City("Paris", 2) == result.output == joined.output


@both
def test_plain_text_is_an_output_too(colour: Colour) -> None:
    """Without a type, and with `str`, the output is the text, and nothing is asked of the endpoint."""
    with ScriptedModel(["Hello.", "Hello."]) as model:
        assert "Hello." == run(Agent(model), colour).output
        assert "Hello." == run(Agent(model, output_type=str), colour).output

    assert [None, None] == [request.setup.options.response_schema for request in model.requests]


def test_a_run_without_an_answer_has_no_output() -> None:
    """What a failed, limited or interrupted run raises for its output is its error, or says how it ended."""
    told = Cancel()
    told.cancel("interrupted")
    agent = Agent(ScriptedModel([Fail("auth"), Call("look", {"at": "x"})], allow_unused=True), [LOOK], output_type=City)
    failed, stopped = agent.run("go"), agent.run("go", cancel=told)
    limited = Agent(ScriptedModel([Call("look", {"at": "x"})]), [LOOK], limits=Limits(max_steps=1)).run("go")

    for result, kind in ((failed, PlaitError), (limited, LimitReached), (stopped, PlaitError)):
        with pytest.raises(kind):
            _ = result.output


def test_a_type_for_one_run() -> None:
    """A run may want another type than its agent, and another run none of its own."""
    with ScriptedModel(["3", GOOD]) as model:
        agent = Agent(model, output_type=City)
        assert (3, City("Paris", 2)) == (agent.run("go", output_type=int).output, agent.run("go").output)


def test_one_context_keeps_its_beginning() -> None:
    """Where runs go on with each other, a type of one run's own adds no tool: it is asked for in words."""
    with ScriptedModel(["Hello.", "3", "Bye."], structured_output="never") as model:
        agent = Agent(model, [LOOK], context=ContextManager())
        agent.run("one")
        assert 3 == agent.run("two", output_type=int).output
        agent.run("three")

    assert [("look",)] * 3 == [tuple(tool.name for tool in request.setup.tools) for request in model.requests]
    assert "JSON Schema" in model.requests[1].last_text


def test_a_profile_that_filters_tools_leaves_the_answer() -> None:
    """The answering tool is not one that a profile can take away."""
    with ScriptedModel([Call(ANSWER_TOOL, GOOD)], structured_output="never") as model:
        result = Agent(model, [LOOK], output_type=City).run("go", profile=Profile(tool_filter=[]))

    assert City("Paris", 2) == result.output
    assert [ANSWER_TOOL] == [tool.name for tool in model.requests[0].setup.tools]


@both
def test_nobody_is_asked_about_an_answer(colour: Colour) -> None:
    """An approver that allows nothing is not heard about an answer by call, not even where it judges plans."""

    class Never:
        def approve(self, call: ToolCall, tool: Tool) -> bool:
            return False

        def approve_plan(self, calls: Sequence[ToolCall], tools: Sequence[Tool]) -> bool:
            return False

    for plan_mode in (False, True):
        with ScriptedModel([Call(ANSWER_TOOL, GOOD)], structured_output="never") as model:
            agent = Agent(model, output_type=City, approver=Never(), plan_mode=plan_mode)
            assert City("Paris", 2) == run(agent, colour).output


@both
def test_a_boundary_hook_goes_first(colour: Colour) -> None:
    """A hook that says something more is heard before the answer is read, and may answer in the model's place."""
    said_once: list[int] = []

    def more(at: Boundary) -> Plan | None:
        if at.phase == "final" and not said_once:
            said_once.append(at.step)
            return Plan(inject=(user("And its people?"),))
        return None

    with ScriptedModel([BAD, GOOD]) as model:
        assert City("Paris", 2) == run(Agent(model, output_type=City, on_boundary=more), colour).output
    with ScriptedModel([BAD]) as model:
        hook = lambda at: Plan(final_reply="no value") if at.phase == "final" else None  # noqa: E731
        result = run(Agent(model, output_type=City, on_boundary=hook), colour)

    assert ("invalid_output", "no value") == (result.reason, result.text)


def test_fragments_are_heard_as_they_come() -> None:
    """An answer in words streams like any other; one by call has no words."""
    heard: list[str] = []
    with ScriptedModel([GOOD]) as model:
        Agent(model, output_type=City).run("go", on_text=heard.append)

    assert GOOD == "".join(heard)


@pytest.mark.parametrize("wanted", [bytes, {"type": "nonsense"}, 3], ids=["bytes", "schema", "number"])
def test_a_type_that_is_none_is_refused_at_once(wanted: Any) -> None:
    """A type that JSON cannot say, and a schema that is none, are refused before a request is made."""
    with pytest.raises(ConfigError):
        Agent(ScriptedModel([]), output_type=wanted)
    with pytest.raises(ConfigError):
        Agent(ScriptedModel([])).run("go", output_type=wanted)


def test_the_conversation_goes_on_after_an_answer_by_call() -> None:
    """The history that such a turn leaves is a valid one, and the next turn begins after it."""
    with ScriptedModel([Call(ANSWER_TOOL, GOOD), Call(ANSWER_TOOL, GOOD)], structured_output="never") as model:
        agent = Agent(model, output_type=City, context=ContextManager())
        first, second = agent.run("one"), agent.run("two")

    assert [1, 1] == [first.steps, second.steps]
    roles = [message.role for message in model.requests[1].messages]
    assert ["user", "assistant", "tool", "user"] == roles


def test_many_runs_at_once() -> None:
    """Runs of one agent with different types do not mix their answers."""

    async def both_runs() -> tuple[City, int]:
        def script(request: Any) -> str:
            return "3" if "number" in request.messages[0].content else GOOD

        agent = Agent(ScriptedModel(script))
        results = await asyncio.gather(agent.arun("a city", output_type=City), agent.arun("a number", output_type=int))
        return results[0].output, results[1].output

    assert (City("Paris", 2), 3) == asyncio.run(both_runs())


def test_a_history_of_words_alone_is_read() -> None:
    """The messages of a run are all there, whatever became of its answer."""
    with ScriptedModel([BAD, BAD]) as model:
        result = Agent(model, output_type=City).run("go")

    words: list[Message] = [assistant(BAD, origin="scripted")] * 2
    assert words == [message for message in result.messages if message.role == "assistant"]
