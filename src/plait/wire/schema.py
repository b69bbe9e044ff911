"""Rewriting a tool's schema for endpoints that refuse some of its keywords.

Floor: 1. Owns: what is sent; never: the check of arguments, which uses the whole schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NAMED: Final = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are names of the user's, not keywords."""
_LITERAL: Final = frozenset({"enum", "const", "default", "examples", "required"})
"""Keywords whose values are data, not schemas."""


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
