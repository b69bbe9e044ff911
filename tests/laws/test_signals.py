"""P-SIG: Ctrl-C at any moment leaves a closed turn, a valid history, and memory that is what the log says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.helpers.warm import run_warm

ROOT = Path(__file__).parents[2]


def played(kind: str, count: int = 1) -> dict[str, int]:
    """Play turns under Ctrl-C in a process of their own, and return how they ended."""
    argv = [sys.executable, "-m", "tests.helpers.interrupts", kind, str(count)]
    ran = run_warm(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (0, "") == (ran.returncode, ran.stderr)
    ends: dict[str, int] = json.loads(ran.stdout)
    return ends


def test_two_hundred_signals_leave_no_turn_open() -> None:
    """Real SIGINTs at random microseconds into turns that never leave Python: all are closed, hardly one escapes."""
    ends = played("storm", 200)

    assert 200 == sum(ends.values())
    assert ends["interrupted"] > 50
    assert ends.get("escaped", 0) < 20


@pytest.mark.prove
def test_two_thousand_signals_leave_no_turn_open() -> None:
    """The same, ten times as often."""
    assert 2_000 == sum(played("storm", 2_000).values())


def test_an_interrupt_may_land_between_any_two_bytecodes() -> None:
    """Wherever in driver, loop, log or host it lands: no effect begins after it, and the turn is closed."""
    ends = played("everywhere", 80)

    assert ends["interrupted"] > 5 * ends.get("escaped", 0)


def test_an_interrupt_closes_the_inner_turn_and_the_outer_one() -> None:
    """A turn inside a tool of another turn: both are closed validly, wherever the interrupt lands."""
    ends = played("nested", 40)

    assert ends["interrupted"] > 5 * ends.get("escaped", 0)


@pytest.mark.prove
@pytest.mark.parametrize("kind, count", [("everywhere", 4_000), ("nested", 2_000)])
def test_an_interrupt_may_land_between_many_bytecodes(kind: str, count: int) -> None:
    """After every few bytecodes of a turn, and of a turn in a turn."""
    ends = played(kind, count)

    assert sum(ends.values()) - ends["bytecodes"] >= count


def test_a_second_interrupt_waits_for_the_end() -> None:
    """Ctrl-C again while the turn is being closed is raised when the end is durable, and not before."""
    assert {"raised": 1} == played("closing")


def test_an_interrupt_outside_of_effects_is_held_back() -> None:
    """In a start, a barrier or a publication nothing breaks: no further effect begins, or the caller hears of it."""
    ends = played("held")

    assert {"interrupted", "completed", "raised"} == set(ends)


def test_another_handler_stays_in_charge() -> None:
    """Where somebody else handles SIGINT, their exception is raised after the turn was closed."""
    assert {"theirs": 1} == played("foreign")


def test_a_handler_that_a_tool_installs_is_left_alone() -> None:
    """The turn gives back only a handler that is still its own."""
    assert {"completed": 1} == played("kept")
