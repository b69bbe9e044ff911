"""Tools and the table of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.codec import decode_fact, encode_fact
from plait.core.errors import ConfigError
from plait.core.facts import ToolEnd
from plait.core.messages import Image, ToolCall, ToolResult
from plait.kernel.tools import Tool, ToolContext, ToolTable, as_result
from tests.helpers.strategies import any_text, json_values
from tests.helpers.worlds import TABLE, call, needs_number

foreign = st.recursive(
    json_values | st.floats() | st.binary(max_size=4) | st.complex_numbers(),
    lambda inner: st.tuples(inner, inner) | st.dictionaries(st.integers() | any_text, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    "value, result",
    [
        ("text", ToolResult("c", "text")),
        (None, ToolResult("c")),
        ({"a": [1, "ü"]}, ToolResult("c", '{"a":[1,"ü"]}')),
        (3.5, ToolResult("c", "3.5")),
        (True, ToolResult("c", "true")),
        (b"raw", ToolResult("c", "b'raw'")),
        (float("nan"), ToolResult("c", "nan")),
        (("text", {"exit_code": 0}), ToolResult("c", "text", data={"exit_code": 0})),
        (("text", {"ok": False}), ToolResult("c", "text", True, {"ok": False}, "error")),
        (([1], {}), ToolResult("c", "[1]", data={})),
        (("a", "b"), ToolResult("c", '["a","b"]')),
        (("a", {"ok": 0}), ToolResult("c", "a", data={"ok": 0})),
        (ToolResult("other", "mine", status="denied"), ToolResult("c", "mine", status="denied")),
        ((ToolResult("", "bad", is_error=True), {"n": 1}), ToolResult("c", "bad", True, {"n": 1})),
    ],
    ids=repr,
)
def test_what_a_tool_gives_back_is_a_result(value: object, result: ToolResult) -> None:
    """Text, pairs, results, nothing, and any value have their place in a result."""
    assert result == as_result("c", value)


@given(foreign)
def test_any_value_makes_a_result_that_a_log_gives_back(value: object) -> None:
    """Whatever a tool returns, its result is written and read without a change, data included."""
    for given_back in (value, ("text", {"value": value}), ToolResult("x", data={"value": value})):
        fact = ToolEnd(as_result("c", given_back))
        name, data = encode_fact(fact)

        assert fact == decode_fact(name, json.loads(json.dumps(data)))


def test_a_wrong_result_of_a_tools_own_is_put_right() -> None:
    """A `ToolResult` with fields that no log takes becomes one that it does."""
    odd: Any = ToolResult("x", 3, status="splendid", data=[1], images=[Image("QQ==")])  # type: ignore[arg-type]

    made = as_result("c", odd)

    assert ToolResult("c", "3", True, {"data": [1]}, "error", (Image("QQ=="),)) == made


class _Broken:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_value_without_words_is_called_by_its_type() -> None:
    """A value that cannot even be printed does not break the turn."""
    assert "_Broken" == as_result("c", _Broken()).content
    assert {"x": "_Broken"} == as_result("c", ("t", {"x": _Broken()})).data


def test_a_result_does_not_change_afterwards() -> None:
    """What a tool does to its data after returning does not reach the history."""
    data = {"list": [1]}
    result = as_result("c", ("text", data))

    data["list"].append(2)

    assert {"list": [1]} == result.data


def test_flags_say_who_is_asked_and_what_may_repeat() -> None:
    """What changes something, runs code or asks for it is gated; only what says that it may be repeated is."""

    def tool(**flags: bool) -> Tool:
        return Tool("t", "", lambda: "", **flags)  # type: ignore[arg-type]

    assert [False, True, True, True] == [
        tool(**flags).gated for flags in ({}, {"mutates": True}, {"runs_code": True}, {"requires_approval": True})
    ]
    assert [False, False, True, True] == [
        tool(**flags).repeatable
        for flags in ({}, {"parallel_safe": True}, {"idempotent": True}, {"idempotent": True, "mutates": True})
    ]


def named(a: int, b: str = "x") -> str:
    """Do something."""
    return f"{a}{b}"


def test_parameters_are_given_or_inferred() -> None:
    """The schema comes from the signature unless given; names are mapped where they differ."""
    inferred = Tool("t", "d", named)
    given_one = Tool("t", "d", named, {"type": "object", "properties": {"n": {}}}, {"n": "a"})
    free = Tool("t", "d", named, custom_format={"type": "grammar"})

    assert ["a"] == inferred.resolved_parameters["required"]
    assert ({"a": "a", "b": "b"}, "named") == (inferred.resolved_param_map, inferred.python_function_name)
    assert ({"n": "a"}, {"a": 1, "z": 2}) == (given_one.resolved_param_map, given_one.keywords({"n": 1, "z": 2}))
    assert {"input": "input"} == free.resolved_param_map
    assert ("t", "d", {"type": "grammar"}) == (free.schema.name, free.schema.description, free.schema.custom_format)


def with_context(path: str, context: ToolContext) -> str:
    """Use the context."""
    return context.call_id + path


def test_a_context_is_no_argument() -> None:
    """A parameter of type `ToolContext` is the host's to fill in, and the model never sees it."""
    tool = Tool("t", "", with_context)

    assert "context" == tool.context_parameter
    assert ["path"] == list(tool.resolved_parameters["properties"])  # type: ignore[call-overload]
    assert Tool("t", "", named).context_parameter is None


def test_a_name_is_taken_once() -> None:
    """A second tool of a name is refused, and the first stays."""
    table = ToolTable([Tool("t", "first", named)])

    with pytest.raises(ValueError, match="already registered"):
        table.add(Tool("t", "second", named))
    assert "first" == table.get("t").description  # type: ignore[union-attr]
    assert 1 == len(table)


def test_schemas_are_the_same_object() -> None:
    """What the model sees stays in the order of registration, and stays the same object until a tool is added."""
    table = ToolTable(Tool(name, "", named) for name in ("zebra", "alpha", "mid"))
    shown = table.schemas

    assert ["zebra", "alpha", "mid"] == [schema.name for schema in shown] == [tool.name for tool in table]
    assert shown is table.schemas
    table.add(Tool("new", "", named))
    assert ["zebra", "alpha", "mid", "new"] == [schema.name for schema in table.schemas]


def test_an_invalid_schema_is_refused_at_once() -> None:
    """A tool whose schema is none never reaches a model."""

    def refuse(schema: Mapping[str, object]) -> Any:
        raise ValueError("'typ' is no keyword")

    with pytest.raises(ValueError, match="'t' has an invalid schema: 'typ' is no keyword"):
        ToolTable([Tool("t", "", named, {"typ": "object"})], compile=refuse)


@pytest.mark.parametrize(
    "names, batches",
    [
        ([], []),
        (["look"], [["look"]]),
        (["look", "count", "nope"], [["look", "count", "nope"]]),
        (["write", "write"], [["write"], ["write"]]),
        (["look", "write", "look", "look"], [["look"], ["write"], ["look", "look"]]),
    ],
)
def test_only_safe_calls_run_side_by_side(names: list[str], batches: list[list[str]]) -> None:
    """Runs of parallel-safe calls go together, every other call goes alone, in the order of the message."""
    calls = [call(name, str(number)) for number, name in enumerate(names)]

    assert batches == [[one.name for one in batch] for batch in TABLE.batches(calls)]


def test_a_call_may_run_or_is_told_why_not() -> None:
    """Nothing is wrong with a good call; the durable start is spared only where a repetition is harmless."""
    assert TABLE.check(call("count", "a", '{"n": 1}')) is None
    assert ToolResult("a", "Invalid arguments for 'count': 'n' must be a whole number.", True) == TABLE.check(
        call("count", "a")
    )
    assert [True, False, False] == [TABLE.is_repeatable(call(name, "a")) for name in ("look", "write", "nope")]


def test_free_text_is_not_parsed() -> None:
    """A tool with a grammar takes the text as it is; a tool without one takes no free text."""
    table = ToolTable([Tool("patch", "", named, custom_format={}), Tool("t", "", named)], compile=needs_number)

    assert table.check(ToolCall("a", "patch", "*** {", custom=True)) is None
    assert "takes JSON arguments" in table.check(ToolCall("a", "t", "*** {", custom=True)).content  # type: ignore[union-attr]


def test_an_empty_table_says_so() -> None:
    """Without any tool, an unknown one is answered all the same."""
    assert "The tools here are: none." in ToolTable().check(call("t", "a")).content  # type: ignore[union-attr]


def test_what_is_no_tool_is_refused_with_advice() -> None:
    """A bare function in a list of tools is told how to become one."""
    with pytest.raises(ConfigError, match="a Tool is wanted, not 'builtin_function_or_method'") as told:
        ToolTable([print])  # type: ignore[list-item]
    assert "wrap it" in told.value.hint
