"""JSON as plait accepts it: exact integers, no NaN or infinity, no half characters.

Floor: 0. Owns: parsing what a model or a file sent, and dumping it again; never: a schema.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn


class JsonInvalid(ValueError):
    """The text is not the JSON that plait accepts; the message says what and where."""


def parse(text: str | bytes) -> object:
    """Return the value of a JSON text; raise `JsonInvalid` for anything else.

    Numbers are exact integers or finite floats; strings hold whole characters (a lone surrogate, which UTF-8
    cannot carry, is refused). Of a repeated key the last value counts, as everywhere in Python.
    """
    try:
        value = json.loads(text, parse_constant=_constant, parse_float=_float)
    except UnicodeDecodeError as error:
        raise JsonInvalid(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise JsonInvalid("nested too deeply") from error
    except json.JSONDecodeError as error:
        raise JsonInvalid(f"{error.msg} at character {error.pos}") from error
    except ValueError as error:
        raise JsonInvalid(str(error)) from error
    if _may_hold_surrogate(text) and _has_surrogate(value):
        raise JsonInvalid("a string holds half of a surrogate pair")
    return value


def parse_object(text: str | bytes) -> dict[str, object]:
    """Return the JSON object in `text`; raise `JsonInvalid` for any other value."""
    value = parse(text)
    if not isinstance(value, dict):
        raise JsonInvalid(f"a JSON object is wanted, not {json_type(value)}")
    return value


def dump(value: object) -> str:
    """Return compact JSON; characters that UTF-8 cannot carry are escaped, NaN and infinity refused."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise JsonInvalid(str(error)) from error
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


def json_type(value: object) -> str:
    """Return the word for a value's JSON type, with its article: `an array`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (list, tuple)):
        return "an array"
    return "an object"


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _may_hold_surrogate(text: str | bytes) -> bool:
    r"""Only a `\ud8xx` escape, or a surrogate in a Python string, can bring one in."""
    if isinstance(text, bytes):
        return b"\\ud" in text or b"\\uD" in text
    return "\\ud" in text or "\\uD" in text or (not text.isascii() and _is_lone(text))


def _is_lone(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return _is_lone(value)
    if isinstance(value, list):
        return any(_has_surrogate(item) for item in value)
    if isinstance(value, dict):
        return any(_is_lone(key) or _has_surrogate(item) for key, item in value.items())
    return False
