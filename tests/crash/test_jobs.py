"""C2 with background jobs: after any kill a job has run at most once, and whoever goes on has it and its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.core.facts import ToolEnd
from plait.hands.process_tree import stop_marked
from plait.hands.spool import Spool
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from plait.store.opening import load_journal
from plait.tools.kept_commands import JOBS
from tests.helpers.campaigns import Campaign
from tests.helpers.effects_victim import WORK
from tests.helpers.victim import Order, Victims


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    """Return a process that forks those who are killed."""
    with Victims() as victims:
        yield victims


def test_a_kill_at_any_point_starts_no_job_twice_and_loses_none(
    victims: Victims, tmp_path: Path, campaign: Campaign
) -> None:
    """SIGKILL before a job is started, while it is, while it is waited for, and before that is recorded."""
    whole = tmp_path / "whole"
    whole.mkdir()
    assert victims.live(Order(str(whole), kind="jobs"))
    assert_true(whole)
    points = int((whole / "points").read_text())
    for kill_at in campaign.each(range(1, points + 1), fast=4):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        colours = ("sync", "async") if kill_at % 2 else ("async", "sync")
        victims.live(Order(str(folder), colours[0], kill_at, "jobs"))
        assert victims.live(Order(str(folder), colours[1], kind="jobs"))
        assert_true(folder)


def assert_true(folder: Path) -> None:
    """Assert that the job ran once and its end is known, or that it never ran and never will; nothing lives on."""
    facts = [entry.fact for entry in load_journal(folder / "session" / "journal.jsonl").entries]
    told = {fact.result.call_id: fact.result for fact in facts if isinstance(fact, ToolEnd)}
    effects = folder / WORK / "effects"
    ran = effects.read_text() if effects.exists() else ""
    assert (told["n1"].status, ran) in {("ok", "n1\n"), ("cancelled", "")}, told["n1"]
    if ran:
        done = json.loads(told["n2"].content)
        assert (True, 3, "out\n") == (done["completed"], done["returncode"], done["stdout"])
        assert json.loads(told["n1"].content)["tool_exec_id"] == done["tool_exec_id"]
    state = fold(facts)
    assert (False, None, "Done.") == (state.in_turn, fault_in(state.history), state.history[-1].content)
    assert stop_marked(Spool(folder / "session" / "spool" / JOBS).mark)
