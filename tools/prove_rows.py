"""Which rows of the security table a report of pytest is about, and the table of all rows.

A test belongs to the rows that `tests/security/rows.py` names it for; it counts in each of them, once. What it tried
itself, many cases in one test, it tells as its property `cases`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.security.rows import ROWS, nodes, rows_of

__all__ = ["Tally", "nodes", "table", "tallies"]

Tally = tuple[int, float, int]
"""Cases, seconds, failures."""
_ROW: Final = "{:<6}{:>9}{:>10}{:>10}  {}"


def tallies(report: Path) -> dict[str, Tally]:
    """Return what a report says of each row."""
    told: dict[str, Tally] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        count = next((each.get("value") for each in case.iter("property") if each.get("name") == "cases"), None)
        failures = int(any(case.find(kind) is not None for kind in ("failure", "error")))
        one = (int(count or 1), float(case.get("time") or 0), failures)
        for row in rows_of(f"{case.get('file')}::{case.get('name')}"):
            told[row] = _sum(told.get(row, (0, 0.0, 0)), one)
    return told


def table(parts: Iterable[dict[str, Tally]]) -> Iterator[str]:
    """Yield the lines of the table over several reports."""
    total: dict[str, Tally] = {}
    for part in parts:
        for row, tally in part.items():
            total[row] = _sum(total.get(row, (0, 0.0, 0)), (tally[0], tally[1], tally[2]))
    yield _ROW.format("row", "cases", "seconds", "failures", "what holds")
    for name, attack in ROWS.items():
        cases, seconds, failures = total.get(name, (0, 0.0, 0))
        words = f"{attack.holds} ({attack.later})" if attack.later else attack.holds
        yield _ROW.format(name, cases, f"{seconds:.1f}", failures, words)
    sums = [sum(numbers) for numbers in zip(*total.values(), strict=True)] or [0, 0.0, 0]
    yield _ROW.format("all", int(sums[0]), f"{sums[1]:.1f}", int(sums[2]), f"{len(ROWS)} rows")


def _sum(one: Tally, other: Tally) -> Tally:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
