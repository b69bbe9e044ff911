"""A JSON Schema from a signature."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict

import pytest

from plait.kernel.schema import argument_notes, infer_parameters, json_schema_of

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Point(TypedDict):
    """An object."""

    x: int


@pytest.mark.parametrize(
    "annotation, schema",
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (Sequence[list[bool]], {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}),
        (Iterable[str], {"type": "array", "items": {"type": "string"}}),
        (dict, {"type": "object"}),
        (Mapping[str, int], {"type": "object"}),
        (Point, {"type": "object"}),
        (Optional[int], {"type": "integer"}),  # noqa: UP045 - the older spelling is what is tested
        (int | None, {"type": "integer"}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "b"], {"enum": [1, "b"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, 3], {"type": "integer"}),
        ("array", {"type": "array"}),
        ("Missing", {"type": "string"}),
        (bytes, {"type": "string"}),
        pytest.param(object(), {"type": "string"}, id="object"),
        ([1], {"type": "string"}),
        (None, {"type": "string"}),
    ],
    ids=repr,
)
def test_annotations_read_as_types(annotation: object, schema: dict[str, object]) -> None:
    """Each Python annotation has its JSON type; what says nothing in JSON is a string."""
    assert schema == json_schema_of(annotation)


def test_a_signature_is_an_object() -> None:
    """Parameters with a default are optional; variadic ones and the receiver are none; the skipped one is left out."""

    def work(self: object, path: str, count: int = 3, *rest: str, context: object = None, **more: int) -> None: ...

    assert {
        "type": "object",
        "properties": {"path": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["path"],
    } == infer_parameters(work, skip="context")


def test_one_unknown_name_does_not_cost_the_others() -> None:
    """An annotation that only a type checker can resolve leaves the other parameters their types."""

    def work(thing: Missing, count: int, names: list[str]) -> None: ...

    assert {
        "thing": {"type": "string"},
        "count": {"type": "integer"},
        "names": {"type": "array", "items": {"type": "string"}},
    } == infer_parameters(work)["properties"]


def test_annotations_that_cannot_be_run_are_strings() -> None:
    """Annotations are foreign code; whatever they do, the schema is made."""

    def work(a: "1/0", b: "def") -> None: ...  # type: ignore[valid-type]  # noqa: F722, UP037

    work.__annotations__ |= {"a": "1/0", "b": "def"}

    assert {"a": {"type": "string"}, "b": {"type": "string"}} == infer_parameters(work)["properties"]


class Worker:
    """Callables that are no functions."""

    def __call__(self, size: float) -> None:
        """Work."""

    def method(self, size: bool) -> None:
        """Work."""


def test_callables_of_every_kind() -> None:
    """Objects, bound methods and partial functions show the parameters that are left."""

    def work(a: int, b: str, c: bool) -> None: ...

    partial = infer_parameters(functools.partial(work, 1, c=True))
    assert {"size": {"type": "number"}} == infer_parameters(Worker())["properties"]
    assert {"size": {"type": "boolean"}} == infer_parameters(Worker().method)["properties"]
    assert ({"b": {"type": "string"}, "c": {"type": "boolean"}}, ["b"]) == (partial["properties"], partial["required"])


def test_what_cannot_be_looked_into_takes_nothing() -> None:
    """A function of C without a signature is a tool without arguments."""
    assert {"type": "object", "properties": {}, "required": []} == infer_parameters(dict.fromkeys.__self__)


def test_docstrings_describe_arguments() -> None:
    """The Google and the Sphinx way, types in brackets, lines that go on, and the end of the section."""

    def work(path: str, count: int = 1) -> None:
        """Work.

        Args:
            path (str): where
                to work
            count: how often

        Returns:
            nothing: really
        """

    properties = infer_parameters(work)["properties"]
    assert {
        "path": {"type": "string", "description": "where to work"},
        "count": {"type": "integer", "description": "how often"},
    } == properties
    assert {"a": "the first", "b": "the second"} == argument_notes(":param a: the first\n:param int b: the second\n")
    assert {} == argument_notes("No arguments here: none.")
