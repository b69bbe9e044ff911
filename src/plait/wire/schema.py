"""Rewriting schemas for endpoints that refuse some of their keywords, and telling strict ones from others.

Floor: 1. Owns: what is sent; never: the check of arguments and answers, which uses the whole schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NAMED: Final = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are names of the user's, not keywords."""
_LITERAL: Final = frozenset({"enum", "const", "default", "examples", "required"})
"""Keywords whose values are data, not schemas."""
_LOOSE: Final = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "default", "patternProperties", "prefixItems", "uniqueItems"}
    | {"dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties", "contains"}
)
"""Keywords that no strict schema holds."""


def without_keywords(schema: Mapping[str, object], refused: frozenset[str]) -> Mapping[str, object]:
    """Return the schema without the refused keywords, wherever they stand; `const` becomes an `enum` of one."""
    if not refused:
        return schema
    rewritten = _rewrite(schema, refused)
    return rewritten if isinstance(rewritten, dict) else {}


def _rewrite(schema: object, refused: frozenset[str]) -> object:
    if isinstance(schema, list):
        return [_rewrite(item, refused) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    rewritten: dict[str, object] = {}
    for key, value in schema.items():
        if key == "const" and key in refused:
            rewritten["enum"] = [value]
        elif key in refused:
            continue
        elif key in _NAMED and isinstance(value, Mapping):
            rewritten[key] = {name: _rewrite(item, refused) for name, item in value.items()}
        else:
            rewritten[key] = value if key in _LITERAL else _rewrite(value, refused)
    return rewritten


def is_strict(schema: object) -> bool:
    """Say whether an endpoint can hold a model to the schema: every object is closed, and asks for all it names."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if not _LOOSE.isdisjoint(schema):
        return False
    properties = schema.get("properties", {})
    is_object = schema.get("type") == "object" or "properties" in schema
    if is_object and (
        schema.get("additionalProperties") is not False
        or not isinstance(properties, Mapping)
        or set(schema.get("required", ())) != set(properties)
    ):
        return False
    return all(_are_strict(key, value) for key, value in schema.items() if key not in _LITERAL)


def _are_strict(key: str, value: object) -> bool:
    if key in _NAMED and isinstance(value, Mapping):
        return all(map(is_strict, value.values()))
    return is_strict(value)
