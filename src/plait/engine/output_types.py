"""Python types as JSON: the schema of a type, and the way back from a JSON value to an instance.

Floor: 4. Owns: which types an answer can have; never: a model's text.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from plait.core.errors import ConfigError
from plait.core.strict_json import dump
from plait.engine.validation import compile_schema

Schema = dict[str, object]
Read = Callable[[Any], Any]
"""Makes a value of the type from JSON that fits its schema; raises `ValueError` where it still is none."""

_SCALARS: Final[Mapping[object, str]] = {str: "string", bool: "boolean", int: "integer", float: "number"}
_WRITTEN: Final[Mapping[object, tuple[str, Read]]] = {
    datetime.datetime: ("date-time", datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.fromisoformat),
    uuid.UUID: ("uuid", uuid.UUID),
}
"""Types that are written as text: the format, and how it is read."""
_ARRAYS: Final[Mapping[object, Read]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: list,
    Collection: list,
    Iterable: list,
    Set: frozenset,
}
_NOTHING: Final = type(None)
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Shape:
    """A type on its way through JSON."""

    schema: Schema
    read: Read


def shape_of(annotation: object) -> Shape:
    """Return the shape of a type: scalars, literals, enums, lists and the like, mappings, unions, dates, UUIDs,
    decimals, dataclasses, named tuples, typed dicts and pydantic models, nested in each other in any way.

    Raises:
        ConfigError: the type says nothing in JSON.
    """
    types_ = _Types(annotation)
    shape = types_.shape(annotation)
    schema = dict(shape.schema)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        # A schema that is only a reference is none to most endpoints.
        schema = dict(types_.definitions[reference.removeprefix("#/$defs/")])
    if types_.definitions:
        inner = schema.get("$defs")
        schema["$defs"] = {**(inner if isinstance(inner, dict) else {}), **types_.definitions}
    return Shape(schema, shape.read)


class _Types:
    """Types met so far: those that hold themselves are defined once, and referred to."""

    def __init__(self, root: object) -> None:
        self._root = root
        self.definitions: dict[str, Schema] = {}
        self._open: dict[object, str] = {}
        """Classes that are being described, with the names they have if they are met again."""
        self._recursive: set[object] = set()
        self._readers: dict[object, Read] = {}

    def shape(self, annotation: object) -> Shape:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if isinstance(annotation, typing.TypeVar) or annotation is Any or annotation is object:
            return Shape({}, _same)
        if origin is typing.Annotated:
            return self._annotated(arguments)
        if origin in (typing.Required, typing.NotRequired):
            return self.shape(arguments[0])
        behind = getattr(annotation, "__supertype__", getattr(annotation, "__value__", _ABSENT))
        if behind is not _ABSENT and not isinstance(annotation, type):
            return self.shape(behind)
        if origin in (typing.Union, types.UnionType):
            return self._union([self.shape(argument) for argument in arguments])
        if origin is typing.Literal:
            return _choice([(value, value) for value in arguments], annotation)
        plain = self._plain(origin or annotation, arguments)
        if plain is not None:
            return plain
        if isinstance(annotation, type):
            return self._class(annotation)
        raise _refused(annotation)

    def _plain(self, kind: object, arguments: tuple[object, ...]) -> Shape | None:
        """Return the shape of a type that has no fields, None for any other."""
        if kind in (None, _NOTHING):
            return Shape({"type": "null"}, _same)
        if kind in _SCALARS:
            return Shape({"type": _SCALARS[kind]}, float if kind is float else int if kind is int else _same)
        if kind in _WRITTEN:
            form, read = _WRITTEN[kind]
            return Shape({"type": "string", "format": form}, read)
        if kind is decimal.Decimal:
            return Shape({"type": ["number", "string"]}, _decimal)
        if kind in _ARRAYS:
            return self._array(kind, arguments)
        if isinstance(kind, type) and issubclass(kind, Mapping) and not typing.is_typeddict(kind):
            return self._mapping(arguments)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return _choice([(member.value, member) for member in kind], kind)
        return None

    def _annotated(self, arguments: tuple[object, ...]) -> Shape:
        inner = self.shape(arguments[0])
        notes = [note for note in arguments[1:] if isinstance(note, str)]
        return Shape({**inner.schema, "description": notes[0]}, inner.read) if notes else inner

    def _union(self, arms: list[Shape]) -> Shape:
        checks: list[tuple[Shape, Callable[[Any], bool]]] = []

        def read(value: object) -> object:
            # Made when it is first needed: an arm may refer to a type that is not described to its end yet.
            if not checks:
                checks.extend((arm, self._fits(arm.schema)) for arm in arms)
            fitting = [arm for arm, fits in checks if fits(value)]
            for arm in fitting[:-1]:
                try:
                    return arm.read(value)
                except ValueError:
                    continue
            return fitting[-1].read(value)

        return Shape({"anyOf": [arm.schema for arm in arms]}, read)

    def _fits(self, schema: Schema) -> Callable[[Any], bool]:
        inner = schema.get("$defs")
        definitions = {**self.definitions, **(inner if isinstance(inner, dict) else {})}
        check = compile_schema({**schema, "$defs": definitions} if definitions else schema)
        return lambda value: check(value) is None

    def _array(self, kind: object, arguments: tuple[object, ...]) -> Shape:
        make = _ARRAYS[kind]
        if kind is tuple and arguments and arguments[-1] is not Ellipsis:
            places = [self.shape(argument) for argument in arguments if argument != ()]
            count = len(places)
            schema: Schema = {"type": "array", "minItems": count, "maxItems": count}
            if places:
                schema["prefixItems"] = [place.schema for place in places]
            return Shape(
                schema, lambda value: tuple(place.read(item) for place, item in zip(places, value, strict=True))
            )
        item = self.shape(arguments[0]) if arguments else Shape({}, _same)
        return Shape({"type": "array", "items": item.schema}, lambda value: make(map(item.read, value)))

    def _mapping(self, arguments: tuple[object, ...]) -> Shape:
        if not arguments:
            return Shape({"type": "object"}, _same)
        key: Any = arguments[0]
        if key is not str and key is not Any:
            raise ConfigError(f"the keys of a JSON object are texts, not {arguments[0]!r}", hint="use dict[str, …]")
        item = self.shape(arguments[1])
        schema: Schema = {"type": "object", "additionalProperties": item.schema}
        return Shape(schema, lambda value: {key: item.read(part) for key, part in value.items()})

    def _class(self, kind: type) -> Shape:
        """Describe a class with fields; where it holds itself, refer to it."""
        if kind in self._open:
            self._recursive.add(kind)
            return Shape(_reference(self._open[kind]), lambda value: self._readers[kind](value))
        name = self._free_name(kind.__name__)
        self._open[kind] = name
        try:
            shape = self._fields(kind)
        finally:
            del self._open[kind]
        if kind not in self._recursive:
            return shape
        self._readers[kind] = shape.read
        self.definitions[name] = shape.schema
        return Shape(_reference(name), shape.read)

    def _free_name(self, wanted: str) -> str:
        taken = {*self.definitions, *self._open.values()}
        names = (wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3)))
        return next(name for name in names if name not in taken)

    def _fields(self, kind: Any) -> Shape:
        if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
            return self._pydantic(kind, is_root=kind is self._root)
        fields: dict[str, bool]
        make: Any = kind
        if dataclasses.is_dataclass(kind):
            fields = {field.name: _is_needed(field) for field in dataclasses.fields(kind) if field.init}
            return self._object(make, fields, lambda value: make(**value))
        if typing.is_typeddict(kind):
            fields = {field: field in kind.__required_keys__ for field in kind.__annotations__}
            return self._object(kind, fields, dict)
        names: Sequence[str] | None = getattr(kind, "_fields", None)
        if names is not None and issubclass(kind, tuple):
            fields = {name: name not in make._field_defaults for name in names}
            return self._object(kind, fields, lambda value: make(**value))
        raise _refused(kind)

    def _object(self, kind: type, fields: Mapping[str, bool], make: Read) -> Shape:
        try:
            hints = typing.get_type_hints(kind, include_extras=True)
        except (NameError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"the fields of {kind.__name__!r} cannot be looked up: {error}",
                hint="define the types that its annotations name at the top of a module",
            ) from error
        shapes = {name: self.shape(hints.get(name, Any)) for name in fields}
        schema: Schema = {
            "type": "object",
            "properties": {name: shape.schema for name, shape in shapes.items()},
            "required": [name for name, is_needed in fields.items() if _is_required(hints.get(name), is_needed)],
            "additionalProperties": False,
        }
        if _own_doc(kind):
            schema["description"] = _own_doc(kind)
        return Shape(schema, lambda value: make({name: shapes[name].read(part) for name, part in value.items()}))

    def _pydantic(self, kind: Any, *, is_root: bool) -> Shape:
        """Take a model's own schema; the names it defines get a prefix, so that no two models mean each other's."""
        prefix = "" if is_root else f"{kind.__name__}_"
        schema = dict(kind.model_json_schema(ref_template=f"#/$defs/{prefix}{{model}}"))
        inner = schema.pop("$defs", {})
        self.definitions |= {f"{prefix}{name}": definition for name, definition in inner.items()}
        return Shape(schema, lambda value: kind.model_validate_json(dump(value)))


def closed(schema: object) -> Any:
    """Return the schema as a model is best shown it: every property asked for, none beside, and no defaults."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    shown = {
        key: {name: closed(part) for name, part in value.items()}
        if key in ("properties", "$defs") and isinstance(value, Mapping)
        else value
        if key in ("enum", "const", "examples", "required")
        else closed(value)
        for key, value in schema.items()
        if key != "default" and not (key == "title" and isinstance(value, str))
    }
    if isinstance(shown.get("properties"), Mapping):
        shown["required"] = list(shown["properties"])
        shown.setdefault("additionalProperties", False)
    return shown


def _choice(members: Sequence[tuple[object, object]], of: object) -> Shape:
    """Describe some JSON values and what each of them stands for."""
    for value, _ in members:
        if not isinstance(value, (str, int, float, bool, _NOTHING)):
            raise ConfigError(f"{of!r} holds {value!r}, which JSON cannot say", hint="use texts or numbers")

    def read(value: object) -> object:
        # True and 1 are equal, and not the same.
        alike = [member for known, member in members if type(known) is type(value) and known == value]
        return alike[0] if alike else next(member for known, member in members if known == value)

    values = [value for value, _ in members]
    kinds = {_SCALARS.get(type(value)) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    return Shape({"type": kind, "enum": values} if kind else {"enum": values}, read)


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_required(hint: object, is_needed: bool) -> bool:
    """Believe the annotation: where annotations are texts, Python does not look into them for a `NotRequired`."""
    origin = typing.get_origin(hint)
    return origin is not typing.NotRequired and (is_needed or origin is typing.Required)


def _own_doc(kind: type) -> str:
    """Return the first line of what a class says of itself, not what was written for it."""
    doc = (kind.__dict__.get("__doc__") or "").strip()
    return "" if doc.startswith(f"{kind.__name__}(") else doc.split("\n", 1)[0]


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _same(value: object) -> object:
    return value


def _decimal(value: object) -> decimal.Decimal:
    try:
        return decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        raise ValueError(f"{value!r} is no decimal number") from None


def _refused(annotation: object) -> ConfigError:
    return ConfigError(
        f"{annotation!r} is no output type",
        hint="use a dataclass, a TypedDict, a pydantic model, a type of these and of scalars, or a JSON Schema",
    )
