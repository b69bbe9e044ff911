"""C2 and C3: a process killed anywhere, and again while it recovers, loses nothing acknowledged and repeats nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.core.facts import ToolEnd
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from plait.store.opening import load_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.victim import TASK, Order, Victims, digest

COLOURS = ("sync", "async")
LIVES_MAX = 6


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    """Return a process that forks those who are killed; says in the end how many were."""
    with Victims() as victims:
        yield victims
        print(f"{victims.kills} kills")


@pytest.fixture(scope="module")
def points(victims: Victims, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return how many points there are in a life without a kill, by colour."""
    counted = {}
    for colour in COLOURS:
        folder = tmp_path_factory.mktemp(colour)
        assert victims.live(Order(str(folder), colour))
        assert_whole(folder)
        counted[colour] = int((folder / "points").read_text())
    return counted


@pytest.mark.parametrize("colour", COLOURS)
def test_a_kill_at_any_point_loses_and_repeats_nothing(
    victims: Victims, points: dict[str, int], tmp_path: Path, campaign: Campaign, colour: str
) -> None:
    """SIGKILL before, in and after every write, sync, effect and acknowledgement of a turn, then a resume."""
    for kill_at in campaign.each(range(1, points[colour] + 1), fast=10):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        assert not victims.live(Order(str(folder), colour, kill_at)) or colour == "async"
        assert victims.live(Order(str(folder), colour))
        assert_whole(folder)


def test_kills_of_recoveries_lose_and_repeat_nothing(
    victims: Victims, points: dict[str, int], tmp_path: Path, campaign: Campaign
) -> None:
    """Process after process is killed, each at a random point of its life, until one comes to the end."""
    for seed in campaign.seeds(fast=8, full=2_000):
        dice = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        for _ in range(dice.randrange(1, LIVES_MAX)):
            colour = dice.choice(COLOURS)
            # A recovery has fewer points than a whole life: most of these kills are to hit it.
            if victims.live(Order(str(folder), colour, dice.randrange(1, points[colour] // dice.randrange(1, 6)))):
                break
        assert victims.live(Order(str(folder), dice.choice(COLOURS)))
        assert_whole(folder)


def test_a_kill_at_any_point_of_a_recovery_is_recovered_from(
    victims: Victims, points: dict[str, int], tmp_path: Path, campaign: Campaign
) -> None:
    """After a write that was cut in its middle, the repair itself is killed at every point, and then at the next."""
    whole = tmp_path / "whole"
    whole.mkdir()
    torn = next(at for at in range(points["sync"] // 2, points["sync"]) if is_torn(victims, tmp_path / f"try-{at}", at))
    for kill_at in campaign.each(range(1, 60), fast=5):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        assert not victims.live(Order(str(folder), "sync", torn))
        size = (folder / "session" / "journal.jsonl").stat().st_size
        assert not victims.live(Order(str(folder), "sync", kill_at))
        assert (folder / "session" / "journal.jsonl").stat().st_size >= size - 500
        victims.live(Order(str(folder), "sync", kill_at + 1))
        assert victims.live(Order(str(folder), "sync"))
        assert_whole(folder)


def is_torn(victims: Victims, folder: Path, kill_at: int) -> bool:
    """Say whether a kill at this point leaves an unfinished write."""
    folder.mkdir()
    victims.live(Order(str(folder), "sync", kill_at))
    return load_journal(folder / "session" / "journal.jsonl").torn is not None


def assert_whole(folder: Path) -> None:
    """Assert that what was acknowledged is in the journal, no effect happened twice, and the turn came to its end."""
    entries = load_journal(folder / "session" / "journal.jsonl").entries
    state = fold([entry.fact for entry in entries])
    recovered = {entry.seq: str(digest(entry)) for entry in entries}
    acks = [line.split() for line in (folder / "acks").read_text().splitlines()]
    for seq, what in acks:
        assert what in ("returned", recovered.get(int(seq))), f"fact {seq} was acknowledged and is gone or another one"
    effects = Counter((folder / "effects").read_text().split()) if (folder / "effects").exists() else Counter[str]()
    assert set(effects.values()) <= {1}, f"effects {effects}"
    ends = [entry.fact.result for entry in entries if isinstance(entry.fact, ToolEnd)]
    told = {result.call_id: result for result in ends}
    assert {"a1", "a2", "b1", "b2"} == set(told)
    for call_id, at in (("a2", "2"), ("b1", "3")):
        assert (told[call_id].status, effects[at]) in (("ok", 1), ("unknown", 0), ("unknown", 1))
    assert "ok" == told["a1"].status == told["b2"].status
    assert not state.in_turn
    assert fault_in(state.history) is None
    assert (TASK, "Done.") == (state.history[0], state.history[-1].content)
    assert len(state.history) == 6
