"""The bench itself: its rows, its table, one real measurement."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import __main__ as program, report, running
from bench.plan import MEASURES, Measure, Subject
from bench.running import Failed, Figure, figure_of, serving


def figure(ratio: float) -> Figure:
    """Return a figure with this ratio."""
    return Figure("row", 2.0, 1.0, ratio, 3, 20.0, 10.0)


def measure(goal: float | None, *, inverse: bool = False) -> Measure:
    """Return a row with this goal."""
    return Measure("row", "worker", Subject(), Subject(), "cpu_ms", goal, inverse)


def test_names_of_rows_are_unique() -> None:
    """A row is compared with earlier ones by its name, so no two share one."""
    names = [row.name for row in MEASURES]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "goal, inverse, ratio, met",
    [
        (None, False, 99, True),
        (1.2, False, 1.2, True),
        (1.2, False, 1.3, False),
        (0.9, True, 0.9, True),
        (0.9, True, 0.8, False),
    ],
)
def test_a_goal_is_a_bound(goal: float | None, inverse: bool, ratio: float, met: bool) -> None:
    """A ratio may not be above its goal, and a speed not below it."""
    assert met is report.meets(measure(goal, inverse=inverse), figure(ratio))


def test_a_row_tells_all_it_knows() -> None:
    """Values with units, ratio, goal, verdict, the last ratio and memory stand in a line."""
    line = report.row(measure(1.2), figure(2.0), {"row": 1.5})

    assert ["row", "2", "ms", "1", "ms", "2.00", "<=", "1.20", "MISSED", "1.50", "20", "10"] == line.split()
    assert ["row", "-", "-", "-", ">=", "0.90"] == report.row(measure(0.9, inverse=True), None, {}).split()


def test_figures_are_kept_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept figures are what the next run compares with; a run of some rows replaces only those."""
    monkeypatch.setattr(report, "LAST", tmp_path / "last.json")
    monkeypatch.setattr(report, "_OUT", tmp_path / "out")

    assert {} == report.last_ratios()
    path = report.save([figure(1.25)], keep=True)
    assert {"row": 1.25} == report.last_ratios()
    assert json.loads(path.read_text()) == json.loads((tmp_path / "last.json").read_text())
    report.save([replace(figure(2.0), name="other"), figure(1.5)], keep=True)
    report.save([figure(1.75)], keep=True)
    assert {"row": 1.75, "other": 2.0} == report.last_ratios()


def test_a_measurement_of_the_floors() -> None:
    """Keeping the encoded history costs less CPU a step than serialising it again for every request."""
    row = Measure(
        "row",
        "worker",
        Subject(module="bench.floor_incremental"),
        Subject(module="bench.floor"),
        "cpu_ms",
        mode="steps",
        count=150,
    )
    with serving() as url:
        measured = figure_of(row, url, rounds=1)

    assert 0 < measured.ratio < 1
    assert measured.plait_peak_mb > 1


def test_a_profile_of_a_floor() -> None:
    """A profile names the functions in which the time went; processes have none."""
    row = Measure(
        "row", "worker", Subject(module="bench.floor"), Subject(module="bench.floor"), "cpu_ms", mode="steps", count=3
    )
    with serving() as url:
        assert "floor.py" in running.profile_of(row, url)
        with pytest.raises(ValueError, match="measures processes"):
            running.profile_of(Measure("row", "process", Subject(), Subject(), "cpu_ms"), url)


def test_a_subject_that_fails_is_named() -> None:
    """What a subject said last is the reason why it was not measured."""
    row = Measure(
        "row", "process", Subject(("-c", "raise SystemExit('no such face')")), Subject(("-c", "pass")), "cpu_ms"
    )

    with pytest.raises(Failed, match="no such face"):
        figure_of(row, "", rounds=1)


def test_the_program_prints_and_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run prints its rows, writes its figures, and says with its exit code what was not measured."""
    monkeypatch.setattr(report, "_OUT", tmp_path)
    broken = Measure("broken", "process", Subject(("-c", "1/0")), Subject(("-c", "pass")), "cpu_ms", rounds=1)
    bare = Measure("bare", "process", Subject(("-c", "pass")), Subject(("-c", "pass")), "cpu_ms", goal=0.0001, rounds=1)
    monkeypatch.setattr(program, "MEASURES", (bare, broken))

    assert 1 == program.main([])
    assert "not measured: broken: ZeroDivisionError: division by zero" in (printed := capsys.readouterr().out)
    assert "goals missed: bare" in printed
    assert 0 == program.main(["--only", "bare"])
    assert 1 == program.main(["--only", "bare", "--gate"])


def test_the_environment_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies, keys and the interpreter's settings do not reach a measurement."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    assert {"HTTPS_PROXY", "OPENAI_API_KEY", "PYTHONDONTWRITEBYTECODE"}.isdisjoint(running.environment())
