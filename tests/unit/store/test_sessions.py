"""The sessions of a state folder: where they are, what they are about, and how they go."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from plait.core.errors import ConfigError, JournalError, SessionBusy
from plait.core.facts import Fact, MessageAdded, Observation, Reset, TurnEnd, TurnStart
from plait.core.messages import Image, user
from plait.store import disk
from plait.store.layout import SessionFolder, sessions_folder, state_home
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from tests.helpers.journals import WRITES, append, journal_of, many, ticking

TURN: Sequence[tuple[Fact, ...]] = ((TurnStart(), MessageAdded(user("hello  there\nfriend"))), (TurnEnd("completed"),))


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    """Return a state folder without a session."""
    return Sessions(tmp_path / "state" / "sessions")


def begin(
    sessions: Sessions, id: str, project: str = "/home/me/a", start_ms: int = 1_000, writes: object = TURN
) -> SessionFolder:
    """Begin a session, write some facts and close it."""
    log = sessions.open(id, ticking(start_ms), project=project).log
    append(log, writes)  # type: ignore[arg-type]
    log.close()
    return sessions.place_of(id)


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({"PLAIT_HOME": "/p", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/p"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/plait"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/plait"),
        ({"PLAIT_HOME": "", "HOME": "/h"}, "/h/.local/state/plait"),
    ],
)
def test_state_is_where_the_environment_says(environ: dict[str, str], expected: str) -> None:
    """plait's own variable comes first, then the desktop's rule, then the home folder."""
    assert Path(expected) == state_home(environ)
    assert Path(expected, "sessions") == sessions_folder(environ)


def test_a_session_is_a_folder_of_its_own(sessions: Sessions) -> None:
    """A session begun by name is found by it, with its project in the journal's first line."""
    place = begin(sessions, "mine")

    assert sessions.folder / "mine" == place.path == sessions.find("mine").path
    assert {"project": "/home/me/a"} == load_journal(place.journal).header
    assert 0o700 == stat.S_IMODE(place.path.stat().st_mode)


def test_a_session_without_a_name_gets_one(sessions: Sessions) -> None:
    """Every session has a name that can be typed."""
    log = sessions.open(None, ticking()).log
    log.close()

    assert [log.path.parent.name] == [glance.id for glance in sessions.listed()]
    assert log.path.parent.name.startswith("s_")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "ä", "x" * 65, "a\n", "\0"])
def test_a_name_is_no_path(sessions: Sessions, name: str) -> None:
    """What is not a plain name is refused before anything is looked at or made."""
    with pytest.raises(ConfigError, match="no name for a session"):
        sessions.place_of(name)
    assert not sessions.folder.exists()


def test_a_session_is_found_by_the_beginning_of_its_name(sessions: Sessions, tmp_path: Path) -> None:
    """A prefix that only one session has is enough; a whole name always is; a path is one to anywhere."""
    for name in ("alpha", "alpine", "al", "beta"):
        begin(sessions, name)
    elsewhere = journal_of(tmp_path / "elsewhere")

    assert "beta" == sessions.find("b").path.name
    assert "al" == sessions.find("al").path.name
    assert elsewhere.parent == sessions.find(str(elsewhere)).path == sessions.find(f"{elsewhere.parent}/").path


@pytest.mark.parametrize(
    "text, sentence, advice",
    [
        ("alp", "several sessions begin with 'alp'", "say more of its name: alpha, alpine"),
        ("alpah", "there is no session 'alpah'", "did you mean alpha"),
        ("zzz", "there is no session 'zzz'", "`plait sessions list --all` names those there are"),
        ("", "there is no session ''", "`plait sessions list --all` names those there are"),
        ("./nowhere", "there is no session at './nowhere'", "name a folder with a journal.jsonl in it"),
    ],
)
def test_a_session_that_is_not_found_is_asked_about(sessions: Sessions, text: str, sentence: str, advice: str) -> None:
    """Whoever mistypes a name is told the names that come close."""
    for name in ("alpha", "alpine"):
        begin(sessions, name)

    with pytest.raises(ConfigError) as caught:
        sessions.find(text)
    assert sentence == caught.value.message
    assert advice in caught.value.hint


def test_sessions_are_listed_latest_first_by_project(sessions: Sessions) -> None:
    """The list says which project a session is of, what was asked first, and when something happened last."""
    begin(sessions, "old", start_ms=1_000)
    begin(sessions, "new", start_ms=9_000)
    begin(sessions, "other", "/home/me/b", start_ms=5_000)
    listed = sessions.listed()

    assert ["new", "other", "old"] == [glance.id for glance in listed]
    assert ["new", "old"] == [glance.id for glance in sessions.listed("/home/me/a")]
    assert "other" == getattr(sessions.newest("/home/me/b"), "id", None)
    assert sessions.newest("/nowhere") is None
    newest = listed[0]
    assert ("hello there friend", 9_000, 10_000, False) == (
        newest.first_words,
        newest.began_ms,
        newest.active_ms,
        newest.is_open,
    )
    assert newest.size_bytes == sum(file.stat().st_size for file in (sessions.folder / "new").iterdir())


def test_no_sessions_are_no_error(sessions: Sessions) -> None:
    """Before the first session there is an empty list."""
    assert [] == sessions.listed()


def test_a_glance_costs_the_same_for_any_session(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a session is, a bounded part of it is read to say what it is about."""
    monkeypatch.setattr(disk, "sync_data", lambda _: None)
    begin(sessions, "long", writes=[*TURN, *many(300)])
    read: list[int] = []

    def counting(real: Callable[[int, int], bytes]) -> Callable[[int, int], bytes]:
        def wrapper(fd: int, number: int) -> bytes:
            data = real(fd, number)
            read.append(len(data))
            return data

        return wrapper

    monkeypatch.setattr(disk, "read_some", counting(disk.read_some))
    monkeypatch.setattr(disk, "read_from", counting(disk.read_from))
    (glance,) = sessions.listed()

    assert sum(read) < 50_000 < (sessions.folder / "long" / "journal.jsonl").stat().st_size
    assert ("hello there friend", False) == (glance.first_words, glance.is_open)


def test_first_words_are_found_behind_a_long_beginning(sessions: Sessions) -> None:
    """A long system text or a picture before the first question does not hide it; a long question is cut."""
    long = "why " * 10_000
    begin(sessions, "a", writes=[(Observation("session_start", {"system": "x" * 50_000, "model": "m1"}),), *TURN])
    begin(sessions, "b", writes=[(TurnStart(), MessageAdded(user(long, [Image("x" * 30_000)])))])
    begin(sessions, "c", writes=[(Reset(0, 0, (user("imported"),), "import"),)])
    by_id = {glance.id: glance for glance in sessions.listed()}

    assert ("hello there friend", "m1") == (by_id["a"].first_words, by_id["a"].model)
    assert by_id["b"].first_words.startswith("why why")
    assert 100 == len(by_id["b"].first_words)
    assert "imported" == by_id["c"].first_words


def test_a_turn_that_has_not_ended_is_seen(sessions: Sessions) -> None:
    """The list says which sessions were left in the middle of a turn."""
    begin(sessions, "open", writes=TURN[:1])
    begin(sessions, "waiting", writes=WRITES[:5])
    begin(sessions, "far", writes=[*TURN[:1], *((MessageAdded(user("word " * 500)),) for _ in range(20))])

    assert {"open": True, "waiting": False, "far": True} == {glance.id: glance.is_open for glance in sessions.listed()}


def test_a_session_that_cannot_be_read_is_listed_with_its_problem(sessions: Sessions) -> None:
    """A damaged or missing journal hides neither itself nor the others."""
    begin(sessions, "fine")
    (sessions.folder / "empty").mkdir()
    broken = begin(sessions, "broken")
    broken.journal.write_bytes(b"nonsense\n")
    data = begin(sessions, "bent", "/home/me/b").journal.read_bytes()
    (sessions.folder / "bent" / "journal.jsonl").write_bytes(data.replace(b"friend", b"fiend!"))
    (sessions.folder / "unborn").mkdir()
    (sessions.folder / "unborn" / "journal.jsonl").write_bytes(b'{"seq":0')
    (sessions.folder / "file").write_text("no session")
    (sessions.folder / ".tmp").mkdir()
    (sessions.folder / "link").symlink_to(sessions.folder / "fine")
    by_id = {glance.id: glance for glance in sessions.listed()}

    assert {"fine", "empty", "broken", "bent", "unborn"} == set(by_id)
    assert ["bent"] == [glance.id for glance in sessions.listed("/home/me/b")]
    assert "checksum" in by_id["bent"].problem
    assert "No such file or directory" == by_id["empty"].problem
    assert "is no journal" in by_id["broken"].problem
    assert "nothing was kept yet" in by_id["unborn"].problem
    assert "" == by_id["fine"].problem


def test_a_sessions_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A storage error never looks like an empty list."""
    (tmp_path / "sessions").write_text("not a folder")

    with pytest.raises(JournalError, match="cannot be read"):
        Sessions(tmp_path / "sessions").listed()


def test_a_deleted_session_is_gone(sessions: Sessions) -> None:
    """Deleting takes the folder with everything in it, and nothing beside it."""
    place = begin(sessions, "gone")
    place.spool.mkdir()
    (place.spool / "output").write_text("x")
    begin(sessions, "stays")
    sessions.delete(place)

    assert ["stays"] == [glance.id for glance in sessions.listed()] == os.listdir(sessions.folder)


def test_an_open_session_is_not_deleted(sessions: Sessions) -> None:
    """What somebody writes cannot be taken from under them."""
    log = sessions.open("busy", ticking()).log

    with pytest.raises(SessionBusy, match=f"process {os.getpid()}"):
        sessions.delete(sessions.find("busy"))
    assert log.path.exists()
    log.close()
    sessions.delete(sessions.find("busy"))


def test_an_interrupted_deletion_leaves_no_half(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion that dies after hiding the folder has deleted the session; the rest is swept by the next."""
    place, other = begin(sessions, "a"), begin(sessions, "b")

    def die(folder: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as context:
        context.setattr(sessions, "_sweep", die)
        with pytest.raises(JournalError, match="cannot be removed"):
            sessions.delete(place)
    assert ["b"] == [glance.id for glance in sessions.listed()]
    assert 2 == len(os.listdir(sessions.folder))
    sessions.delete(other)
    assert [] == os.listdir(sessions.folder)


def test_a_folder_without_a_journal_can_be_deleted(sessions: Sessions) -> None:
    """What a crash at a session's birth left behind can be cleaned up like any other."""
    (sessions.folder / "unborn").mkdir(parents=True)
    sessions.delete(sessions.find("unborn"))

    assert [] == sessions.listed()


def test_a_session_folder_knows_its_files(tmp_path: Path) -> None:
    """The names in a session's folder are the same wherever the folder is."""
    place = SessionFolder(tmp_path)
    names = [path.name for path in (place.journal, place.events, place.spool, place.spill, place.control)]

    assert ["journal.jsonl", "events.jsonl", "spool", "spill", "control.sock"] == names
