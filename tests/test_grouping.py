"""A table of cases that runs as one test leaves none of them out and none of their failures untold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers.grouping import Grouping, cases_of


@pytest.mark.parametrize("second", ["a", pytest.param("b", id="named")])
@pytest.mark.parametrize("one, other", [(1, 2), (3, 4), (5, 6)], ids=str)
def played(one: int, other: int, second: str) -> None:
    """Fail in some cases, each time in another manner."""
    os.environ["OWN"] = second
    assert one != 1 or second != "b"
    if one == 3:
        pytest.fail("no")
    if one == 5:
        pytest.skip("not here")


def test_every_case_is_tried_and_every_failure_told() -> None:
    """A failed assert, a failure and a skip are failures of their case; each case has its own surroundings."""
    surroundings = []

    @contextmanager
    def own_home() -> Iterator[None]:
        os.environ.pop("OWN", None)
        yield
        surroundings.append(os.environ.get("OWN"))

    grouped = Grouping(own_home)._grouped(played, cases_of(played))
    with pytest.raises(BaseExceptionGroup, match="5 of 6 cases") as told:
        grouped()

    notes = sorted(note for error in told.value.exceptions for note in error.__notes__)
    rows = [("b", 1, 2), ("a", 3, 4), ("b", 3, 4), ("a", 5, 6), ("b", 5, 6)]
    cases = [dict(zip(("second", "one", "other"), row, strict=True)) for row in rows]
    assert sorted(f"the case: {case!r}" for case in cases) == notes
    assert ["a"] == surroundings


@pytest.mark.parametrize("kind", ["marked", "fixture", "indirect", "lazy", "empty"])
def test_what_is_no_plain_table_is_left_alone(kind: str) -> None:
    """A case with a mark, an argument from a fixture, an indirect table, one to be read once, an empty one."""
    tables = {
        "marked": pytest.mark.parametrize("one", [pytest.param(1, marks=pytest.mark.xfail)]),
        "fixture": pytest.mark.parametrize("other", [1]),
        "indirect": pytest.mark.parametrize("one", [1], indirect=True),
        "lazy": pytest.mark.parametrize("one", iter([1])),
        "empty": pytest.mark.parametrize("one", []),
    }

    @tables[kind]
    def test(one: int) -> None:
        pass

    assert [] == cases_of(test)


def test_a_test_that_would_do_nothing_when_called_is_no_table_of_passes() -> None:
    """Coroutines and generators are left to pytest, and a list of names takes rows, as it does there."""

    @pytest.mark.parametrize("one", [1])
    async def waits(one: int) -> None:
        pass

    names = ["one"]

    @pytest.mark.parametrize(names, [(1,), (2,)])
    def listed(one: int) -> None:
        pass

    assert ([], [{"one": 1}, {"one": 2}]) == (cases_of(waits), cases_of(listed))
