"""C2 through the command line: `plait run` and `plait resume`, killed at any time, with files and commands for real."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plait.core.facts import ToolEnd
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from plait.store.opening import load_journal
from plait.testing import Call, Request, Say, ScriptServer
from tests.e2e.command import end_of, plait, plait_each, start
from tests.helpers.campaigns import Campaign

KILLS_MAX = 5
STEPS = (
    [
        Call("exec_shell", {"command": "echo one >> effects"}, id="a1"),
        Call("write_file", {"path": "made.txt", "content": "first"}, id="a2"),
    ],
    [
        Call("str_replace", {"path": "made.txt", "old_str": "first", "new_str": "second"}, id="b1"),
        Call("exec_shell", {"command": "sleep 0.1; echo two >> effects"}, id="b2"),
    ],
)
FILES = {("ok", "ok"): "second", ("ok", "cancelled"): "first", ("ok", "error"): "first", ("cancelled", "error"): None}
"""What the file holds by what the two calls that change it are said to have come to."""


def answer(asked: Request) -> Any:
    """Answer by how far the conversation is, whoever asks and however often."""
    step = sum(message["role"] == "assistant" for message in asked.messages)
    return Say(calls=STEPS[step]) if step < len(STEPS) else "Done."


def journal(name: str) -> Path:
    """Return the journal of a session."""
    return Path(os.environ["PLAIT_HOME"], "sessions", name, "journal.jsonl")


def is_unfinished(name: str) -> bool:
    """Say whether a session has a turn that goes on with a resume."""
    if not journal(name).exists():
        return False
    state = fold(load_journal(journal(name)).facts)
    return state.in_turn and not state.lacks_question


def live(name: str, server: ScriptServer, folder: Path, dice: random.Random) -> int:
    """Run a session's turn to its end, killed on the way as often as it falls out; return how often."""
    run = ["run", "Do it.", "--endpoint", server.url, "-m", "m", "--yes", "--session", name]
    command, killed = run, 0
    for _ in range(dice.randrange(1, KILLS_MAX + 1)):
        process = start(*command, cwd=folder)
        time.sleep(dice.uniform(0.1, 2.0))
        if process.poll() is not None:
            end_of(process)
            break
        process.kill()
        process.communicate()
        killed += 1
        if is_unfinished(name):
            command = ["resume", name, "--yes"]
    if not journal(name).exists() or is_unfinished(name):
        assert 0 == plait(*command, cwd=folder).code
    return killed


def test_a_run_that_is_killed_at_any_time_comes_to_its_end(
    tmp_path: Path, campaign: Campaign, record_property: Callable[[str, object], None]
) -> None:
    """No command ran twice, a file holds what the model was told, the history is valid and the journal verified."""
    killed = 0
    with ScriptServer(answer) as server:
        for seed in campaign.seeds(fast=1, full=200):
            (folder := tmp_path / str(seed)).mkdir()
            name = f"s{seed}"
            killed += live(name, server, folder, random.Random(seed))
            (verified,) = plait_each(["sessions", "verify", name], cwd=folder)
            assert 0 == verified.code, verified
            assert_true(name, folder)
    record_property("kills", killed)


def assert_true(name: str, folder: Path) -> None:
    """Assert that nothing happened twice and that what the model was told of each call is so."""
    facts = load_journal(journal(name)).facts
    state = fold(facts)
    told = {fact.result.call_id: fact.result.status for fact in facts if isinstance(fact, ToolEnd)}
    effects = Counter((folder / "effects").read_text().split()) if (folder / "effects").exists() else Counter[str]()
    made = folder / "made.txt"

    assert not state.in_turn
    assert fault_in(state.history) is None
    assert "Done." == state.history[-1].content
    assert {"a1", "a2", "b1", "b2"} == told.keys()
    for call_id, effect in (("a1", "one"), ("b2", "two")):
        assert (told[call_id], effects[effect]) in {("ok", 1), ("cancelled", 0)}
    assert FILES[told["a2"], told["b1"]] == (made.read_text() if made.exists() else None)
