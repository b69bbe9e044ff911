"""Patches and lists of things to do in sessions that die, go on, and go back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import default_tool_spec, init_session, rewind, run_turn
from plait.hands.editing import atomic
from plait.session.history.resetting import clear_session
from plait.session.session import Session
from plait.testing import Call, ScriptedModel
from plait.tools.extra_specs import grammar
from tests.helpers.deaths import die_before

PATCH = """*** Begin Patch
*** Update File: a.txt
-one
+two
*** Add File: new/b.txt
+b
*** Delete File: c.txt
*** End Patch"""
BEFORE = {"a.txt": "one\n", "c.txt": "c\n"}
AFTER = {"a.txt": "two\n", "new/b.txt": "b\n"}


@pytest.fixture
def work(work: Path) -> Path:
    """Work in a folder with two files, and keep sessions elsewhere."""
    for name, content in BEFORE.items():
        (work / name).write_text(content)
    return work


def files_in(folder: Path) -> dict[str, str]:
    """Return what every file holds."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def open_one(*names: str, id: str = "s") -> Session:
    """Open a session with these built-in tools."""
    schemas, table = default_tool_spec(*names)
    spec = {"model": "m", "endpoint": "http://127.0.0.1:1/v1", "tool_specs": schemas, "tool_dispatch": table}
    return init_session(spec, session_id=id, strict_cache_proof=False)


def turn(session: Session, *script: Any, task: str | None = "x") -> list[str]:
    """Run a turn; return the results of its calls."""
    with ScriptedModel([*script, "done"]) as model:
        messages = run_turn(model, "m", session, task).messages
    return [message["content"] for message in messages if message["role"] == "tool"]


def die_while_patching(step: int) -> int:
    """Run a turn with a patch in a process that is gone before its nth step on disk; return how that one ended."""

    def live(before: Callable[[str], None]) -> None:
        atomic._nothing = before
        turn(open_one("apply_patch"), Call("apply_patch", {"input": PATCH}))

    return die_before(step, live)


@pytest.mark.parametrize("step, whole", [(1, "Not applied."), (9, "Partly applied."), (19, "Applied.")])
def test_a_patch_that_was_cut_in_the_middle_is_told_by_the_resume(work: Path, step: int, whole: str) -> None:
    """After a kill the model learns of each file whether its change was applied, and a rewind takes back what was."""
    assert 9 == die_while_patching(step)
    left = files_in(work)

    with open_one("apply_patch") as session:
        (told,) = turn(session, task=None)
        rewind(session, 0)

    assert files_in(work) == BEFORE
    assert whole in told
    for path in ("a.txt", "new/b.txt", "c.txt"):
        is_applied = left.get(path) == AFTER.get(path)
        assert f"- {path}: {'applied' if is_applied else 'not applied'}" in told.split("\n")


def test_a_patch_goes_back_and_forth_with_the_conversation(work: Path) -> None:
    """A rewind gives every file of a patch its content back and the added ones away; the way forward is open too."""
    entry = {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": grammar()}
    spec = {"model": "m", "endpoint": "http://127.0.0.1:1/v1", "tool_specs": [entry]}
    with init_session(spec, session_id="s", strict_cache_proof=False) as session:
        turn(session, Call("apply_patch", PATCH))
        assert files_in(work) == AFTER

        back = rewind(session, 0)
        assert files_in(work) == BEFORE
        again = rewind(session, 1)

    assert files_in(work) == AFTER
    assert {"a.txt", "new/b.txt", "c.txt"} == {file.path for file in back.files} == {file.path for file in again.files}
    assert back.is_whole
    assert again.is_whole


def test_the_list_of_things_to_do_survives_and_goes_back(work: Path) -> None:
    """A resumed session has its list, a rewind has the one of that turn, and a cleared session begins a new one."""
    add, listed = Call("todo", {"action": "add", "text": "mend"}), Call("todo", {"action": "list"})
    with open_one("todo") as session:
        assert "[ ] 1. mend" in turn(session, add)[-1]
        turn(
            session, Call("todo", {"action": "complete", "id": 1}), Call("todo_write", {"todos": [{"content": "rest"}]})
        )
    with open_one("todo") as again:
        assert "Todos (0/1 done):\n  [ ] 2. rest" == turn(again, listed)[-1]
        rewind(again, 1)
        assert "Todos (0/1 done):\n  [ ] 1. mend" == turn(again, listed)[-1]
    with open_one("todo") as last:
        assert "Todos (0/1 done):\n  [ ] 1. mend" == turn(last, listed)[-1]
        clear_session(last)
        assert "(nothing to do)" in turn(last, listed)[-1]
    with open_one("todo", id="other") as other:
        assert "(nothing to do)" in turn(other, listed)[-1]
