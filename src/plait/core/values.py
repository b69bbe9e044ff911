"""The standard library's `dataclass`, for a program that defines a hundred of them before it can say a word.

Floor: 0. Owns: making a class of values quickly; never: a field, or a behaviour that the original has not.

More than half of the work between plait's start and its first request was done in `dataclasses`, which writes, reads
and compiles six small functions a class. Here the initialiser alone is compiled at once. The comparison waits until
somebody compares, and the others look at the fields when they are called. A frozen initialiser writes straight into
the slots, which takes three fifths of the time. `fields`, `replace`, `asdict`, copying and pickling work as ever.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """Make a class a dataclass; see `dataclasses.dataclass` for what the words mean.

        Not for `InitVar`, and not for a class that inherits from a dataclass.
        """

        def make(cls):
            return _made(cls, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)

        return make if cls is None else make(cls)


class _Factory:
    """Stands in an initialiser for a default that is made anew for each value."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


def _made(cls: type, *, frozen: bool, slots: bool, eq: bool, kw_only: bool) -> Any:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # where there is no word, the original composes one, at a price
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    params = made.__dataclass_params__
    params.init, params.repr, params.eq, params.frozen = True, True, eq, frozen
    fields = dataclasses.fields(made)
    made.__init__ = _initialiser(made, fields, frozen=frozen)
    own = cls.__dict__
    if "__repr__" not in own:
        made.__repr__ = _representation([field.name for field in fields if field.repr])
    if eq and "__eq__" not in own:
        compared = [field.name for field in fields if field.compare]
        made.__eq__ = _equality(made, compared)
        made.__hash__ = _hashing(compared) if frozen else None
    if frozen:
        _freeze(made, [field.name for field in fields])
    if frozen and slots:
        _keep(made, [field.name for field in fields])
    return made


def _initialiser(made: type, fields: Sequence[Field[Any]], *, frozen: bool) -> Callable[..., None]:
    known: dict[str, object] = {"_factory": _FACTORY, "_set": object.__setattr__}
    given, body = ["self"], []
    for field in sorted(fields, key=lambda field: bool(field.kw_only)):
        name = value = field.name
        if field.kw_only and "*" not in given:
            given.append("*")
        if field.default is not MISSING:
            known[f"_default_{name}"] = field.default
            given.append(f"{name}=_default_{name}")
        elif field.default_factory is not MISSING:
            known[f"_default_{name}"] = field.default_factory
            given.append(f"{name}=_factory")
            value = f"_default_{name}() if {name} is _factory else {name}"
        else:
            given.append(name)
        slot = made.__dict__.get(name) if frozen else None
        if isinstance(slot, MemberDescriptorType):
            known[f"_set_{name}"] = slot.__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    initialiser = _function(made, "__init__", given, body or ["pass"], known)
    initialiser.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return initialiser


def _function(
    made: type, name: str, given: Sequence[str], body: Sequence[str], known: dict[str, object]
) -> Callable[..., Any]:
    """Compile a method; it sees what is `known`, and beyond that its class's module."""
    lines = "".join(f"\n  {line}" for line in body)
    text = f"def _make({', '.join(known)}):\n def {name}({', '.join(given)}):{lines}\n return {name}"
    result: dict[str, Callable[..., Any]] = {}
    exec(text, sys.modules[made.__module__].__dict__, result)
    function: Callable[..., Any] = result["_make"](**known)
    function.__qualname__ = f"{made.__qualname__}.{name}"
    return function


def _representation(names: Sequence[str]) -> Callable[[object], str]:
    @recursive_repr()
    def represent(self: object) -> str:
        told = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({told})"

    return represent


def _equality(made: Any, names: Sequence[str]) -> Callable[[object, object], Any]:
    def equals(self: object, other: object) -> Any:
        # Compiled for the first comparison: most classes never see one, and who does may see thousands.
        mine, its = ("".join(f"{who}.{name}, " for name in names) for who in ("self", "other"))
        body = (
            "if other.__class__ is self.__class__:",
            f" return ({mine}) == ({its})",
            "return NotImplemented",
        )
        made.__eq__ = _function(made, "__eq__", ("self", "other"), body, {})
        return made.__eq__(self, other)

    return equals


def _hashing(names: Sequence[str]) -> Callable[[object], int]:
    read = attrgetter(*names) if names else lambda value: ()
    return lambda self: hash(read(self))


def _freeze(made: Any, names: Sequence[str]) -> None:
    def refuse_to_set(self: object, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def refuse_to_delete(self: object, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    made.__setattr__, made.__delattr__ = refuse_to_set, refuse_to_delete


def _keep(made: Any, names: Sequence[str]) -> None:
    """Let frozen values be copied and pickled, which would set what cannot be set."""

    def state_of(self: object) -> list[object]:
        return [getattr(self, name) for name in names]

    def take_state(self: object, state: Sequence[object]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    made.__getstate__, made.__setstate__ = state_of, take_state
