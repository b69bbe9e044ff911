"""Answers that are values: what a program wants of an answer, how a model is told, and what it is told when it fails.

Floor: 4. Owns: reading an answer as a value, the one repair, the tool that a model answers with where its endpoint
knows no schema for answers; never: a request.

There are three ways to ask: `native` sends the schema with every request, after the messages; `tool` gives the model a
tool whose arguments are the answer; `words` puts the schema into the question. Whichever it is, an answer is checked
here, and an answer in the wrong form is taken where its content is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, Literal

from plait.core.errors import ConfigError
from plait.core.messages import ToolResult, user
from plait.core.strict_json import JsonInvalid, dump, parse
from plait.core.values import dataclass
from plait.engine.result import INVALID_OUTPUT, T
from plait.engine.validation import compile_schema
from plait.kernel.deferral import Deferral
from plait.kernel.effects import NOTHING, Boundary, End, Plan, Stop
from plait.kernel.loop import reply_of
from plait.kernel.ports import Model, Options
from plait.kernel.state import State
from plait.kernel.tools import Tool, ToolTable

Delivery = Literal["native", "tool", "words"]

REPAIRS_MAX: Final = 1
"""How often a model is told that its answer does not fit, in one turn."""
REPAIR: Final = "repair"
"""The mark of the message that tells it."""
ANSWER_TOOL: Final = "final_answer"
_VALUE: Final = "value"
_FENCED: Final = re.compile(r"```[\w-]*[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_TAKEN: Final = "The answer was taken."
_DESCRIPTION: Final = "Give the final answer. Call this once, when the task is done, instead of answering in words."
_WRONG: Final = "Your answer does not fit what is wanted: {problems}."
_AGAIN: Final = "Answer again with one JSON value, and nothing else, that fits this JSON Schema:\n{schema}"
_IN_WORDS: Final = (
    "When you are done, answer with one JSON value, without any words around it, that fits this JSON Schema:\n{schema}"
)


class OutputFault(ValueError):
    """A text is no value of the type; the message says why, in words that a model can act on."""


@dataclass(frozen=True, slots=True)
class OutputType(Generic[T]):
    """What an answer has to be."""

    schema: Mapping[str, object]
    check: Callable[[Any], str | None]
    """Says what keeps some JSON from fitting the schema."""
    read: Callable[[Any], T]
    """Makes the value from JSON that fits the schema."""
    closed: Mapping[str, object]
    """The schema for a model that can be held to it: every property is asked for."""
    is_wrapped: bool = False
    """The value travels as the one member of an object."""

    def as_object(self, schema: Mapping[str, object]) -> Mapping[str, object]:
        """Return the schema of what a model writes, which is an object always."""
        return _wrapped(schema) if self.is_wrapped else schema

    def value_of(self, text: str) -> T:
        """Return the value that an answer is, with or without a fence around it; raise `OutputFault`."""
        fence = _FENCED.fullmatch(text.strip())
        try:
            value = parse(fence[1] if fence else text)
        except JsonInvalid as error:
            raise OutputFault(f"it is no JSON value: {error}") from error
        return self.value_in(value)

    def value_in(self, value: object) -> T:
        """Return the value that some JSON is, in an object of its own or not; raise `OutputFault`."""
        if self.is_wrapped and isinstance(value, dict) and value.keys() == {_VALUE}:
            value = value if self.check(value) is None else value[_VALUE]
        problem = self.check(value)
        if problem is not None:
            raise OutputFault(problem)
        try:
            return self.read(value)
        except (ValueError, TypeError, AssertionError) as error:
            raise OutputFault(_words(error)) from error


def output_type_of(wanted: object) -> OutputType[Any] | None:
    """Return what an answer has to be; None where plain text is wanted, which every answer is.

    Args:
        wanted: None or `str` for plain text; a JSON Schema as a dict; or a type, see `output_types.shape_of`.

    Raises:
        ConfigError: it is neither a type that JSON can say nor a JSON Schema.
    """
    if wanted is None or wanted is str:
        return None
    if isinstance(wanted, OutputType):
        return wanted
    if isinstance(wanted, Mapping):
        schema = {"type": "object", **wanted} if "properties" in wanted else dict(wanted)
        return _output_type(schema, schema, lambda value: value)
    from plait.engine.output_types import closed, shape_of  # most answers are text

    shape = shape_of(wanted)
    return _output_type(shape.schema, closed(shape.schema), shape.read)


def _output_type(
    schema: Mapping[str, object], closed_schema: Mapping[str, object], read: Callable[[Any], Any]
) -> OutputType[Any]:
    try:
        check = compile_schema(schema)
    except ValueError as error:
        raise ConfigError(f"the output type has an invalid schema: {error}", hint="mend the JSON Schema") from error
    return OutputType(schema, check, read, closed_schema, is_wrapped=schema.get("type") != "object")


def _wrapped(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return the schema of an object that holds the value: no endpoint takes the schema of anything else."""
    outer = {key: part for key, part in schema.items() if key in ("$defs", "definitions", "$schema")}
    inner = {key: part for key, part in schema.items() if key not in outer}
    holder = {"type": "object", "properties": {_VALUE: inner}, "required": [_VALUE], "additionalProperties": False}
    return {**holder, **outer}


@dataclass(frozen=True, slots=True)
class Wanted:
    """An output type on its way to one model: how it is asked for, and how answers are judged."""

    type: OutputType[Any]
    delivery: Delivery
    tool: Tool | None = None
    """What the model answers with, where it is given a tool for that."""

    @classmethod
    def of(cls, type: OutputType[Any], model: Model, tools: ToolTable, *, may_add_tool: bool = True) -> Wanted:
        """Choose the way that the model's endpoint takes.

        Args:
            may_add_tool: False where the requests of a conversation have begun without the tool: what they begin
                with has to stay what it was.
        """
        native = getattr(model, "structured_output", "never")
        is_inline = getattr(model, "calls", "structured") == "inline"
        takes_tools = native == "always" and not is_inline
        if takes_tools or (native != "never" and not tools.schemas):
            return cls(type, "native")
        if is_inline:
            # To a model that writes its calls into its text, an object with a name is a call.
            return cls(replace(type, is_wrapped=True), "words")
        if not may_add_tool:
            return cls(type, "words")
        names = (ANSWER_TOOL, *(f"{ANSWER_TOOL}_{number}" for number in range(2, len(tools) + 3)))
        return cls(type, "tool", _answer_tool(next(name for name in names if tools.get(name) is None), type))

    def options(self, options: Options, *, has_other_tools: bool) -> Options:
        """Return the parameters of requests that ask for the type; a choice of tools of the caller's own stands."""
        if self.delivery == "native":
            return replace(options, response_schema=self.type.as_object(self.type.closed))
        if self.tool is None or options.tool_choice is not None:
            return options
        return replace(options, tool_choice="required" if has_other_tools else self.tool.name)

    def table(
        self, tools: Iterable[Tool], allowed: Sequence[str] | None = None, deferral: Deferral | None = None
    ) -> ToolTable | None:
        """Return the table of these tools and of the answering one, which stands last; None where there is none."""
        if self.tool is None:
            return None
        names = None if allowed is None else (*allowed, self.tool.name)
        return ToolTable((*tools, self.tool), compile=compile_schema, allowed=names, deferral=deferral)

    def question(self, text: str) -> str:
        """Return the question, with the schema where it travels in words."""
        if self.delivery != "words":
            return text
        return f"{text}\n\n{_IN_WORDS.format(schema=self._schema_text())}".lstrip()

    def plan(self, at: Boundary, state: State, steps_max: int | None) -> Plan:
        """Judge where the turn stands: nothing to do, tell the model once what is wrong, or end the turn."""
        if at.phase == "step":
            refused = self._refusals(state) if self._was_refused(state) else []
            if not refused or len(refused) + _told(state) <= REPAIRS_MAX:
                return NOTHING
            return Plan(stop=Stop(INVALID_OUTPUT, self._problem_of(*refused[-1])), final_reply=refused[-1][1])
        if state.history[-1].role == "tool":
            return NOTHING  # the tool has judged its call
        try:
            self.value_of(reply_of(state), state)
        except OutputFault as fault:
            if state.last_stop == "refusal":
                return Plan(stop=Stop(INVALID_OUTPUT, "the model refused to answer"))
            is_last_step = steps_max is not None and state.steps >= steps_max
            if is_last_step or len(self._refusals(state)) + _told(state) >= REPAIRS_MAX:
                return Plan(stop=Stop(INVALID_OUTPUT, str(fault)))
            return Plan(inject=(user(self._advice(str(fault)), mark=REPAIR),))
        return NOTHING

    def value_of(self, reply: str, state: State) -> Any:
        """Return the value that a turn's answer is; raise `OutputFault`.

        Of an answer in several parts the last may be all of it: a model that was cut off began anew.
        """
        try:
            return self.type.value_of(reply)
        except OutputFault as fault:
            last = state.history[-1].content if state.history else ""
            if not last or last == reply:
                raise
            try:
                return self.type.value_of(last)
            except OutputFault:
                raise fault from None

    def _problem_of(self, told: str, raw: str) -> str:
        """Return what is wrong with a refused answer; what the model was told also says whose answer it is."""
        try:
            self.type.value_of(raw)
        except OutputFault as fault:
            return str(fault)
        return told.rstrip(".")

    def _advice(self, problems: str) -> str:
        if self.tool is not None:
            return f"{_WRONG.format(problems=problems)} Answer again by calling the tool {self.tool.name}."
        return f"{_WRONG.format(problems=problems)} {_AGAIN.format(schema=self._schema_text())}"

    def _schema_text(self) -> str:
        return dump(self.type.as_object(self.type.schema))

    def _was_refused(self, state: State) -> bool:
        """Say whether the last round had an answer in it that did not fit."""
        if self.tool is None or not state.history or state.history[-1].role != "tool":
            return False
        failed = {result.call_id for result in state.history[-1].tool_results if result.status == "error"}
        return any(call.id in failed and call.name == self.tool.name for call in state.history[-2].tool_calls)

    def _refusals(self, state: State) -> list[tuple[str, str]]:
        """Return what this turn's answers by call were told that did not fit, each with its arguments."""
        if self.tool is None:
            return []
        turn = state.history[state.turn_began :]
        answers = {call.id: call.raw for message in turn for call in message.tool_calls if call.name == self.tool.name}
        results = (result for message in turn for result in message.tool_results if result.call_id in answers)
        return [(result.said, answers[result.call_id]) for result in results if result.status == "error"]


def settle(end: End, state: State, wanted: Wanted | None) -> tuple[End, Any]:
    """Return how a turn ended, and the value of its answer: the text itself where no type was wanted."""
    if end.reason != "completed" or wanted is None:
        return end, end.reply
    try:
        return end, wanted.value_of(end.reply or "", state)
    except OutputFault as fault:
        return End(INVALID_OUTPUT, end.reply, detail=str(fault)), None


def _told(state: State) -> int:
    """Return how often the model was told in this turn that its words do not fit."""
    return sum(message.marked(REPAIR) for message in state.history[state.turn_began :])


def _answer_tool(name: str, type: OutputType[Any]) -> Tool:
    def answer(**arguments: object) -> ToolResult:
        try:
            type.value_in(arguments)
        except OutputFault as fault:
            return ToolResult("", f"{_WRONG.format(problems=fault)} Call {name} again.", is_error=True)
        return ToolResult("", _TAKEN, data={"is_answer": True})

    parameters = type.as_object(type.schema)
    return Tool(name, _DESCRIPTION, answer, parameters, ends_turn=True, parallel_safe=True, idempotent=True)


def _words(error: Exception) -> str:
    """Return what is wrong in one line; of a validation error of pydantic's each problem with its place."""
    errors: Any = getattr(error, "errors", None)
    if not callable(errors):
        return f"{error}" or type(error).__name__
    found: Any = errors()
    said = [(".".join(str(step) for step in problem["loc"]), problem["msg"]) for problem in found]
    return "; ".join(f"at {where!r}: {what}" if where else what for where, what in said)
