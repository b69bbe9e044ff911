"""A class of values is what the standard library would have made of it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from plait.core import values

Make = Callable[..., Any]


def _frozen(make: Make) -> Any:
    @make(frozen=True, slots=True)
    class Value:
        """Words."""

        ZERO: ClassVar[int] = 0
        first: int
        second: str = "b"
        third: list[int] = field(default_factory=list)
        hidden: str = field(default="", repr=False)
        aside: int = field(default=1, compare=False)
        named: bool = field(default=False, kw_only=True)

    return Value


def _one(make: Make) -> Any:
    @make(frozen=True, slots=True)
    class Value:
        """Words."""

        first: object

    return Value


def _none(make: Make) -> Any:
    @make(frozen=True, slots=True)
    class Value:
        """Words."""

    return Value


def _loose(make: Make) -> Any:
    @make(slots=True)
    class Value:
        """Words."""

        first: int
        third: list[int] = field(default_factory=list)

    return Value


def _open(make: Make) -> Any:
    @make(frozen=True)
    class Value:
        """Words."""

        first: int
        second: str = "b"

    return Value


def _bare(make: Make) -> Any:
    @make
    class Value:
        """Words."""

        first: int = 1

    return Value


def _identical(make: Make) -> Any:
    @make(frozen=True, slots=True, eq=False)
    class Value:
        """Words."""

        first: int

    return Value


def _named(make: Make) -> Any:
    @make(frozen=True, slots=True, kw_only=True)
    class Value:
        """Words."""

        first: int
        second: int = 2

        def __post_init__(self) -> None:
            object.__setattr__(self, "second", self.second + self.first)

        def __repr__(self) -> str:
            return "its own"

    return Value


SHAPES = (_frozen, _one, _none, _loose, _open, _bare, _identical, _named)
ARGUMENTS: dict[object, tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]] = {
    _frozen: (
        ((1,), {}),
        ((1, "c"), {"named": True}),
        ((), {"first": 2, "third": [3], "hidden": "x", "aside": 9}),
        ((), {}),
        ((1, 2, 3, 4, 5, 6), {}),
        ((1,), {"fourth": 4}),
    ),
    _one: (((1,), {}), ((float("nan"),), {}), ((None,), {})),
    _none: (((), {}), ((1,), {})),
    _named: (((), {"first": 1}), ((1,), {}), ((), {"first": 1, "second": 5})),
}
USUAL: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (((1,), {}), ((2,), {}), ((), {"first": 3}))


def _told(run: Callable[[], object]) -> object:
    """What something returns, or the class of what it raises."""
    try:
        return run()
    except (TypeError, FrozenInstanceError, AttributeError) as error:
        return type(error)


def _about(cls: Any, arguments: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]) -> list[object]:
    """Everything that can be seen of a class by who uses it."""
    made = [_told(lambda given=given, named=named: cls(*given, **named)) for given, named in arguments]  # type: ignore[misc]
    whole = [value for value in made if isinstance(value, cls)]
    return [
        [repr(value) for value in made],
        [[left == right for right in (*whole, 1)] for left in whole],
        [_told(lambda value=value: hash(value) == hash(copy.copy(value))) for value in whole],  # type: ignore[misc]
        [repr(copy.deepcopy(value)) for value in whole],
        [repr(dataclasses.asdict(value)) for value in whole],
        [repr(_told(lambda value=value: dataclasses.replace(value, first=7))) for value in whole],  # type: ignore[misc]
        [
            _told(lambda value=value, name=name: setattr(value, name, 8))  # type: ignore[misc]
            for value in whole
            for name in cls.__match_args__
        ],
        [
            repr(_told(lambda value=value, name=name: delattr(value, name)))  # type: ignore[misc]
            for value in whole
            for name in cls.__match_args__
        ],
        [(known.name, known.type, known.kw_only, known.repr, known.compare) for known in dataclasses.fields(cls)],
        str(inspect.signature(cls)),
        (cls.__doc__, cls.__match_args__, cls.__dict__.get("__slots__"), cls.__init__.__annotations__),
        cls.__init__.__qualname__,
        repr(cls.__dataclass_params__),
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_is_as_the_original_makes_it(shape: Callable[[Make], Any]) -> None:
    """Making, showing, comparing, copying, replacing and refusing are the same, and so is all that describes it."""
    arguments = ARGUMENTS.get(shape, USUAL)
    assert _about(shape(dataclasses.dataclass), arguments) == _about(shape(values.dataclass), arguments)


def test_a_frozen_value_takes_nothing_new() -> None:
    """A frozen value refuses an attribute that is no field with the error that says so."""
    value = _frozen(values.dataclass)(1)
    with pytest.raises(FrozenInstanceError, match="other"):
        value.other = 1
    with pytest.raises(FrozenInstanceError, match="other"):
        del value.other


@values.dataclass(frozen=True, slots=True)
class Kept:
    """Words that are kept."""

    first: int
    second: str = "b"


def test_a_value_comes_back_from_a_pickle() -> None:
    """A pickled value comes back as an equal one, and as frozen."""
    back = pickle.loads(pickle.dumps(Kept(1)))
    assert Kept(1) == back
    with pytest.raises(FrozenInstanceError, match="first"):
        back.first = 2


def test_the_first_comparison_counts_as_any() -> None:
    """The first comparison of a class's values with something else is False, and leaves the next ones right."""
    cls = _one(values.dataclass)
    assert [False, True, False] == [cls(1) == 1, cls(1) == cls(1), cls(1) == cls(2)]


def test_a_subclass_is_another_class() -> None:
    """A value is equal to none of a subclass, and a subclass may have attributes of its own."""

    class More(Kept):
        pass

    more = More(1)
    more.own = 5  # type: ignore[attr-defined]
    assert (False, 5) == (Kept(1) == more, more.own)  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        more.first = 2  # type: ignore[misc]


def test_a_value_that_holds_itself_is_shown() -> None:
    """What refers to itself is shown as far as it goes."""
    held: list[object] = []
    value = _one(values.dataclass)(held)
    held.append(value)
    assert repr(value).endswith("Value(first=[...])")
