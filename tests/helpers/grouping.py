"""Runs all the cases of a parametrised test as one test, where many tests run at once.

What pytest, its workers and their reports cost for a test is more than most of the small ones cost themselves, and
thousands of those are cases of one sentence. Each case still has a home and an environment of its own, all of them are
tried, and those that fail are told with their values. Only tests whose arguments all come from their tables are
grouped, and only in the workers of `pytest -n`: alone, and for `-k` and `test[name]`, every case has its name.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

_FIXTURES: Final = frozenset({"home", "_homes", "tmp_path_factory", "request"})
"""What every test has."""
_PARAMETER_SET: Final = type(pytest.param())
Case = dict[str, Any]


def is_wanted(config: pytest.Config) -> bool:
    """Say whether tests are to be grouped: in a worker of whoever did not ask for cases by name."""
    is_by_name = bool(config.option.keyword) or any("[" in argument for argument in config.args)
    return hasattr(config, "workerinput") and not is_by_name


class Grouping:
    """The plugin; `own_home` is a home and an environment for one case."""

    def __init__(self, own_home: Callable[[], AbstractContextManager[object]]) -> None:
        self._own_home = own_home

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Collector, name: str, obj: object
    ) -> list[pytest.Item] | None:
        """Make one test of a table of cases; None leaves it to pytest."""
        if not (isinstance(collector, pytest.Module) and inspect.isfunction(obj) and collector.funcnamefilter(name)):
            return None
        cases = cases_of(obj)
        if not cases or hasattr(collector.obj, "pytest_generate_tests"):
            return None
        item = pytest.Function.from_parent(collector, name=name, callobj=self._grouped(obj, cases))
        return [item] if set(item.fixturenames) <= _FIXTURES else None

    def _grouped(self, test: Callable[..., None], cases: Sequence[Case]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            failed: list[BaseException] = []
            for case in cases:
                try:
                    with self._own_home():
                        test(**case)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    error.add_note(f"the case: {case!r:.500}")
                    failed.append(error)
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)

        run.__dict__.pop("pytestmark")
        run.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return run


def cases_of(test: Callable[..., object]) -> list[Case]:
    """Return the arguments of every case of a test; nothing where they do not all come from plain tables."""
    marks = getattr(test, "pytestmark", [])
    tables = [list(_rows(mark)) for mark in marks if _is_plain(mark)]
    if not marks or len(tables) < len(marks) or getattr(test, "is_hypothesis_test", False):
        return []
    if inspect.iscoroutinefunction(test) or inspect.isgeneratorfunction(test):
        return []  # called, they would do nothing: pytest says so
    cases = [dict(itertools.chain(*(row.items() for row in rows))) for rows in itertools.product(*reversed(tables))]
    parameters = inspect.signature(test).parameters.values()
    needed = {each.name for each in parameters if each.default is inspect.Parameter.empty}
    return cases if all(needed == case.keys() for case in cases) else []


def _is_plain(mark: pytest.Mark) -> bool:
    """Say whether a mark is a table whose rows stand for themselves."""
    if mark.name != "parametrize" or not mark.kwargs.keys() <= {"ids"} or len(mark.args) != 2:
        return False
    rows = mark.args[1]
    return isinstance(rows, Sequence | dict | set | frozenset) and not any(
        isinstance(row, _PARAMETER_SET) and row.marks for row in rows
    )


def _rows(mark: pytest.Mark) -> Iterator[Case]:
    names, rows = mark.args
    is_bare = isinstance(names, str) and "," not in names
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    for row in rows:
        values = row.values if isinstance(row, _PARAMETER_SET) else (row,) if is_bare else row
        yield dict(zip(names, values, strict=True))
