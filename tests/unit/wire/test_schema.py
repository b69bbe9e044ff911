"""Schemas as endpoints take them."""

from __future__ import annotations

from typing import Any

import pytest

from plait.wire.schema import is_strict, without_keywords

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"B": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
}


@pytest.mark.parametrize(
    "schema, expected",
    [
        (CLOSED, True),
        ({"type": "array", "items": CLOSED}, True),
        ({"type": "integer", "minimum": 1}, True),
        ({"enum": [{"default": 1}]}, True),
        ({"type": "object"}, False),
        ({**CLOSED, "required": ["a"]}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({"properties": {"a": {}}}, False),
        ({**CLOSED, "$defs": {"B": {"type": "object"}}}, False),
        ({"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}, False),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, False),
        ({"oneOf": [{"type": "string"}]}, False),
        ({"anyOf": [{"type": "string"}, {"allOf": []}]}, False),
    ],
    ids=range(13),
)
def test_which_schemas_a_model_can_be_held_to(schema: object, expected: bool) -> None:
    """Strict means: every object, wherever it stands, is closed and asks for all of its properties."""
    assert expected == is_strict(schema)


def test_keywords_are_taken_out_and_names_are_not() -> None:
    """A refused keyword is gone wherever it stands as one; a property of that name stays."""
    schema = {"$schema": "x", "properties": {"const": {"const": 1}}, "$defs": {"A": {"$schema": "y", "type": "null"}}}

    assert {"properties": {"const": {"enum": [1]}}, "$defs": {"A": {"type": "null"}}} == without_keywords(
        schema, frozenset({"$schema", "const"})
    )
