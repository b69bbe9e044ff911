"""C9: two writers, a paused one, a fork, locks that lie: one at a time writes, and no line lies within another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from plait.core.errors import SessionBusy
from plait.core.facts import Observation, TurnEnd, TurnStart
from plait.store.opening import load_journal
from tests.helpers.campaigns import Campaign
from tests.helpers.journals import FACTS, append, journal_of, opened
from tests.helpers.warm import Warm


class Writer:
    """A process that writes a journal, line by line."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        argv = [sys.executable, "-m", "tests.helpers.writer_process", str(folder), name, *options]
        self.process = Warm(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def said(self) -> str:
        """Return its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, text: str) -> None:
        """Have it commit a fact."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def texts(folder: Path) -> list[object]:
    """Return what was written, in order."""
    facts = [entry.fact for entry in load_journal(folder / "journal.jsonl").entries]
    return [fact.data["text"] for fact in facts if isinstance(fact, Observation)]


def test_of_many_writers_one_comes_first(tmp_path: Path, campaign: Campaign) -> None:
    """However many begin at the same moment, one writes; the others are told which."""
    for seed in campaign.seeds(fast=1, full=40):
        folder = tmp_path / str(seed)
        writers = [Writer(folder, str(number)) for number in range(4)]
        try:
            said = [writer.said() for writer in writers]
            first = writers[said.index("open")]
            # Between taking the lock and signing there is a moment without a name.
            assert {"open", f"busy {first.process.pid}", "busy None"} >= set(said)
            assert 1 == said.count("open")
            first.ask("a")
            assert "done" == first.said()
        finally:
            for writer in writers:
                writer.__exit__()
        assert ["a"] == texts(folder)


def test_a_paused_writer_keeps_its_session(tmp_path: Path) -> None:
    """A writer that is stopped for a while is still the writer: nobody takes over, and it goes on unharmed."""
    with Writer(tmp_path, "paused") as paused:
        assert "open" == paused.said()
        paused.ask("before")
        assert "done" == paused.said()
        os.kill(paused.process.pid, signal.SIGSTOP)
        with pytest.raises(SessionBusy, match=str(paused.process.pid)):
            opened(tmp_path)
        with Writer(tmp_path, "second") as second:
            assert f"busy {paused.process.pid}" == second.said()
        assert ["before"] == texts(tmp_path)
        os.kill(paused.process.pid, signal.SIGCONT)
        paused.ask("after")
        assert "done" == paused.said()
    assert ["before", "after"] == texts(tmp_path)


@pytest.fixture
def liars(tmp_path: Path) -> Iterator[tuple[Writer, Writer]]:
    """Return two writers of one journal, on a file system whose locks mean nothing."""
    with Writer(tmp_path, "first", "lying-lock") as first:
        assert "open" == first.said()
        with Writer(tmp_path, "second", "lying-lock") as second:
            assert "open" == second.said()
            yield first, second


def test_where_locks_lie_the_second_to_write_stops(tmp_path: Path, liars: tuple[Writer, Writer]) -> None:
    """The one that finds lines it did not write refuses for good, and what the other wrote stays whole."""
    first, second = liars
    second.ask("theirs")
    assert "done" == second.said()
    for _ in range(2):
        first.ask("mine")
        assert first.said() in ("session_busy", "journal_poisoned")
    second.ask("theirs again")
    assert "done" == second.said()

    assert ["theirs", "theirs again"] == texts(tmp_path)


def test_a_writer_taken_for_dead_is_kept_out_when_it_wakes(tmp_path: Path, liars: tuple[Writer, Writer]) -> None:
    """Stopped, replaced by another where the lock lets it, and woken again: the old writer appends nothing."""
    old, new = liars
    old.ask("early")
    assert "done" == old.said()
    new.ask("stale")
    assert "session_busy" == new.said()
    os.kill(old.process.pid, signal.SIGSTOP)
    with Writer(tmp_path, "third", "lying-lock") as third:
        assert "open" == third.said()
        third.ask("in charge")
        assert "done" == third.said()
        os.kill(old.process.pid, signal.SIGCONT)
        old.ask("late")
        assert "session_busy" == old.said()

    assert ["early", "in charge"] == texts(tmp_path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_leaves_the_journal_alone(tmp_path: Path) -> None:
    """A forked child cannot write the parent's journal, keeps nobody from it, and can open one of its own."""
    log = opened(tmp_path / "mine").log
    log.append((TurnStart(),))
    pid = os.fork()
    if pid == 0:
        try:
            with pytest.raises(SessionBusy, match="belongs to the process"):
                log.commit()
            log.close()
            journal_of(tmp_path / "own")
            os._exit(0)
        except BaseException:
            os._exit(1)

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    append(log, [(TurnEnd("completed"),)])
    log.close()
    assert [TurnStart(), TurnEnd("completed")] == load_journal(log.path).facts
    assert len(FACTS) == load_journal(tmp_path / "own" / "journal.jsonl").seq


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_lock_ends_with_its_owner_not_with_a_child(tmp_path: Path) -> None:
    """A journal that was closed can be opened while a forked child of its first owner lives."""
    log = opened(tmp_path).log
    release, hold = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(hold)
        os.read(release, 1)
        os._exit(0)
    log.close()
    opened(tmp_path).log.close()
    os.close(hold)
    os.waitpid(pid, 0)
    os.close(release)
