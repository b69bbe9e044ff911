"""Argument checks by JSON Schema, compiled once a tool.

Floor: 4. Owns: the bridge to the validator; never: a schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from plait.kernel.tools import Check

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_PROBLEMS_MAX: Final = 5
_VALUE_CHARS_MAX: Final = 200


def compile_schema(schema: Mapping[str, object]) -> Check:
    """Return a check for arguments; raise `ValueError` for a schema that is not one."""
    schema = dict(schema)
    try:
        validator = _validator(schema)
    except ValueError as error:
        raise ValueError(str(error).split("\n", 1)[0]) from error

    def check(arguments: Mapping[str, object]) -> str | None:
        if validator.is_valid(arguments):
            return None
        problems = []
        for problem in validator.iter_errors(arguments):
            where = ".".join(str(step) for step in problem.instance_path)
            said = (
                problem.message
                if len(problem.message) <= _VALUE_CHARS_MAX
                else problem.message[:_VALUE_CHARS_MAX] + "…"
            )
            problems.append(f"at {where!r}: {said}" if where else said)
            if len(problems) == _PROBLEMS_MAX:
                break
        return "; ".join(problems) or "they do not fit the schema"

    return check


def _validator(schema: dict[str, object]) -> Validator:
    """Return the validator of a schema: every conversation of a program has the same few."""
    try:
        text = json.dumps(schema)
        if json.loads(text) == schema:
            return _validator_of(text)
    except (TypeError, ValueError, RecursionError):
        pass  # no JSON: the validator itself says what is wrong with it
    import jsonschema_rs

    return jsonschema_rs.validator_for(schema)


@lru_cache(maxsize=256)
def _validator_of(text: str) -> Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for(json.loads(text))
