"""Python types as JSON, there and back."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

from plait.core.errors import ConfigError
from plait.engine.output_types import closed, shape_of
from plait.engine.validation import compile_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Point:
    """Where something is.

    The rest is nobody's business.
    """

    x: int
    y: float = 0.0
    computed: str = field(init=False, default="")


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    parent: Tree | None = None


class Film(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: Point
    right: Point | None = None


class Address(BaseModel):
    street: str = Field(min_length=2)


class Person(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str
    born: datetime.date
    home: Address | None = None


class Node(BaseModel):
    value: int
    next: Node | None = None


@dataclass
class Team:
    lead: Person
    tree: Tree | None = None


UserId = NewType("UserId", int)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")

ROUND_TRIPS: dict[str, tuple[Any, Any, Any]] = {
    "bool": (bool, True, True),
    "int": (int, 3, 3),
    "a whole float is an int": (int, 3.0, 3),
    "a whole number is a float": (float, 3, 3.0),
    "none": (None, None, None),
    "any": (Any, {"a": [1]}, {"a": [1]}),
    "new type": (UserId, 7, 7),
    "list": (list[int], [1, 2], [1, 2]),
    "bare list": (list, [1, "a"], [1, "a"]),
    "set": (set[str], ["a", "a"], {"a"}),
    "frozenset": (frozenset[str], ["a"], frozenset({"a"})),
    "tuple of any length": (tuple[int, ...], [1, 2], (1, 2)),
    "tuple": (tuple[int, Colour], [1, "red"], (1, Colour.RED)),
    "dict": (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
    "literal": (Literal["a", 1, True], True, True),
    "enum": (Colour, "blue", Colour.BLUE),
    "int enum": (Size, 2, Size.LARGE),
    "optional": (Colour | None, None, None),
    "union, second arm": (Point | Film, {"title": "M"}, {"title": "M"}),
    "union of a date and a text": (datetime.date | str, "soon", "soon"),
    "union, first arm that reads": (datetime.date | str, "2026-11-30", datetime.date(2026, 11, 30)),
    "date and time": (
        datetime.datetime,
        "2026-11-30T05:00:00Z",
        datetime.datetime(2026, 11, 30, 5, tzinfo=datetime.UTC),
    ),
    "time": (datetime.time, "05:00:00", datetime.time(5)),
    "uuid": (uuid.UUID, str(ID), ID),
    "decimal": (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    "dataclass": (Point, {"x": 1, "y": 2}, Point(1, 2.0)),
    "dataclass with a default": (Point, {"x": 1}, Point(1)),
    "typed dict": (Film, {"title": "M"}, {"title": "M"}),
    "named tuple": (Pair, {"left": {"x": 1}}, Pair(Point(1))),
    "recursive": (
        Tree,
        {"name": "a", "children": [{"name": "b"}], "parent": {"name": "c"}},
        Tree("a", [Tree("b")], Tree("c")),
    ),
    "list of recursive": (list[Tree], [{"name": "a", "children": [{"name": "b"}]}], [Tree("a", [Tree("b")])]),
    "pydantic, strict": (
        Person,
        {"name": "Ada", "born": "1815-12-10", "home": {"street": "St"}},
        Person(name="Ada", born=datetime.date(1815, 12, 10), home=Address(street="St")),
    ),
    "recursive pydantic": (Node, {"value": 1, "next": {"value": 2}}, Node(value=1, next=Node(value=2))),
    "pydantic in a dataclass": (
        Team,
        {"lead": {"name": "Ada", "born": "1815-12-10"}, "tree": {"name": "t"}},
        Team(Person(name="Ada", born=datetime.date(1815, 12, 10)), Tree("t")),
    ),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_value_fits_its_schema_and_is_read_as_its_type(name: str) -> None:
    """Every type has a schema that is one, JSON that means a value fits it, and comes back as that value."""
    annotation, value, expected = ROUND_TRIPS[name]
    shape = shape_of(annotation)

    assert None is compile_schema(shape.schema)(value)
    read = shape.read(value)
    assert (expected, type(expected)) == (read, type(read))


@pytest.mark.parametrize(
    "annotation, value",
    [
        (int, "3"),
        (bool, 1),
        (Colour, "green"),
        (Literal[1], 2),
        (Point, {"y": 1}),
        (Point, {"x": 1, "z": 2}),
        (Film, {"year": 3}),
        (tuple[int, str], [1]),
        (Tree, {"name": "a", "children": [{}]}),
        (dict[str, int], {"a": "b"}),
        (Person, {"name": "Ada"}),
    ],
    ids=str,
)
def test_what_is_no_value_of_the_type_does_not_fit(annotation: Any, value: Any) -> None:
    """Missing and unknown fields, other types and other choices are told by the schema."""
    assert None is not compile_schema(shape_of(annotation).schema)(value)


def test_the_schema_of_a_dataclass() -> None:
    """Fields with a default may be left out, nothing may be added, and the class's first line says what it is."""
    assert {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
        "required": ["x"],
        "additionalProperties": False,
        "description": "Where something is.",
    } == shape_of(Point).schema


def test_notes_of_an_annotation_are_descriptions() -> None:
    """The text of an `Annotated` is what the model is told about the field."""
    assert {"type": "integer", "description": "in metres"} == shape_of(Annotated[int, "in metres"]).schema


def test_a_schema_that_a_model_is_held_to_asks_for_everything() -> None:
    """Closed, a schema requires each property, forbids others, and has neither defaults nor titles of fields."""
    shown = closed(shape_of(Person).schema)

    assert ["name", "born", "home"] == shown["required"]
    assert False is shown["additionalProperties"]
    assert False is shown["$defs"]["Address"]["additionalProperties"]
    assert "default" not in shown["properties"]["home"]


@pytest.mark.parametrize(
    "annotation", [object(), bytes, complex, dict[int, str], list[bytes], type("Plain", (), {})], ids=range(6)
)
def test_what_json_cannot_say_is_refused(annotation: Any) -> None:
    """A type without a JSON form is refused when it is named, with what would do."""
    with pytest.raises(ConfigError):
        shape_of(annotation)


def test_an_enum_of_other_things_is_refused() -> None:
    """Choices have to be JSON."""
    with pytest.raises(ConfigError, match="JSON cannot say"):
        shape_of(enum.Enum("Odd", {"A": (1, 2)}))


def test_fields_that_cannot_be_looked_up_are_told() -> None:
    """An annotation that names nothing is a mistake of the class's, and its name is told."""

    @dataclass
    class Broken:
        there: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match="'Broken'"):
        shape_of(Broken)
