"""What is measured, beside what, and how good it has to be.

Owns: the list of measures and goals as data; never: running one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

URL: Final = "@url@"
"""Stands for the base URL of the server in the arguments of a process."""

Kind = Literal["process", "modules", "worker"]


@dataclass(frozen=True, slots=True)
class Subject:
    """One side of a comparison: the arguments of a whole Python process, or a worker's module and face."""

    arguments: tuple[str, ...] = ()
    module: str = ""
    face: str = "run"


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table: plait, its floor, the value that is compared and the ratio that is wanted."""

    name: str
    kind: Kind
    plait: Subject
    floor: Subject
    value: str
    """The field of a measurement that is compared: CPU wherever there is a choice."""
    goal: float | None = None
    """The largest ratio to the floor, or with `inverse` the smallest."""
    inverse: bool = False
    """The ratio is floor by plait: how much of the floor's speed is reached."""
    mode: str = ""
    count: int = 0
    rounds: int = 5
    quick: bool = True
    """Part of the quick run."""


def _python(code: str) -> Subject:
    return Subject(arguments=("-c", code))


def _worker(module: str, face: str = "run") -> Subject:
    return Subject(module=f"bench.{module}", face=face)


_BARE: Final = _python("pass")
_FLOOR: Final = _worker("floor")
_ASYNC: Final = _worker("p_plait")
_THREADS: Final = _worker("p_plait", "run_with_threads")
_SYNC: Final = _worker("p_plait", "run_sync")
_REACHABLE: Final = _worker("floor_incremental")
_AGENT: Final = f'agent = plait.Agent(plait.chat_model("done", "{URL}"))'
_FIRST_ASYNC: Final = f'import asyncio, plait; {_AGENT}; assert asyncio.run(agent.arun("go")).text == "done"'
_FIRST_SYNC: Final = f'import plait; {_AGENT}; assert agent.run("go").text == "done"'
_COUNT_MODULES: Final = "import sys; before = len(sys.modules); {}; print(len(sys.modules) - before)"


def _start(name: str, plait: Subject, floor: Subject, goal: float | None) -> Measure:
    return Measure(name, "process", plait, floor, "cpu_ms", goal, rounds=15)


def _steps(count: int, face: str, plait: Subject, goal: float | None, rounds: int = 5) -> Measure:
    name = f"{count} steps, {face}"
    return Measure(
        name, "worker", plait, _FLOOR, "cpu_ms", goal, mode="steps", count=count, rounds=rounds, quick=count < 800
    )


def _conversations(count: int, tool: str, plait: Subject, goal: float | None) -> Measure:
    name = f"{count} conversations, {tool}"
    quick = count < 256
    return Measure(
        name,
        "worker",
        plait,
        _FLOOR,
        "cpu_ms",
        goal,
        mode="conversations",
        count=count,
        rounds=5 if quick else 3,
        quick=quick,
    )


MEASURES: Final[Sequence[Measure]] = (
    _start("import plait", _python("import plait"), _BARE, 1.2),
    Measure(
        "modules of import plait",
        "modules",
        _python(_COUNT_MODULES.format("import plait")),
        _python(_COUNT_MODULES.format("import asyncio, ssl")),
        "modules",
        rounds=1,
    ),
    _start("plait --version", Subject(arguments=("-m", "plait", "--version")), _BARE, 3.0),
    _start("first answer, async", _python(_FIRST_ASYNC), _python("import asyncio, ssl"), 2.5),
    _start("first answer, sync", _python(_FIRST_SYNC), _python("import asyncio, ssl"), None),
    _steps(50, "async", _ASYNC, 1.2, rounds=7),
    _steps(200, "async", _ASYNC, 0.7),
    _steps(800, "async", _ASYNC, 0.25, rounds=3),
    _steps(50, "sync", _SYNC, 2.0, rounds=7),
    _steps(200, "sync", _SYNC, None),
    _steps(800, "sync", _SYNC, None, rounds=3),
    _steps(200, "reachable", _REACHABLE, None),
    Measure(
        "streamed deltas",
        "worker",
        _worker("p_plait", "stream"),
        _worker("floor", "stream"),
        "cpu_us",
        0.9,
        inverse=True,
        mode="deltas",
        count=20_000,
        rounds=5,
    ),
    _conversations(64, "async tool", _ASYNC, 2.0),
    _conversations(64, "tool in a thread", _THREADS, 2.5),
    _conversations(256, "async tool", _ASYNC, 2.0),
    _conversations(256, "tool in a thread", _THREADS, 2.5),
)
"""Every row, in the order of the table."""
