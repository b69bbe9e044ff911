"""A session goes back to an earlier turn, with the files that its tools changed, and says what stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError
from plait.core.facts import Reset
from plait.core.messages import ToolCall
from plait.engine.agent_spec import AgentSpec
from plait.kernel.effects import Ask
from plait.kernel.history import fault_in
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.history.rewinding import FileBack, rewind, turns_of
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.store.salvage import verify
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptServer

SCRIPT: list[Any] = [
    Say("", calls=[Call("write_file", {"path": "a.txt", "content": "one\n"})]),
    "First.",
    Say("", calls=[Call("str_replace", {"path": "a.txt", "old_str": "one", "new_str": "two"})]),
    Say(
        "",
        calls=[Call("write_file", {"path": "deep/b.txt", "content": "b"}), Call("exec_shell", {"command": "touch c"})],
    ),
    "Second.",
    Say("", calls=[Call("write_file", {"path": "a.txt", "content": "three"}), Call("read_file", {"path": "a.txt"})]),
    "Third.",
]


@pytest.fixture
def work(work: Path) -> Path:
    """Work in a folder with one file of its own, and keep sessions elsewhere."""
    (work / "a.txt").write_text("mine")
    return work


@contextmanager
def talk(tasks: int = 3, script: list[Any] | None = None) -> Iterator[tuple[Session, Any, AgentSpec]]:
    """Hold a session of some turns, and give it open."""
    with ScriptServer(SCRIPT if script is None else script, allow_unused=True) as server:
        spec = built_in_spec("any", server.url)
        with create_client(spec) as client, init_session(spec, session_id="s", strict_cache_proof=False) as session:
            for number in range(tasks):
                assert "completed" == run_turn(client, "any", session, f"task {number + 1}").status
            yield session, client, spec


def texts(session: Session) -> list[str]:
    """Return what was said by user and model, in order."""
    return [
        item["content"] for item in session["messages"] if item["role"] in ("user", "assistant") and item["content"]
    ]


def test_conversation_and_files_go_back_together(work: Path) -> None:
    """Files hold what they held at the end of that turn, new ones are gone, and what cannot be undone is said."""
    with talk() as (session, _, _):
        assert [0, 1, 2, 3] == [mark.number for mark in turns_of(session)]
        told = rewind(session, 1)
        assert ["task 1", "First."] == texts(session)
    assert "one\n" == (work / "a.txt").read_text()
    assert not (work / "deep/b.txt").exists()
    assert [FileBack("a.txt", "restored"), FileBack("deep/b.txt", "restored")] == told.files
    assert (1, "task 1", 10) == (told.turn, told.question, told.messages_removed)
    assert ['exec_shell {"command":"touch c"}'] == [text.replace('": "', '":"') for text in told.not_undone]
    assert not told.is_whole


def test_the_beginning_is_a_turn_to_go_back_to(work: Path) -> None:
    """Turn 0 is before the first: a file that was there has its own content again."""
    with talk(script=[*SCRIPT, "Anew."]) as (session, client, _):
        assert rewind(session, 0).files
        assert [] == texts(session)
        assert "mine" == (work / "a.txt").read_text()
        assert "Anew." == run_turn(client, "any", session, "anew").final_reply


def test_what_was_taken_back_can_come_again(work: Path) -> None:
    """Nothing is lost by a rewind: a later turn is still there to go to, conversation and files."""
    with talk() as (session, _, _):
        before = texts(session)
        rewind(session, 1)
        told = rewind(session, 3)
        assert before == texts(session)
        assert fault_in(session._live.conversation.state.history) is None
    assert ("three", "b") == ((work / "a.txt").read_text(), (work / "deep/b.txt").read_text())
    assert all(file.is_back for file in told.files)


def test_a_file_that_somebody_changed_is_left_alone(work: Path) -> None:
    """Another's work is not overwritten; everything else goes back, and the file is named."""
    with talk() as (session, _, _):
        (work / "a.txt").write_text("edited by hand")
        told = rewind(session, 1)
        assert ["task 1", "First."] == texts(session)
    assert "edited by hand" == (work / "a.txt").read_text()
    assert [FileBack("a.txt", "changed"), FileBack("deep/b.txt", "restored")] == told.files


def test_a_dry_rewind_only_says(work: Path) -> None:
    """What would be done is told as it would be, and nothing is."""
    with talk() as (session, _, _):
        said, journal = texts(session), load_journal(session._live.log.journal.path).seq  # type: ignore[union-attr]
        dry = rewind(session, 1, is_dry=True)
        assert said == texts(session)
        assert journal == load_journal(session._live.log.journal.path).seq  # type: ignore[union-attr]
        assert "three" == (work / "a.txt").read_text()
        assert dry == rewind(session, 1)


def test_a_content_that_was_not_kept_is_said(work: Path, tmp_path: Path) -> None:
    """Where an earlier content is gone, the file stays as it is and is named."""
    with talk() as (session, _, _):
        for kept in (tmp_path / "state/sessions/s/before").iterdir():
            kept.unlink()
        told = rewind(session, 1)
    assert FileBack("a.txt", "not_kept") == told.files[0]
    assert "three" == (work / "a.txt").read_text()


def test_a_rewound_session_goes_on_and_is_resumed(work: Path, tmp_path: Path) -> None:
    """The journal is whole, holds everything that was, and another process goes on from where the rewind led."""
    script = [*SCRIPT, "Other way."]
    with talk(script=script) as (session, client, spec):
        rewind(session, 1)
        assert "Other way." == run_turn(client, "any", session, "try something else").final_reply
        place = Sessions(tmp_path / "state/sessions").place_of("s")
        assert replay_session(place, spec).is_same
        session.close()
        with init_session(spec, resumed_from="s") as again:
            assert ["task 1", "First.", "try something else", "Other way."] == texts(again)
            assert [0, 1, 2, 3, 4] == [mark.number for mark in turns_of(again)]
    journal = place.journal
    assert verify(journal).is_whole
    assert b"Third." in journal.read_bytes()
    (reset,) = [fact for fact in load_journal(journal).facts if isinstance(fact, Reset)]
    assert () == reset.messages


def test_what_compaction_replaced_comes_back(work: Path) -> None:
    """A turn before the history was replaced has its own messages again, word for word."""
    with talk(script=[*SCRIPT, "Then."]) as (session, client, _):
        before = texts(session)
        session["messages"][1:] = [{"role": "user", "content": "summary"}, {"role": "assistant", "content": "ok"}]
        assert "Then." == run_turn(client, "any", session, "go on").final_reply
        assert ["summary", "ok", "go on", "Then."] == texts(session)
        rewind(session, 3)
        assert before == texts(session)


def test_a_rewind_that_died_is_begun_again(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files went back and the conversation did not: the second rewind finds the one done and does the other."""
    with talk() as (session, _, _):
        before = texts(session)
        with monkeypatch.context() as patched:
            patched.setattr("plait.session.history.rewinding._go_back", _die)
            with pytest.raises(KeyboardInterrupt):
                rewind(session, 1)
        assert (before, "one\n") == (texts(session), (work / "a.txt").read_text())
        told = rewind(session, 1)
        assert [FileBack("a.txt", "already"), FileBack("deep/b.txt", "already")] == told.files
        assert ["task 1", "First."] == texts(session)
        assert "three" == (rewind(session, 3), (work / "a.txt").read_text())[1]


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_files_changed_in_another_workspace_are_left_alone(work: Path, tmp_path: Path) -> None:
    """Paths that start somewhere else mean other files; where the files were moved, that can be said."""
    with talk() as (session, _, spec):
        session.close()
        with init_session(spec, resumed_from="s", workspace=tmp_path) as again:
            told = rewind(again, 1, is_dry=True)
        assert ["elsewhere", "elsewhere"] == [file.outcome for file in told.files]
        work.rename(tmp_path / "moved")
        with init_session(spec, resumed_from="s", workspace=tmp_path / "moved") as again:
            assert all(file.is_back for file in rewind(again, 1, is_moved=True).files)
    assert "one\n" == (tmp_path / "moved/a.txt").read_text()


@pytest.mark.parametrize("turn", [4, -1])
def test_a_turn_that_is_not_there_is_named(work: Path, turn: int) -> None:
    """Nothing is touched for a number that is no turn."""
    with talk() as (session, _, _):
        with pytest.raises(ConfigError, match="none of the turns"):
            rewind(session, turn)
        assert "three" == (work / "a.txt").read_text()


def test_a_session_without_a_journal_cannot_go_back(work: Path) -> None:
    """What is kept nowhere is refused with a sentence."""
    spec = built_in_spec("any", "http://127.0.0.1:9")
    with init_session(spec, durable=False) as session, pytest.raises(ConfigError, match="no journal"):
        rewind(session, 0)
    assert not (work.parent / "state").exists()


def test_a_call_that_waits_is_not_run_after_a_rewind(work: Path) -> None:
    """A turn that waits for an answer is closed: its call has a result that says so, and the history is valid."""

    class Later:
        def approve(self, call: ToolCall, tool: Tool) -> Ask:
            return Ask("r1")

    script: list[Any] = ["First.", Say("", calls=[Call("write_file", {"path": "a.txt", "content": "x"})]), "Third."]
    with ScriptServer(script) as server:
        spec = built_in_spec("any", server.url)
        with (
            create_client(spec) as client,
            init_session(spec, session_id="s", strict_cache_proof=False, approver=Later()) as session,
        ):
            run_turn(client, "any", session, "task 1")
            assert "waiting" == run_turn(client, "any", session, "task 2").status
            rewind(session, 1)
            assert ["task 1", "First."] == texts(session)
            assert "Third." == run_turn(client, "any", session, "task 3").final_reply
    assert "mine" == (work / "a.txt").read_text()
