"""A session's rollback: over restarts, through a kill in its middle, and beside rewinds."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plait.core.messages import ToolResult
from plait.engine.agent_spec import AgentSpec
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.history.rewinding import rewind
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.sessions import Sessions
from plait.store.turns import fork
from plait.testing import Call, Say, ScriptServer
from plait.tools.library import default_tool_spec
from tests.helpers.warm import run_warm
from tests.unit.hands.ground import python_environment


def write(path: str, content: str) -> Say:
    """Have the model write a file."""
    return Say("", calls=[Call("write_file", {"path": path, "content": content})])


ROLLBACK = Say("", calls=[Call("rollback", {})])


@pytest.fixture
def work(work: Path) -> Path:
    """Work in a folder with one file of its own, and keep sessions elsewhere."""
    (work / "a").write_text("mine")
    return work


def spec_for(url: str) -> AgentSpec:
    """Return a spec with the file tools and `rollback`."""
    tools, table = default_tool_spec("write_file", "str_replace", "exec_shell", "rollback")
    return AgentSpec({"model": "any", "endpoint": url, "tool_specs": tools, "tool_dispatch": table})


@contextmanager
def opened(spec: AgentSpec) -> Iterator[tuple[Session, Any]]:
    """Open the session, or go on with it."""
    with create_client(spec) as client, init_session(spec, session_id="s", strict_cache_proof=False) as session:
        yield session, client


def ask(session: Session, client: Any) -> str:
    """Run a turn, and return what the last tool of it answered."""
    assert "completed" == run_turn(client, "any", session, "go on").status
    results = [result for message in session._live.conversation.state.history for result in message.tool_results]
    last: ToolResult = results[-1]
    return last.content


def files(work: Path) -> dict[str, str]:
    """Return what the files hold."""
    return {str(path.relative_to(work)): path.read_text() for path in work.rglob("*") if path.is_file()}


def test_a_rollback_and_rewinds_know_of_each_other(work: Path, tmp_path: Path) -> None:
    """What an earlier process changed is rolled back; a rewind takes a rollback back, and a rollback what it left."""
    script = [
        write("a", "one"),
        "1",
        write("a", "two"),
        "2",
        write("d/b", "b"),
        ROLLBACK,
        "3",
        ROLLBACK,
        "4",
        ROLLBACK,
        "5",
    ]
    with ScriptServer(script) as server:
        spec = spec_for(server.url)
        with opened(spec) as (session, client):
            ask(session, client)
            ask(session, client)
        with opened(spec) as (session, client):
            assert ask(session, client).startswith("Rolled back 2 file(s)\n- d/b: removed\n- a: restored")
            assert {"a": "mine"} == files(work)
            rewind(session, 2)
            assert {"a": "two"} == files(work)
            rewind(session, 1)
            assert {"a": "one"} == files(work)
        with opened(spec) as (session, client):
            assert ask(session, client).startswith("Rolled back 1 file(s)\n- a: restored")
            assert {"a": "mine"} == files(work)
            assert ask(session, client).startswith("Nothing to roll back")
            rewind(session, 2)
            assert {"a": "two"} == files(work)
        assert replay_session(Sessions(tmp_path / "state/sessions").place_of("s"), spec).is_same


_KILLED = """
import os, signal, sys
import plait.tools.undo as undo
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn
from tests.unit.session.history.test_rolling_back import spec_for

real, seen = undo.take_back, []

def dying(*args, **keywords):
    if len(seen) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    seen.append(1)
    return real(*args, **keywords)

undo.take_back = dying
spec = spec_for(sys.argv[1])
with create_client(spec) as client, init_session(spec, session_id="s", strict_cache_proof=False) as session:
    run_turn(client, "any", session, "go")
"""


def test_a_rollback_that_was_killed_is_gone_on_with(work: Path) -> None:
    """After kill -9 between two files the resume finishes it once, tells the model so, and leaves nothing behind."""
    changes = [write("a", "x"), write("d/b", "x"), write("c", "x")]
    with ScriptServer([*changes, ROLLBACK, "1", ROLLBACK, "2"]) as server:
        environment = {**python_environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
        died = run_warm([sys.executable, "-c", _KILLED, server.url], env=environment, timeout=60, check=False)
        assert -signal.SIGKILL == died.returncode
        assert 3 > len([text for text in files(work).values() if text == "x"]) > 0
        spec = spec_for(server.url)
        with opened(spec) as (session, client):
            assert "completed" == run_turn(client, "any", session, None).status
            assert {"a": "mine"} == files(work)
            assert ["a"] == [path.name for path in work.iterdir()]
            history = session._live.conversation.state.history
            (told,) = [r.content for m in history for r in m.tool_results if r.content.startswith("Rolled back")]
            assert told.startswith("Rolled back 3 file(s)")
            assert ask(session, client).startswith("Nothing to roll back")


def test_a_fork_takes_back_what_its_origin_changed(work: Path, tmp_path: Path) -> None:
    """A fork has the earlier contents too, also when the session it came from is gone."""
    with ScriptServer([write("a", "one"), write("b", "new"), "1", ROLLBACK, "2"]) as server:
        spec = spec_for(server.url)
        with opened(spec) as (session, client):
            ask(session, client)
        folder = tmp_path / "state/sessions"
        fork(Sessions(folder).place_of("s").journal, folder / "f", "f")
        shutil.rmtree(folder / "s")
        with (
            create_client(spec) as client,
            init_session(spec, session_id="f", strict_cache_proof=False) as session,
        ):
            assert ask(session, client).startswith("Rolled back 2 file(s)")
    assert {"a": "mine"} == files(work)
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in (folder / "f/before").iterdir()}


def test_a_session_that_is_not_kept_rolls_back_from_memory(work: Path, tmp_path: Path) -> None:
    """Without a journal the earlier contents are in memory, and nothing is written anywhere."""
    with ScriptServer([write("a", "one"), ROLLBACK, "1"]) as server:
        spec = spec_for(server.url)
        with create_client(spec) as client, init_session(spec, durable=False, strict_cache_proof=False) as session:
            assert ask(session, client).startswith("Rolled back 1 file(s)")
    assert ({"a": "mine"}, False) == (files(work), (tmp_path / "state").exists())
