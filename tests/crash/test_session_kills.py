"""C2 for what replaces history: a reduced step, a clear and a compaction are whole after any kill, or not there."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.core.facts import Reset
from plait.kernel.history import fault_in
from plait.kernel.state import State, fold
from plait.store.opening import load_journal
from plait.store.salvage import verify
from tests.helpers.campaigns import Campaign
from tests.helpers.session_victim import LONG, LONG_STEPS, SUMMARY, WORDS, journal_in
from tests.helpers.victim import Order, Victims, digest

REDUCED = [WORDS, "(look, write)", "Go on.", "(write, look)", "Go on.", "Done."]


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    """Return a process that forks those who are killed; says in the end how many were."""
    with Victims() as victims:
        yield victims
        print(f"{victims.kills} kills")


def state_in(folder: Path) -> State:
    """Return what the journal comes to, once it is known that every acknowledged fact is in it."""
    entries = load_journal(journal_in(folder)).entries
    recovered = {entry.seq: str(digest(entry)) for entry in entries}
    for line in (folder / "acks").read_text().splitlines():
        seq, what = line.split()
        assert what in ("returned", recovered.get(int(seq))), f"fact {seq} was acknowledged and is gone or another one"
    assert verify(journal_in(folder)).is_whole
    return fold([entry.fact for entry in entries])


def words(state: State) -> list[str]:
    """Return what the messages of a history say."""
    assert fault_in(state.history) is None
    return [message.content for message in state.history]


def test_a_reducing_turn_comes_to_the_same_history_after_any_kill(
    victims: Victims, tmp_path: Path, campaign: Campaign
) -> None:
    """Killed anywhere and resumed, each step is reduced once, no effect happens twice, and the history is the same."""
    whole = tmp_path / "whole"
    whole.mkdir()
    assert victims.live(Order(str(whole), kind="reduce"))
    assert REDUCED == words(state_in(whole))
    for kill_at in campaign.each(range(1, int((whole / "points").read_text()) + 1), fast=8):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        assert not victims.live(Order(str(folder), kill_at=kill_at, kind="reduce"))
        assert victims.live(Order(str(folder), kind="reduce"))
        state = state_in(folder)
        assert REDUCED == words(state), kill_at
        assert not state.in_turn
        effects = Counter((folder / "effects").read_text().split())
        assert {"2", "3"} >= set(effects)
        assert {1} >= set(effects.values()), effects
        resets = [entry.fact for entry in load_journal(journal_in(folder)).entries if isinstance(entry.fact, Reset)]
        assert ["step_reducer"] * 2 == [reset.why for reset in resets]


def test_a_turn_that_is_summarised_comes_to_the_same_history_after_any_kill(
    victims: Victims, tmp_path: Path, campaign: Campaign
) -> None:
    """Killed anywhere, around its summaries too, and resumed: no effect happens twice, and the history is the same."""
    whole = tmp_path / "whole"
    whole.mkdir()
    assert victims.live(Order(str(whole), kind="shrink"))
    expected = words(state_in(whole))
    assert (WORDS, SUMMARY, "Done.") == (expected[0], expected[1], expected[-1])
    shrunk = [entry.fact for entry in load_journal(journal_in(whole)).entries if isinstance(entry.fact, Reset)]
    assert 2 <= len(shrunk)
    for kill_at in campaign.each(range(1, int((whole / "points").read_text()) + 1), fast=5):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        assert not victims.live(Order(str(folder), kill_at=kill_at, kind="shrink"))
        assert victims.live(Order(str(folder), kind="shrink"))
        state = state_in(folder)
        assert expected == words(state), kill_at
        assert not state.in_turn
        effects = Counter((folder / "effects").read_text().split())
        assert set(map(str, range(1, LONG_STEPS + 1))) >= set(effects)
        assert {1} >= set(effects.values()), effects
        resets = [entry.fact for entry in load_journal(journal_in(folder)).entries if isinstance(entry.fact, Reset)]
        assert [reset.messages for reset in shrunk] == [reset.messages for reset in resets]


def test_a_summary_that_is_taken_back_is_gone_or_there_after_any_kill(
    victims: Victims, tmp_path: Path, campaign: Campaign
) -> None:
    """Killed anywhere, the session holds the summary or every message that it stands for, and again has the latter."""
    grown = tmp_path / "grown"
    grown.mkdir()
    assert victims.live(Order(str(grown), kind="grow"))
    old = state_in(grown)
    assert victims.live(Order(str(grown), kind="compact"))
    whole = tmp_path / "whole"
    shutil.copytree(grown, whole)
    assert victims.live(Order(str(whole), kind="undo"))
    assert old.history == state_in(whole).history
    for kill_at in campaign.each(range(1, int((whole / "points").read_text()) + 1), fast=5):
        folder = tmp_path / str(kill_at)
        shutil.copytree(grown, folder)
        assert not victims.live(Order(str(folder), kill_at=kill_at, kind="undo"))
        assert words(state_in(folder)) in ([SUMMARY, "Three?", "Short."], words(old)), kill_at
        assert victims.live(Order(str(folder), kind="undo"))
        assert old.history == state_in(folder).history, kill_at


@pytest.mark.parametrize("kind", ["clear", "compact"])
def test_a_replaced_history_is_the_old_or_the_new_one_after_any_kill(
    victims: Victims, tmp_path: Path, campaign: Campaign, kind: str
) -> None:
    """Killed anywhere, the session holds what it held, or what it was to hold, and its usage to match; again is new."""
    grown = tmp_path / "grown"
    grown.mkdir()
    assert victims.live(Order(str(grown), kind="grow"))
    whole = tmp_path / "whole"
    shutil.copytree(grown, whole)
    assert victims.live(Order(str(whole), kind=kind))
    old, new = state_in(grown), state_in(whole)
    assert ["One?", LONG, "Two?", LONG, "Three?", "Short."] == words(old)
    assert ([] if kind == "clear" else [SUMMARY, "Three?", "Short."]) == words(new)
    assert old.usage != new.usage
    for kill_at in campaign.each(range(1, int((whole / "points").read_text()) + 1), fast=6):
        folder = tmp_path / str(kill_at)
        shutil.copytree(grown, folder)
        assert not victims.live(Order(str(folder), kill_at=kill_at, kind=kind))
        found = state_in(folder)
        assert not found.in_turn
        assert (words(found), found.usage) in ((words(old), old.usage), (words(new), new.usage)), kill_at
        assert victims.live(Order(str(folder), kind=kind))
        again = state_in(folder)
        assert (words(new), new.usage) == (words(again), again.usage), kill_at
