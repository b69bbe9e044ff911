"""Shows the figures as a table, keeps them as JSON, and compares them with the last ones that were kept.

Owns: the table and the files; never: a measurement.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.plan import Measure
from bench.running import ROOT, Figure

LAST: Final = ROOT / "bench" / "last.json"
_OUT: Final = ROOT / "bench" / "out"
_UNITS: Final[Mapping[str, str]] = {"cpu_ms": "ms", "cpu_us": "us", "modules": ""}
_HEAD: Final = ("", "plait", "floor", "ratio", "goal", "", "last", "peak MB", "floor's")
_WIDTHS: Final = (32, 11, 11, 7, 8, 7, 7, 8, 8)


def head() -> str:
    """Return the first line of the table."""
    return _line(_HEAD)


def row(measure: Measure, figure: Figure | None, last: Mapping[str, float]) -> str:
    """Return one line of the table; without a figure, an empty one."""
    if figure is None:
        return _line((measure.name, "-", "-", "-", _goal(measure), "", "", "", ""))
    unit = _UNITS[measure.value]
    return _line(
        (
            measure.name,
            _number(figure.plait, unit),
            _number(figure.floor, unit),
            f"{figure.ratio:.2f}",
            _goal(measure),
            "" if measure.goal is None else "ok" if meets(measure, figure) else "MISSED",
            f"{last[measure.name]:.2f}" if measure.name in last else "",
            f"{figure.plait_peak_mb:.0f}" if figure.plait_peak_mb else "",
            f"{figure.floor_peak_mb:.0f}" if figure.floor_peak_mb else "",
        )
    )


def meets(measure: Measure, figure: Figure) -> bool:
    """Tell whether a figure meets its goal; a measure without one is always met."""
    if measure.goal is None:
        return True
    return figure.ratio >= measure.goal if measure.inverse else figure.ratio <= measure.goal


def last_ratios() -> dict[str, float]:
    """Return the ratios that were kept last, by name; empty when none were."""
    return {figure["name"]: figure["ratio"] for figure in _kept()}


def save(figures: Sequence[Figure], *, keep: bool) -> Path:
    """Write the figures under `bench/out` and return the file; with `keep` they replace the committed ones by name."""
    _OUT.mkdir(exist_ok=True)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    document: dict[str, Any] = {
        "at": at,
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "figures": [{name: _rounded(value) for name, value in asdict(figure).items()} for figure in figures],
    }
    path = _OUT / f"{at.replace(':', '')}.json"
    path.write_text(_text(document))
    if keep:
        new = {figure.name for figure in figures}
        old = [figure for figure in _kept() if figure["name"] not in new]
        LAST.write_text(_text({**document, "figures": [*document["figures"], *old]}))
    return path


def _kept() -> list[dict[str, Any]]:
    return list(json.loads(LAST.read_text())["figures"]) if LAST.exists() else []


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


def _line(cells: Sequence[str]) -> str:
    padded = [
        cell.ljust(width) if i == 0 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    ]
    return "".join(padded).rstrip()


def _goal(measure: Measure) -> str:
    if measure.goal is None:
        return ""
    return f"{'>=' if measure.inverse else '<='} {measure.goal:.2f}"


def _number(value: float, unit: str) -> str:
    return f"{value:.0f}" if not unit else f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value
