"""Runs measurements in processes, plait and its floor one after the other in every round.

Owns: processes, rounds, ratios; never: what is measured, how it is shown.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.plan import URL, Measure, Subject

ROOT: Final = Path(__file__).resolve().parent.parent
_LIMIT_S: Final = 120


class Failed(Exception):
    """A subject did not do the work; the message is the last line it said."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one row came to; ratios are taken inside each round, then their median."""

    name: str
    plait: float
    floor: float
    ratio: float
    rounds: int
    plait_peak_mb: float = 0.0
    floor_peak_mb: float = 0.0


def environment() -> dict[str, str]:
    """Return a quiet environment: no proxies, no settings of the user's, hashes that repeat.

    Settings of the interpreter go too: without cached bytecode, compiling is all that a start would measure.
    """
    kept = {name: value for name, value in os.environ.items() if not _is_setting(name.upper())}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        "PYTHONHASHSEED": "0",
        "PLAIT_API_KEY": "x",
        "NO_PROXY": "127.0.0.1,localhost",
        "NO_COLOR": "1",
    }


def _is_setting(name: str) -> bool:
    return name.startswith(("PYTHON", "PLAIT_")) or name.endswith(("_PROXY", "_API_KEY"))


@contextmanager
def serving() -> Iterator[str]:
    """Run the fake server in a process of its own; give its URL."""
    command = [sys.executable, "-m", "bench.fake_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def figure_of(measure: Measure, url: str, rounds: int) -> Figure:
    """Measure one row.

    Raises:
        Failed: plait or the floor did not do the work.
    """
    plait: list[Mapping[str, float]] = []
    floor: list[Mapping[str, float]] = []
    for subject in (measure.floor, measure.plait):
        if measure.kind == "process":
            _measure(measure, subject, url)  # writes the bytecode
    for _ in range(rounds):
        floor.append(_measure(measure, measure.floor, url))
        plait.append(_measure(measure, measure.plait, url))
    pairs = [(mine[measure.value], its[measure.value]) for mine, its in zip(plait, floor, strict=True)]
    ratios = [its / mine if measure.inverse else mine / its for mine, its in pairs]
    return Figure(
        measure.name,
        median(mine for mine, _ in pairs),
        median(its for _, its in pairs),
        median(ratios),
        rounds,
        max(each.get("peak_mb", 0.0) for each in plait),
        max(each.get("peak_mb", 0.0) for each in floor),
    )


def profile_of(measure: Measure, url: str) -> str:
    """Run a row's work once under a profiler; return where plait's time went.

    Raises:
        Failed: plait did not do the work. ValueError: the row is about processes, which have no profile.
    """
    if measure.kind != "worker":
        raise ValueError(f"{measure.name!r} measures processes; try python -X importtime")
    subject = measure.plait
    arguments = ("-m", "bench.worker", subject.module, measure.mode, url, subject.face, str(measure.count))
    return _run(arguments, {**environment(), "BENCH_PROFILE": "1"}).stderr


def _measure(measure: Measure, subject: Subject, url: str) -> Mapping[str, float]:
    if measure.kind == "worker":
        return _worker(subject, measure.mode, url, measure.count)
    measured, output = _process(tuple(each.replace(URL, f"{url}/v1") for each in subject.arguments))
    return {**measured, "modules": float(output)} if measure.kind == "modules" else measured


def _worker(subject: Subject, mode: str, url: str, count: int) -> Mapping[str, float]:
    _, output = _process(("-m", "bench.worker", subject.module, mode, url, subject.face, str(count)))
    measured: dict[str, float] = json.loads(output)
    return measured


def _process(arguments: tuple[str, ...]) -> tuple[dict[str, float], str]:
    started_s, cpu_before_s = time.perf_counter(), _children_cpu_s()
    done = _run(arguments, environment())
    measured = {"cpu_ms": (_children_cpu_s() - cpu_before_s) * 1e3, "wall_ms": (time.perf_counter() - started_s) * 1e3}
    return measured, done.stdout.strip()


def _run(arguments: tuple[str, ...], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=variables, cwd=ROOT, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(f"no end after {_LIMIT_S} s") from late
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return done


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
