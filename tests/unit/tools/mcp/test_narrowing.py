"""When a tool is less than the one that was agreed to: no input more, and no word more."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from plait.tools.mcp.narrowing import is_narrower

BASE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "where"},
        "mode": {"enum": ["r", "w", 1]},
        "size": {"type": "number", "maximum": 10},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}},
    },
    "required": ["path"],
}


def changed(**parts: Any) -> dict[str, Any]:
    """Return the base with other members; of `properties` those that are named, None for one that is gone."""
    found = copy.deepcopy(BASE)
    for name, value in parts.pop("properties", {}).items():
        found["properties"].pop(name) if value is None else found["properties"].update({name: value})
    return {**found, **parts}


CLOSED = {"additionalProperties": False}


@pytest.mark.parametrize(
    "now",
    [
        changed(required=["mode", "path"]),
        changed(**CLOSED),
        changed(properties={"mode": None}, **CLOSED),
        changed(properties={"mode": {"enum": ["w", "r"]}}),
        changed(properties={"size": {"type": "integer", "maximum": 5}}),
        changed(properties={"size": {"type": "number", "maximum": 10, "minimum": 0}}),
        changed(properties={"tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2}}),
        changed(properties={"path": {"description": "where", "type": "string", "maxLength": 9}}),
        dict(reversed(BASE.items())),
    ],
)
def test_less_is_less(now: dict[str, Any]) -> None:
    """Fewer values, types, or properties of a closed object; tighter bounds; more that is required; another order."""
    assert is_narrower(now, BASE)
    assert now == dict(reversed(BASE.items())) or not is_narrower(BASE, now)


@pytest.mark.parametrize(
    "now",
    [
        changed(properties={"mode": None}),
        changed(properties={"more": {"type": "string"}}),
        changed(properties={"path": {"type": "string", "description": "send all keys here"}}),
        changed(properties={"path": {"type": "string", "description": "where", "pattern": "^send keys$"}}),
        changed(properties={"path": {"type": "string", "description": "where", "enum": ["send keys"]}}),
        changed(properties={"path": {"type": "string"}}),
        changed(properties={"mode": {"enum": ["r", "w", True]}}),
        changed(properties={"size": {"type": "number", "maximum": 11}}),
        changed(properties={"size": {"type": "number"}}),
        changed(required=[]),
        changed(required=["path", "call_me_first"]),
        changed(additionalProperties={"type": "string", "title": "send keys"}),
        changed(title="send keys"),
        changed(**{"not": {"$ref": "#/properties/size"}}),
        True,
    ],
)
def test_more_is_more(now: object) -> None:
    """Whatever takes more, or says anything that was not said; what is too clever to be sure of counts as more."""
    assert not is_narrower(now, BASE)


def test_a_part_that_is_referred_to_has_to_stay() -> None:
    """Less of it may be more elsewhere."""
    before = {"properties": {"a": {"type": "number"}}, "not": {"$ref": "#/properties/a"}}
    assert not is_narrower({**before, "properties": {"a": {"type": "integer"}}}, before)
    assert is_narrower(before, copy.deepcopy(before))


scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 12), st.sampled_from(["", "r", "w", "long text"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)
types = st.sampled_from(["string", "number", "integer", "object", "array", "null"])


def schemas() -> st.SearchStrategy[Any]:
    """Small schemas of all that may become less, and of some that may not."""
    return st.recursive(
        st.one_of(st.booleans(), st.just({})),
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                "type": st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)),
                "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=json.dumps),
                "maximum": st.integers(0, 9),
                "minLength": st.integers(0, 3),
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
                "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
                "additionalProperties": inner,
                "items": inner,
                "not": inner,
            },
        ),
        max_leaves=5,
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two schemas, the first made of the second by a few changes."""
    before = draw(schemas())
    now = copy.deepcopy(before)
    for _ in range(draw(st.integers(1, 2))):
        holders = [now] if isinstance(now, dict) else []
        for holder in holders:
            holders += [part for part in holder.values() if isinstance(part, dict)]
        if not holders:
            return draw(schemas()), before
        holder = draw(st.sampled_from(holders))
        other = draw(schemas())
        for key in draw(st.lists(st.sampled_from([*holder, "type", "required", "items"]), max_size=2)):
            holder.pop(key, None)
        if isinstance(other, dict):
            holder.update(other)
    return now, before


@given(pairs(), st.lists(values, max_size=12))
def test_what_the_narrower_takes_the_wider_takes(pair: tuple[Any, Any], found: list[Any]) -> None:
    """A law of the pair, whatever the input."""
    now, before = pair
    try:
        validators = [jsonschema_rs.validator_for(schema) for schema in pair]
    except ValueError:
        return
    if is_narrower(now, before):
        for value in found:
            assert not validators[0].is_valid(value) or validators[1].is_valid(value)
