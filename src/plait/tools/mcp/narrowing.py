"""Whether a tool of a server is no more than the one that was agreed to: the same words, and a schema that takes less.

Floor: 3. Owns: that one question, as a pure function; never: what follows from a no.

Two laws hold. What the narrower schema takes, the wider one took. And it has no text that the wider one had not: a
description, an allowed value, a pattern or a name is something that a model reads. Where a schema is too clever to be
sure, the answer is no.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from plait.tools.mcp.shown import Shown

_Schema = Mapping[str, object]

_MAXIMA: Final = frozenset("maximum exclusiveMaximum maxLength maxItems maxProperties".split())
_MINIMA: Final = frozenset("minimum exclusiveMinimum minLength minItems minProperties".split())
_TYPES: Final = frozenset("array boolean integer null number object string".split())
_KEPT_APART: Final = ("#/$defs/", "#/definitions/")
"""Parts of a schema that only references use; they have to be the same."""
_MISSING: Final = object()


def is_within(now: Shown, agreed: Shown) -> bool:
    """Say whether a tool is the one that was agreed to, or less of it: every word is the same."""
    if now.digest == agreed.digest:
        return True
    is_worded_alike = (now.own_name, now.description, now.hints) == (agreed.own_name, agreed.description, agreed.hints)
    return is_worded_alike and is_narrower(now.parameters, agreed.parameters)


def is_narrower(now: object, before: object) -> bool:
    """Say whether a schema takes nothing that another one would not, and says nothing that is not in it."""
    # A part that is referred to counts elsewhere too, within a `not` perhaps, where less of it is more.
    return _same(now, before) or (not _refers_to_parts(now) and _narrows(now, before))


def _narrows(now: object, before: object) -> bool:
    if _same(now, before) or now is False:
        return True
    if not isinstance(now, Mapping) or not isinstance(before, Mapping):
        return False
    return all(
        _is_less(key, now, before)
        for key in now.keys() | before.keys()
        if not _same(now.get(key, _MISSING), before.get(key, _MISSING))
    )


def _is_less(key: str, now: _Schema, before: _Schema) -> bool:
    """Say whether one keyword, which is not the same in both, leaves less."""
    if key in _MAXIMA or key in _MINIMA:
        return _is_tighter(key, now, before)
    rule = _RULES.get(key)
    return rule is not None and rule(now, before)


def _is_tighter(key: str, now: _Schema, before: _Schema) -> bool:
    new, old = now.get(key), before.get(key)
    if not _is_number(new) or (key in before and not _is_number(old)):
        return False
    if key not in before:
        return True
    assert isinstance(new, (int, float))
    assert isinstance(old, (int, float))
    return new <= old if key in _MAXIMA else new >= old


def _has_fewer_types(now: _Schema, before: _Schema) -> bool:
    new, old = (_texts(schema.get("type")) for schema in (now, before))
    if new is None or (old is None and "type" in before):
        return False
    return (
        set(new) <= _TYPES
        if old is None
        else all(name in old or (name == "integer" and "number" in old) for name in new)
    )


def _has_fewer_values(now: _Schema, before: _Schema) -> bool:
    new, old = now.get("enum"), before.get("enum")
    if not isinstance(new, (list, tuple)) or not isinstance(old, (list, tuple)):
        return False  # values where there were none are words that nobody has read
    known = {_text_of(value) for value in old}
    return all(_text_of(value) in known for value in new)


def _requires_more(now: _Schema, before: _Schema) -> bool:
    new, old = (_texts(schema.get("required", [])) for schema in (now, before))
    known = before.get("properties")
    if new is None or old is None or not isinstance(known, Mapping):
        return False
    return set(old) <= set(new) <= {*old, *known}


def _has_fewer_properties(now: _Schema, before: _Schema) -> bool:
    new, old = now.get("properties", {}), before.get("properties", {})
    if not isinstance(new, Mapping) or not isinstance(old, Mapping) or not new.keys() <= old.keys():
        return False
    # A property that is not declared any more is taken all the same, as anything at all, unless others are refused.
    is_closed = now.get("additionalProperties") is False and not now.keys() & {"patternProperties"}
    return (is_closed or new.keys() == old.keys()) and all(_narrows(new[name], old[name]) for name in new)


def _has_narrower_rest(key: str) -> Callable[[_Schema, _Schema], bool]:
    def rule(now: _Schema, before: _Schema) -> bool:
        return key in now and _narrows(now[key], before.get(key, True))

    return rule


_RULES: Final[Mapping[str, Callable[[_Schema, _Schema], bool]]] = {
    "type": _has_fewer_types,
    "enum": _has_fewer_values,
    "required": _requires_more,
    "properties": _has_fewer_properties,
    "additionalProperties": _has_narrower_rest("additionalProperties"),
    "items": _has_narrower_rest("items"),
}


def _texts(value: object) -> list[str] | None:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)) or not all(isinstance(each, str) for each in values):
        return None
    return list(values)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refers_to_parts(schema: object) -> bool:
    if isinstance(schema, Mapping):
        found = (schema.get(key) for key in ("$ref", "$dynamicRef", "$recursiveRef"))
        if any(isinstance(target, str) and not target.startswith(_KEPT_APART) for target in found):
            return True
        return any(_refers_to_parts(value) for value in schema.values())
    return isinstance(schema, (list, tuple)) and any(map(_refers_to_parts, schema))


def _same(one: object, other: object) -> bool:
    """Say whether two pieces of JSON are the same, in whatever order their members stand; a 1 is no `true`."""
    if one is _MISSING or other is _MISSING:
        return one is other
    return _text_of(one) == _text_of(other)


def _text_of(value: object) -> str:
    return json.dumps(value, sort_keys=True)
