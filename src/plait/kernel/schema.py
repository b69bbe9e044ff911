"""A JSON Schema from a function's signature and docstring.

Floor: 1. Owns: how Python annotations read as JSON types; never: validation.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Final

_ARRAYS: Final = frozenset({list, tuple, set, frozenset, Sequence, Iterable, Collection, Set})
_SCALARS: Final[Mapping[object, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_ARGUMENT: Final = re.compile(r"^\s*(\w+)\s*(?:\([^)]*\))?\s*(?::|-|–)\s+(\S.*)$")
_SPHINX: Final = re.compile(r"^\s*:param\s+(?:[^:]*\s)?(\w+)\s*:\s*(\S.*)$")
_SECTION: Final = re.compile(r"^\s*(Args|Arguments|Parameters)\s*:\s*$")


def infer_parameters(fn: Callable[..., Any], *, skip: str | None = None) -> dict[str, object]:
    """Return the JSON Schema of a function's keyword arguments.

    `self`, `cls`, `*args`, `**kwargs` and the parameter `skip` are left out; parameters without a default are
    required. Annotations that say nothing in JSON become strings. A function that cannot be looked into takes no
    arguments.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return _object({}, [])
    hints = hints_of(fn)
    notes = argument_notes(inspect.getdoc(fn) or "")
    properties: dict[str, object] = {}
    required = []
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls", skip) or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        schema = json_schema_of(hints.get(name, parameter.annotation))
        if name in notes:
            schema["description"] = notes[name]
        properties[name] = schema
        if parameter.default is parameter.empty:
            required.append(name)
    return _object(properties, required)


def json_schema_of(annotation: object) -> dict[str, object]:
    """Return the JSON Schema of one annotation."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is typing.Literal:
        return _choice(list(arguments))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _choice([member.value for member in annotation])
    container = origin or annotation
    if isinstance(container, type) and container in _SCALARS:
        return {"type": _SCALARS[container]}
    if isinstance(container, type) and container in _ARRAYS:
        items = [item for item in arguments if item is not Ellipsis]
        return {"type": "array", "items": json_schema_of(items[0]) if items else {}}
    if isinstance(container, type) and issubclass(container, Mapping):
        return {"type": "object"}
    if isinstance(annotation, str) and annotation:
        # An annotation that could not be resolved: its author's own word for the type.
        return {"type": annotation} if annotation in _JSON_TYPES else {"type": "string"}
    return {} if annotation is Any else {"type": "string"}


def argument_notes(doc: str) -> dict[str, str]:
    """Return what a docstring says of each argument, in the Google or the Sphinx way."""
    notes: dict[str, str] = {}
    inside = False
    current = ""
    for line in doc.splitlines():
        sphinx = _SPHINX.match(line)
        if sphinx:
            notes[sphinx[1]] = sphinx[2].strip()
        elif _SECTION.match(line):
            inside, current = True, ""
        elif inside and line.strip() and not line.startswith((" ", "\t")):
            inside = False
        elif inside:
            match = _ARGUMENT.match(line)
            if match:
                current = match[1]
                notes[current] = match[2].strip()
            elif current and line.strip():
                notes[current] += " " + line.strip()
    return notes


_JSON_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


def hints_of(fn: Callable[..., Any]) -> dict[str, object]:
    """Return a function's annotations, resolved as far as they can be; one that cannot be does not cost the others."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    target = fn if inspect.isfunction(fn) or inspect.ismethod(fn) else getattr(fn, "__call__", fn)  # noqa: B004
    try:
        return dict(typing.get_type_hints(target, include_extras=True))
    except Exception:  # boundary: annotations are foreign expressions, and resolving runs them
        names = getattr(target, "__globals__", {})
        annotations = getattr(target, "__annotations__", {})
        return {name: _resolved(annotation, names) for name, annotation in annotations.items()}


def _resolved(annotation: object, names: dict[str, object]) -> object:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["it"]
    except Exception:  # boundary: annotations are foreign expressions, and resolving runs them
        return annotation


def _object(properties: dict[str, object], required: list[str]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": required}


def _annotated(arguments: tuple[object, ...]) -> dict[str, object]:
    schema = json_schema_of(arguments[0])
    notes = [note for note in arguments[1:] if isinstance(note, str)]
    return schema | ({"description": notes[0]} if notes else {})


def _union(arguments: tuple[object, ...]) -> dict[str, object]:
    some = [argument for argument in arguments if argument is not type(None)]
    if len(some) == 1:
        return json_schema_of(some[0])
    return {"anyOf": [json_schema_of(argument) for argument in some]}


def _choice(values: list[object]) -> dict[str, object]:
    kinds = {_SCALARS.get(type(value)) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    return {"type": kind, "enum": values} if kind else {"enum": values}
