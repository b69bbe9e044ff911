"""JSON as plait accepts it: exact integers, no NaN or infinity, no half characters.

Floor: 0. Owns: parsing what a model or a file sent, and dumping it again; never: a schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, NoReturn

_INT_BITS_MAX: Final = 14_000
"""Python neither reads nor writes more than 4,300 digits of an integer."""
_DEPTH_MAX: Final = 200
"""Deeper than this, whoever reads it may run out of stack."""


class JsonInvalid(ValueError):
    """The text is not the JSON that plait accepts; the message says what and where."""


def parse(text: str | bytes) -> object:
    """Return the value of a JSON text; raise `JsonInvalid` for anything else.

    Numbers are exact integers or finite floats; strings hold whole characters (a lone surrogate, which UTF-8
    cannot carry, is refused). Of a repeated key the last value counts, as everywhere in Python.
    """
    try:
        if isinstance(text, bytes):
            # json would guess UTF-16 and UTF-32, and let encoded halves of surrogate pairs through.
            text = text.decode("utf-8-sig")
        value = _DECODER.decode(text)
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
        text = _ENCODER.encode(value)
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


def plain(value: object) -> object:
    """Return the value as it would come back from JSON: text keys, lists for tuples, text for what JSON has not.

    The result shares nothing mutable with the value, so that it can be kept. Of what is nested deeper than 200
    levels, or holds itself, only the name of its type is left. Never raises.
    """
    try:
        return _plain(value, _DEPTH_MAX)
    except RecursionError:
        return type(value).__name__


def text_of(value: object) -> str:
    """Return `str(value)`, or the name of its type where that fails."""
    try:
        return str(value)
    except Exception:  # boundary: a foreign `__str__`
        return type(value).__name__


def _plain(value: object, depth: int) -> object:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INT_BITS_MAX else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth == 0 and isinstance(value, (Mapping, list, tuple)):
        # Not cut here and gone on with: what refers to itself twice would never end.
        raise RecursionError
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else text_of(key): _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth - 1) for item in value]
    return text_of(value)


def _may_hold_surrogate(text: str) -> bool:
    r"""Only a `\ud8xx` escape, or a surrogate in a Python string, can bring one in."""
    return "\\ud" in text or "\\uD" in text or (not text.isascii() and _is_lone(text))


def _is_lone(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _has_surrogate(value: object) -> bool:
    # Not recursive: the parser may have gone deeper than Python's own stack reaches.
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            if _is_lone(item):
                return True
        elif isinstance(item, list):
            left += item
        elif isinstance(item, dict):
            left += item.keys()
            left += item.values()
    return False


# Made once: json.dumps and json.loads make one on every call that changes how they write or read.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_DECODER: Final = json.JSONDecoder(parse_constant=_constant, parse_float=_float)
