"""A journal as it is written: barriers, one writer, private files, typed errors."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plait.core.errors import JournalCorrupt, JournalError, JournalFull, JournalPoisoned, SessionBusy
from plait.core.facts import Observation, TurnEnd, TurnStart
from plait.kernel.state import fold
from plait.store.opening import load_journal
from plait.store.writer import Note, note_path, read_note
from tests.helpers.journals import FACTS, WRITES, append, journal_of, opened, ticking
from tests.helpers.worlds import assert_same_state


def mode(path: Path) -> int:
    """Return a file's permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def fill(ballast: Path) -> None:
    """Write a file until its disk is full."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)


def test_a_journal_holds_what_was_committed(tmp_path: Path) -> None:
    """What was committed is read back, by the next writer and by anybody else."""
    path = journal_of(tmp_path)
    again = opened(tmp_path)

    assert [*FACTS] == load_journal(path).facts
    assert len(FACTS) == again.journal.seq
    assert "s1" == again.journal.conversation
    assert_same_state(fold(FACTS), again.state)
    assert {"project": "/home/me/project"} == again.journal.header
    again.log.close()


def test_what_was_appended_is_in_the_file_after_the_barrier_only(tmp_path: Path) -> None:
    """Facts are handed on once, when they are safe, and not before."""
    log = opened(tmp_path).log
    log.append((TurnStart(),))

    assert ([], 0) == (log.take_committed(), load_journal(log.path).seq)
    log.commit()
    assert [TurnStart()] == [entry.fact for entry in log.take_committed()]
    assert ([], 1) == (log.take_committed(), load_journal(log.path).seq)
    log.close()


def test_a_barrier_with_nothing_to_do_touches_nothing(tmp_path: Path) -> None:
    """A commit without facts writes no byte."""
    log = opened(tmp_path).log
    before = log.path.read_bytes()
    log.commit()

    assert before == log.path.read_bytes()
    log.close()


def test_closing_commits_and_may_be_repeated(tmp_path: Path) -> None:
    """Nothing that was appended is lost by closing; after it the log refuses."""
    log = opened(tmp_path).log
    log.append((TurnStart(),))
    log.close()
    log.close()

    assert 1 == load_journal(log.path).seq
    with pytest.raises(JournalPoisoned, match="closed"):
        log.append((TurnStart(),))


def test_numbers_times_and_runs_go_on_after_reopening(tmp_path: Path) -> None:
    """A second writer goes on where the first one stopped."""
    first = opened(tmp_path, ticking(1_000)).log
    first.run_id = "r1"
    append(first, [(TurnStart(),)])
    first.close()
    second = opened(tmp_path, ticking(9_000)).log
    append(second, [(TurnEnd("completed"),)])
    second.close()

    entries = load_journal(first.path).entries
    assert [(1, 1_000, "r1"), (2, 9_000, "r1")] == [(entry.seq, entry.at_ms, entry.run_id) for entry in entries]


def test_a_clock_that_goes_back_changes_nothing(tmp_path: Path) -> None:
    """Order is by number alone; time is only told."""
    times = iter([10**12, 5, 4_000_000_000_000])
    log = opened(tmp_path, times.__next__).log
    append(log, [(TurnStart(),), (TurnEnd("completed"),), (TurnStart(),)])
    log.close()

    assert [10**12, 5, 4_000_000_000_000] == [entry.at_ms for entry in load_journal(log.path).entries]


def test_files_are_private_from_their_birth(tmp_path: Path) -> None:
    """Nobody else can ever read a session, even where the user's mask would let them."""
    before = os.umask(0)
    try:
        path = journal_of(tmp_path / "sessions" / "s1")
        path.write_bytes(path.read_bytes() + b"torn")
        opened(path.parent).log.close()
    finally:
        os.umask(before)
    made = sorted(file.name for file in path.parent.iterdir())

    assert 3 == len(made)
    assert {0o600} == {mode(path.parent / name) for name in made}
    assert {0o700} == {mode(path.parent), mode(path.parent.parent)}


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    """One process writes a journal at a time; the other's error names it, and readers are always welcome."""
    first = opened(tmp_path).log
    append(first, WRITES[:2])

    with pytest.raises(SessionBusy, match=f"process {os.getpid()}") as caught:
        opened(tmp_path)
    assert os.getpid() == caught.value.owner_pid
    assert 3 == load_journal(first.path).seq
    first.close()
    opened(tmp_path).log.close()


def test_a_writer_keeps_its_journal_when_the_note_is_removed(tmp_path: Path) -> None:
    """Tidying up beside a journal lets no second writer in: the lock is the journal's own."""
    first = opened(tmp_path).log
    note_path(first.path).unlink()

    with pytest.raises(SessionBusy, match="another process"):
        opened(tmp_path)
    first.close()


def test_a_pid_left_behind_locks_nobody_out(tmp_path: Path) -> None:
    """A note of a process that is gone, or of another one with its number, is no lock."""
    path = journal_of(tmp_path)

    assert os.getpid() == read_note(path).pid
    opened(tmp_path).log.close()


@pytest.mark.parametrize(
    "note", [b"", b"x", b"1 2 3\n", b" " * 31 + b"\0" * 9, b"       123                  99 00000000\n"]
)
def test_a_damaged_note_says_nothing(tmp_path: Path, note: bytes) -> None:
    """The note is a courtesy: nothing depends on it."""
    path = journal_of(tmp_path)
    note_path(path).write_bytes(note)

    assert Note() == read_note(path)
    assert len(FACTS) == load_journal(path).seq


def test_a_journal_that_lost_what_was_safe_is_refused(tmp_path: Path) -> None:
    """A disk that forgot what it had promised is told from a crash: nothing goes on from an older state in silence."""
    path = journal_of(tmp_path)
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 0):
        path.write_bytes(whole[:size])
        with pytest.raises(JournalCorrupt):
            opened(tmp_path)
        with pytest.raises(JournalCorrupt):
            load_journal(path)
        assert whole[:size] == path.read_bytes()


def test_a_torn_tail_is_cut_and_kept_aside(tmp_path: Path) -> None:
    """What was never acknowledged is cut off, and its bytes stay readable beside the journal."""
    path = journal_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"at":1,"seq":99,"type":"mess')
    again = opened(tmp_path)

    assert len(FACTS) == again.journal.seq
    assert again.journal.torn is not None
    assert whole == path.read_bytes()
    assert b'{"at":1,"seq":99,"type":"mess' == (tmp_path / f"journal.jsonl.torn-{len(whole)}").read_bytes()
    again.log.close()


def test_a_killed_writer_holds_no_lock(tmp_path: Path) -> None:
    """The lock of a process that is killed goes with it, however it ended."""
    code = (
        "import sys, time, pathlib; from tests.helpers.journals import *; log = opened(pathlib.Path(sys.argv[1])).log; "
        "append(log, WRITES[:2]); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert b"ready\n" == child.stdout.readline()
        with pytest.raises(SessionBusy, match=f"process {child.pid}"):
            opened(tmp_path)
        child.kill()
    again = opened(tmp_path)

    assert [*FACTS[:3]] == load_journal(again.log.path).facts
    again.log.close()


def test_somebody_who_writes_without_the_lock_is_noticed(tmp_path: Path) -> None:
    """Where locks do not work, a writer whose journal somebody else changed stops, and leaves the other's lines."""
    log = opened(tmp_path).log
    append(log, WRITES[:2])
    with log.path.open("ab") as other:
        other.write(b"{}\n")
    foreign = log.path.read_bytes()

    with pytest.raises(SessionBusy, match="behind this process's back"):
        append(log, WRITES[2:3])
    with pytest.raises(JournalPoisoned):
        append(log, WRITES[3:4])
    log.close()
    assert foreign == log.path.read_bytes()


def test_a_journal_that_was_replaced_is_not_written(tmp_path: Path) -> None:
    """Opening waits for no file that was removed meanwhile: what is locked is what the name says."""
    path = journal_of(tmp_path)
    old = path.read_bytes()
    path.unlink()
    path.write_bytes(old)
    log = opened(tmp_path).log
    append(log, [(TurnStart(),)])
    log.close()

    assert len(FACTS) + 1 == load_journal(path).seq


def test_a_full_disk_loses_nothing_and_the_session_goes_on(small_disk: Callable[[int], Path]) -> None:
    """On a real disk without room: a typed error, the committed facts whole, and a session that resumes."""
    disk = small_disk(64 * 1024)
    folder = disk / "s1"
    log = opened(folder).log
    append(log, WRITES)
    ballast = disk / "ballast"
    fill(ballast)
    log.append((Observation("note", {"text": "x" * 5_000}),))

    with pytest.raises(JournalFull, match="No space left") as caught:
        log.commit()
    assert "make room, then resume" == caught.value.hint
    with pytest.raises(JournalPoisoned):
        log.append((TurnStart(),))
    log.close()
    assert [*FACTS] == load_journal(log.path).facts
    on_full_disk = opened(folder)
    assert [*FACTS] == load_journal(on_full_disk.log.path).facts
    on_full_disk.log.close()
    with pytest.raises(JournalFull):
        opened(disk / "s2")
    ballast.unlink()
    again = opened(folder)
    append(again.log, [(TurnStart(),)])
    again.log.close()
    assert len(FACTS) + 1 == load_journal(log.path).seq


def test_a_read_only_disk_can_be_read(small_disk: Callable[[int], Path]) -> None:
    """On a disk that was remounted read-only, writing fails with a typed error and everything committed is read."""
    disk = small_disk(64 * 1024)
    path = journal_of(disk / "s1")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True, capture_output=True)

    with pytest.raises(JournalError, match="Read-only file system"):
        opened(disk / "s1")
    with pytest.raises(JournalError, match="Read-only file system"):
        opened(disk / "s2")
    assert [*FACTS] == load_journal(path).facts


UNREADABLE = """
import pathlib, sys
from plait.core.errors import JournalError
from plait.kernel.state import fold
from plait.store.opening import load_journal
from tests.helpers.journals import opened
folder = pathlib.Path(sys.argv[1])
for attempt in (lambda: opened(folder), lambda: load_journal(folder / "journal.jsonl")):
    try:
        attempt()
    except JournalError as error:
        assert "Permission denied" in str(error), error
    else:
        raise AssertionError("it was opened")
"""


@pytest.mark.parametrize("target", ["folder", "journal"])
def test_what_may_not_be_read_is_said_so(
    tmp_path: Path, unprivileged: Callable[..., subprocess.CompletedProcess[str]], target: str
) -> None:
    """A folder or journal without permission is an error that says so, never an empty session."""
    path = journal_of(tmp_path / "s1")
    (path.parent if target == "folder" else path).chmod(0)
    try:
        done = unprivileged(UNREADABLE, path.parent, cwd=Path.cwd())
    finally:
        path.parent.chmod(0o700)

    assert ("", 0) == (done.stderr, done.returncode)


def test_no_file_stays_open(tmp_path: Path) -> None:
    """Opening, refusing and closing leave no descriptor behind."""
    journal_of(tmp_path / "a")
    broken = tmp_path / "b"
    broken.mkdir()
    (broken / "journal.jsonl").write_bytes(b"nonsense\n")
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    holder = opened(tmp_path / "a").log
    for _ in range(3):
        with pytest.raises(SessionBusy):
            opened(tmp_path / "a")
        with pytest.raises(JournalCorrupt):
            opened(broken)
    holder.close()

    assert before == len(os.listdir("/proc/self/fd"))


def test_errors_name_the_place(tmp_path: Path) -> None:
    """A damaged journal's error carries path, offset and record, for people and for programs."""
    path = journal_of(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"I look")] ^= 1
    path.write_bytes(data)

    with pytest.raises(JournalCorrupt, match="record 4") as caught:
        opened(tmp_path)
    line = data[caught.value.offset :].split(b"\n")[0]
    assert (str(path), 4, True) == (caught.value.path, caught.value.seq, b"look" in line)
