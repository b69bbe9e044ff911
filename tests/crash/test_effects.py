"""C2 with effects that survive: after any kill each happened at most once, and what is told of it is true."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.core.facts import ToolEnd, ToolStart
from plait.hands.process_tree import stop_marked
from plait.hands.spool import Spool
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from plait.store.opening import load_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.effects_victim import OLD, OUTPUT, WORK
from tests.helpers.victim import Order, Victims

COLOURS = ("sync", "async")
LIVES_MAX = 5


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    """Return a process that forks those who are killed."""
    with Victims() as victims:
        yield victims


@pytest.fixture(scope="module")
def points(victims: Victims, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return how many points there are in a life without a kill, by colour."""
    counted = {}
    for colour in COLOURS:
        folder = tmp_path_factory.mktemp(colour)
        assert victims.live(Order(str(folder), colour, kind="effects"))
        assert_true(folder)
        counted[colour] = int((folder / "points").read_text())
    return counted


@pytest.mark.parametrize("colour", COLOURS)
def test_a_kill_at_any_point_repeats_nothing_and_tells_the_truth(
    victims: Victims, points: dict[str, int], tmp_path: Path, campaign: Campaign, colour: str
) -> None:
    """SIGKILL before a start is recorded, after, while a command runs, and before its end is recorded."""
    for kill_at in campaign.each(range(1, points[colour] + 1), fast=3):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        victims.live(Order(str(folder), colour, kill_at, "effects"))
        assert victims.live(Order(str(folder), colour, kind="effects"))
        assert_true(folder)


def test_kills_of_recoveries_repeat_nothing_and_tell_the_truth(
    victims: Victims, points: dict[str, int], tmp_path: Path, campaign: Campaign
) -> None:
    """Process after process is killed, also while it finds out what the last one has done."""
    for seed in campaign.seeds(fast=1, full=1_000):
        dice = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        for _ in range(dice.randrange(1, LIVES_MAX)):
            colour = dice.choice(COLOURS)
            kill_at = dice.randrange(1, points[colour] // dice.randrange(1, 6))
            if victims.live(Order(str(folder), colour, kill_at, "effects")):
                break
        assert victims.live(Order(str(folder), dice.choice(COLOURS), kind="effects"))
        assert_true(folder)


def assert_true(folder: Path) -> None:
    """Assert that no effect happened twice, and that each call is told what became of it, which a kill never hides."""
    facts = [entry.fact for entry in load_journal(folder / "session" / "journal.jsonl").entries]
    state = fold(facts)
    told = {fact.result.call_id: fact.result for fact in facts if isinstance(fact, ToolEnd)}
    intents = {fact.call_id: fact.intent for fact in facts if isinstance(fact, ToolStart)}
    work = folder / WORK
    effects = Counter((work / "effects").read_text().split()) if (work / "effects").exists() else Counter[str]()
    assert {"a1", "a2", "b1", "b2", "b3"} == told.keys()
    for call_id, output in OUTPUT.items():
        seen = (told[call_id].status, told[call_id].content, effects[call_id])
        assert seen in {("ok", output, 1), ("cancelled", seen[1], 0)}, f"{call_id}: {seen}"
    files = {"a2": (work / "new" / "f.txt", None, "new"), "b2": (work / "old.txt", OLD, OLD.replace("two", "2"))}
    for call_id, (path, before, after) in files.items():
        now = path.read_text() if path.exists() else None
        expected = {("ok", after), ("cancelled", before)}
        assert (told[call_id].status, now) in expected, f"{call_id}: {told[call_id]}, and the file holds {now!r}"
    assert all(intents[call_id] for call_id in ("a1", "a2", "b1", "b2"))
    assert "ok" == told["b3"].status
    assert not state.in_turn
    assert fault_in(state.history) is None
    assert "Done." == state.history[-1].content
    assert [] == [path.name for path in work.rglob(".plait-*")]
    assert stop_marked(Spool(folder / "session" / "spool").mark)
