"""Facts as JSON, both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import orjson
import pytest
from hypothesis import given, strategies as st

from plait.core.codec import (
    _READERS,
    FactInvalid,
    _Reader,
    decode_fact,
    decode_message,
    decode_usage,
    encode_fact,
    encode_message,
    encode_usage,
)
from plait.core.codec_quick import QUICK
from plait.core.facts import Asked, Fact, MessageAdded, Observation, Reset, ToolEnd, TurnEnd
from plait.core.messages import Image, Message, Text, ToolResult
from plait.core.usage import Usage
from tests.helpers.strategies import facts, json_objects, json_values, messages, usages

NAMES = (
    "turn_start message asked decided tool_start tool_end round reset_messages retry_scheduled turn_end note x_own"
).split()
FIELDS = ("role", "parts", "origin", "usage", "stop", "call", "content", "of", "reason", "status")
_TEXT = {"text": "a"}
_CALL = {"call": "c", "name": "n", "raw": "{}"}
NEAR_MISSES: list[tuple[str, dict[str, object]]] = [
    ("message", {"role": "robot", "parts": [_TEXT]}),
    ("message", {"role": [], "parts": [_TEXT]}),
    ("message", {"role": "user", "parts": [_TEXT], "more": 1}),
    ("message", {"role": "user", "parts": {"0": _TEXT}}),
    ("message", {"role": "user", "parts": ["a"]}),
    ("message", {"role": "user", "parts": [{"text": 1}]}),
    ("message", {"role": "user", "parts": [{"text": "a", "more": 1}]}),
    ("message", {"role": "user", "parts": [{**_CALL, "raw": {}}]}),
    ("message", {"role": "user", "parts": [{**_CALL, "more": 1}]}),
    ("message", {"role": "user", "parts": [_TEXT], "origin": 1}),
    ("message", {"role": "user", "parts": [_TEXT], "stop": "sometime"}),
    ("message", {"role": "user", "parts": [_TEXT], "usage": {"input": True}}),
    ("message", {"role": "user", "parts": [_TEXT], "usage": {"input": 1.0}}),
    ("message", {"role": "user", "parts": [_TEXT], "usage": {"input": 1, "more": 1}}),
    ("message", {"role": "user", "parts": [_TEXT], "usage": [1]}),
    ("tool_start", {"call": 1}),
    ("tool_start", {"call": "c", "more": 1}),
    ("tool_end", {"call": "c", "content": None}),
    ("tool_end", {"call": "c", "text": "a"}),
    ("round", {"of": True}),
    ("round", {"of": "1"}),
    ("turn_start", {"more": 1}),
    ("turn_end", {"reason": 1}),
    ("turn_end", {"detail": "x"}),
]


def through_json(value: object) -> object:
    """Return the value as a file gives it back."""
    return json.loads(json.dumps(value))


@given(facts)
def test_a_fact_comes_back_from_json_text(fact: Fact) -> None:
    """Whatever a fact holds, its JSON text holds all of it."""
    name, data = encode_fact(fact)

    assert fact == decode_fact(name, json.loads(json.dumps(data)))


@given(facts)
def test_the_fast_encoder_loses_nothing_that_it_accepts(fact: Fact) -> None:
    """Where orjson writes a fact at all, its text gives the fact back."""
    name, data = encode_fact(fact)
    try:
        text = orjson.dumps(data)
    except TypeError:
        return  # a lone surrogate or a large integer: refused loudly

    assert fact == decode_fact(name, orjson.loads(text))


@given(messages)
def test_a_message_comes_back_from_json_text(message: Message) -> None:
    """Every part of a message survives, the opaque ones verbatim."""
    assert message == decode_message(through_json(encode_message(message)))


@given(usages)
def test_a_usage_comes_back_from_json_text(usage: Usage) -> None:
    """Unreported stays unreported, zero stays zero, money stays exact."""
    data = through_json(encode_usage(usage))

    assert isinstance(data, dict)
    assert usage == decode_usage(data)


@given(st.sampled_from(NAMES), json_objects)
def test_arbitrary_json_is_a_fact_or_invalid(name: str, data: dict[str, object]) -> None:
    """No JSON object makes decoding fail in any other way than `FactInvalid`."""
    try:
        fact = decode_fact(name, data)
    except FactInvalid:
        return
    assert fact == decode_fact(*encode_fact(fact))


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of everything inside a JSON value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in steps:
        yield (*path, step)
        yield from places(item, (*path, step))


@given(facts, st.data())
def test_damage_anywhere_is_found_or_harmless(fact: Fact, data: st.DataObject) -> None:
    """One changed or missing value inside a record is refused, or reads as a fact that would be written so."""
    name, record = encode_fact(fact)
    damaged = through_json(record)
    where = data.draw(st.sampled_from(list(places(damaged)) or [()]), label="where")
    if not where:
        return
    inner = damaged
    for step in where[:-1]:
        inner = inner[step]  # type: ignore[index]
    assert isinstance(inner, (dict, list))
    if data.draw(st.booleans(), label="remove"):
        del inner[where[-1]]  # type: ignore[arg-type]
    else:
        inner[where[-1]] = data.draw(json_values, label="put")  # type: ignore[index,call-overload]

    assert isinstance(damaged, dict)
    try:
        read = decode_fact(name, damaged)
    except FactInvalid:
        return
    assert read == decode_fact(*encode_fact(read))


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("brand_new", {}, ("brand_new", "newer")),
        ("turn_start", {"resumed": 1}, ("turn_start", "resumed", "true or false")),
        ("turn_start", {"extra": 1}, ("turn_start", "unknown field", "extra")),
        ("turn_end", {}, ("turn_end", "reason", "missing")),
        ("turn_end", {"reason": None}, ("turn_end", "reason")),
        ("round", {"of": True}, ("round", "of", "whole number")),
        ("round", {"of": 1.0}, ("round", "of", "whole number")),
        ("message", {"role": "system"}, ("message", "role", "one of")),
        ("message", {"role": "user", "parts": {}}, ("message", "parts", "an array")),
        ("message", {"role": "user", "parts": [{"text": "a"}, {"text": 1}]}, ("message.parts[1]", "text")),
        ("message", {"role": "user", "parts": [3]}, ("message.parts[0]", "an object", "int")),
        ("message", {"role": "user", "parts": [{"hat": 1}]}, ("message.parts[0]", "hat")),
        ("message", {"role": "user", "parts": [{"text": "a", "call": "b"}]}, ("unknown field", "call")),
        ("message", {"role": "assistant", "stop": "tired"}, ("message", "stop", "one of")),
        ("message", {"role": "assistant", "usage": {"input": "3"}}, ("usage", "input")),
        ("message", {"role": "assistant", "usage": {"cost": 0.5}}, ("usage", "cost")),
        ("message", {"role": "assistant", "usage": {"cost": "NaN"}}, ("usage", "cost")),
        ("message", {"role": "assistant", "usage": {"cost": " 1_0 "}}, ("usage", "cost")),
        ("message", {"role": "assistant", "usage": {"estimated": [3]}}, ("usage.estimated[0]", "text")),
        ("tool_end", {"call": "c", "status": "fine"}, ("tool_end", "status", "one of")),
        ("tool_end", {"call": "c", "images": [{"data": "x", "kind": "url"}]}, ("tool_end.images[0]", "media_type")),
        (
            "tool_end",
            {"call": "c", "images": [{"data": "x", "image": "y", "media_type": "z", "kind": "url"}]},
            ("tool_end.images[0]", "unknown field", "image"),
        ),
        (
            "reset_messages",
            {"start": 0, "end": 0, "why": "w", "messages": [{"role": "user", "parts": [{}]}]},
            ("reset_messages.messages[0]", "message.parts[0]"),
        ),
    ],
)
def test_what_is_wrong_is_named(name: str, data: dict[str, object], words: tuple[str, ...]) -> None:
    """The refusal says which type, which item and which field it is about."""
    with pytest.raises(FactInvalid) as caught:
        decode_fact(name, data)

    assert [] == [word for word in words if word not in str(caught.value)]


def test_an_observation_is_an_object() -> None:
    """Data of an observation that are no object are invalid, like any other fact's."""
    with pytest.raises(FactInvalid, match="note: an object is wanted"):
        decode_fact("note", ["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("fact", [TurnEnd(""), Asked("", ""), ToolEnd(ToolResult("", data={}))])
def test_empty_text_in_a_required_field_is_written(fact: Fact) -> None:
    """A required field is never left out, or the log could not be read again."""
    assert fact == decode_fact(*encode_fact(fact))


def test_a_record_is_lean() -> None:
    """Fields that hold their default cost nothing."""
    assert ("turn_start", {}) == encode_fact(decode_fact("turn_start", {}))
    assert ("tool_end", {"call": "c", "content": "x"}) == encode_fact(ToolEnd(ToolResult("c", "x")))
    assert ("message", {"role": "user", "parts": [{"text": "hi"}]}) == encode_fact(
        MessageAdded(Message("user", (Text("hi"),)))
    )


def test_money_is_text() -> None:
    """A cost is written as the decimal it is, never as a float."""
    assert {"cost": "0.10", "currency": "EUR"} == encode_usage(Usage(cost=Decimal("0.10"), currency="EUR"))


def test_a_record_shares_nothing_with_its_fact() -> None:
    """Changing what was encoded does not reach into the fact."""
    data: dict[str, object] = {"exit_code": 1}
    fact = Observation("note", data)

    encode_fact(fact)[1]["exit_code"] = 2

    assert {"exit_code": 1} == fact.data


def test_a_reset_keeps_its_messages_whole() -> None:
    """Images inside results inside messages of a reset come back as they were."""
    result = ToolResult("c", "x", status="denied", images=(Image("QQ=="), Image("http://localhost/a", kind="url")))
    fact = Reset(1, 2, (Message("tool", (result,)),), "clear", Usage.ZERO)

    assert fact == decode_fact(*encode_fact(fact))


@given(facts, st.lists(st.tuples(st.text(max_size=3) | st.sampled_from(FIELDS), json_values), max_size=2), st.data())
def test_the_quick_readers_read_as_the_general_one(
    fact: Fact, changes: list[tuple[str, object]], data: st.DataObject
) -> None:
    """What a quick reader takes, the general one takes too, and to the same fact; what it leaves, it leaves alone."""
    name, told = encode_fact(fact)
    told = through_json(told)
    assert isinstance(told, dict)
    name = data.draw(st.sampled_from(sorted(QUICK)) | st.just(name))
    for field, value in changes:
        told[field] = value
    quick = QUICK.get(name, lambda _: None)(told)
    if quick is not None:
        reader = _Reader(name, told)
        assert _READERS[name](reader) == quick
        reader.done()


@pytest.mark.parametrize("told", NEAR_MISSES, ids=str)
def test_what_is_nearly_a_common_shape_is_left_to_the_general_reader(told: tuple[str, dict[str, object]]) -> None:
    """True is no number, null no text and a surplus key no message: the quick readers let go of it."""
    name, data = told

    assert QUICK[name](data) is None
    with pytest.raises(FactInvalid):
        decode_fact(name, data)


def test_sizes_are_kept_and_compared_by_nobody() -> None:
    """What is only told of a summary travels with it, and makes no other fact of it; an older log has none of it."""
    fact = Reset(1, 2, (), "compaction", None, (9_000, 12))
    kind, data = encode_fact(fact)
    read = decode_fact(kind, json.loads(json.dumps(data)))

    assert isinstance(read, Reset)
    assert (9_000, 12) == read.sizes
    assert read == Reset(1, 2, (), "compaction")
    older = decode_fact(kind, {"start": 1, "end": 2, "messages": [], "why": "compaction"})
    assert isinstance(older, Reset)
    assert older.sizes is None
