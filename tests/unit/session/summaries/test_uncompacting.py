"""A summary is taken back: the conversation is what it was, to the byte."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given, strategies as st

from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError
from plait.core.facts import CLEAR, UNCOMPACT, Fact, MessageAdded, Reset
from plait.core.messages import Message, Text, user
from plait.kernel.state import PATIENCE_MAX, fold
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.history.resetting import clear_session, compact_session
from plait.session.opening import init_session
from plait.session.summaries.uncompacting import standing_in, uncompact_session
from plait.session.turns import run_turn
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.testing import Call, ScriptServer

LONG = "It is a long story. " * 60

pytestmark = pytest.mark.usefixtures("work")


def place() -> SessionFolder:
    return Sessions.of(os.environ).place_of("s")


def test_the_request_after_it_begins_with_the_bytes_of_before() -> None:
    """Two summaries are taken back one after the other; then requests have every message as it was sent."""
    steps = [Call("read_file", {"path": "none"}), LONG, LONG, "first summary", LONG, "both", "next", "last"]
    with ScriptServer(steps) as server, create_client(spec := built_in_spec("any", server.url)) as client:
        with init_session(spec, session_id="s", strict_cache_proof=False) as session:
            for number in range(2):
                run_turn(client, "any", session, f"task {number}")
            sent, before = server.requests[-1], [dict(item) for item in session["messages"]]
            assert compact_session(client, "any", session, keep_last_turns=1)
            run_turn(client, "any", session, "task 2")
            once = [dict(item) for item in session["messages"]]
            assert compact_session(client, "any", session, keep_last_turns=0)
            run_turn(client, "any", session, "task 3")
            assert len(once) - 1 == uncompact_session(session)
            assert once == session["messages"][:-2]
        with init_session(spec, session_id="s", strict_cache_proof=False) as session:
            assert 4 == uncompact_session(session)
            assert before == session["messages"][: len(before)]
            assert 0 == uncompact_session(session)
            run_turn(client, "any", session, "task 4")
            assert server.requests[-1].body.startswith(sent.body.partition(b'],"stream"')[0])
            assert session._live.conversation.state.patience == PATIENCE_MAX
        assert replay_session(place(), spec).is_same
        whys = [fact.why for fact in load_journal(place().journal).facts if isinstance(fact, Reset)]
        assert ["compaction", "compaction", UNCOMPACT, UNCOMPACT] == whys


def test_what_cannot_be_taken_back_is_left_alone() -> None:
    """Without a summary, behind a clear, in an edited place and without a journal nothing changes, and it is said."""
    with (
        ScriptServer([LONG, LONG, "summary", "x"]) as server,
        create_client(spec := built_in_spec("any", server.url)) as client,
    ):
        with init_session(spec, durable=False) as session, pytest.raises(ConfigError, match="no journal"):
            uncompact_session(session)
        with init_session(spec, session_id="s", strict_cache_proof=False) as session:
            for number in range(2):
                run_turn(client, "any", session, f"task {number}")
            assert 0 == uncompact_session(session)
            assert compact_session(client, "any", session, keep_last_turns=1)
            session["messages"][1]["content"] = "what I make of it"
            assert 0 == uncompact_session(session)
            assert "what I make of it" == session["messages"][1]["content"]
            clear_session(session)
            assert 0 == uncompact_session(session)
            run_turn(client, "any", session, "task 2")


numbers = st.integers(0, 30)


@given(
    st.lists(
        st.tuples(st.sampled_from(["say", "say", "compact", "undo", "edit", "clear"]), numbers, numbers), max_size=25
    )
)
@example([*[("say", 0, 0)] * 4, ("compact", 2, 3), ("edit", 0, 0), ("undo", 0, 0)])
@example([*[("say", 0, 0)] * 4, ("compact", 1, 3), ("edit", 2, 3), ("say", 0, 0)])
@example([*[("say", 0, 0)] * 6, ("compact", 0, 3), ("compact", 0, 2), ("edit", 1, 2), ("undo", 0, 0), ("undo", 0, 0)])
def test_taking_back_is_exact(doings: list[tuple[str, int, int]]) -> None:
    """Whatever was said, summarised, edited and cleared: what is taken back is what stood there, in its own place.

    The summary that would be taken back is at any time one that stands in the history, with all that it stood beside.
    """
    facts: list[Fact] = []
    stood: dict[str, tuple[tuple[Message, ...], tuple[Message, ...]]] = {}
    for index, (what, one, other) in enumerate(doings):
        state = fold(facts)
        length = len(state.history)
        start, end = sorted((one % (length + 1), other % (length + 1)))
        match what:
            case "say":
                facts.append(MessageAdded(user(f"m{index}")))
            case "compact":
                new = (Message("summary", (Text(f"s{index}"),)), *state.history[start:end][-1:])[: 1 + one % 2]
                stood[f"s{index}"] = tuple(state.history[start:end]), new
                facts.append(Reset(start, end, new, "compaction"))
                found = standing_in(facts)
                assert found is not None
                assert tuple(state.history[start:end]) == found.old
                undone = Reset(found.at, found.at + found.length, found.old, UNCOMPACT)
                assert state.history == fold([*facts, undone]).history
            case "edit":
                facts.append(Reset(start, end, (user(f"e{index}"),), "host_edit"))
            case "clear":
                facts.append(Reset(0, length, (), CLEAR))
            case _:
                found = standing_in(facts)
                if found is not None:
                    facts.append(Reset(found.at, found.at + found.length, found.old, UNCOMPACT))
        history, found = fold(facts).history, standing_in(facts)
        if found is not None:
            shown = tuple(history[found.at : found.at + found.length])
            assert stood[shown[0].content] == (found.old, shown)
        elif what == "say" and stood:
            assert standing_in(facts[:-1]) is None
