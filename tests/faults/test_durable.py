"""What durable runtimes are known to get wrong, by number: what holds of sessions now, the rest with its step."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from plait.cli.specs import built_in_spec
from plait.core.facts import ToolStart
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.testing import Call, ScriptServer
from tests.helpers.warm import run_warm
from tests.unit.hands.ground import python_environment
from tests.unit.wire.cases import CASES

CORPUS: Final = [json.loads(line) for line in (CASES / "faults.jsonl").read_text("utf-8").splitlines()]
KNOWN: Final = {case["id"]: case for case in CORPUS if case["group"] == "durable"}
_KILLED: Final = """
import os, signal, sys
from plait.cli.specs import built_in_spec
from plait.hands.editing.change import WritePlan
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn

real = WritePlan.apply

def apply_and_die(plan, **more):
    real(plan, **more)
    os.kill(os.getpid(), signal.SIGKILL)

WritePlan.apply = apply_and_die
spec = built_in_spec("any", sys.argv[1])
with create_client(spec) as client, init_session(spec, session_id="s", strict_cache_proof=False) as session:
    run_turn(client, "any", session, "go")
"""


def killed_between_effect_and_record(tmp_path: Path) -> None:
    """17: the intent is durable before the file changes; the resume looks, tells the truth and repeats nothing."""
    edit = Call("str_replace", {"path": "f", "old_str": "a", "new_str": "aa"})
    (tmp_path / "f").write_text("a")
    with ScriptServer([edit, "done"]) as server:
        environment = {**python_environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
        died = run_warm([sys.executable, "-c", _KILLED, server.url], env=environment, timeout=60, check=False)
        assert (-signal.SIGKILL, "aa") == (died.returncode, (tmp_path / "f").read_text())
        (journal,) = (tmp_path / "state/sessions").glob("*/journal.jsonl")
        assert any(isinstance(entry.fact, ToolStart) for entry in load_journal(journal).entries)
        spec = built_in_spec("any", server.url)
        with create_client(spec) as client, init_session(spec, session_id="s", strict_cache_proof=False) as session:
            assert "done" == run_turn(client, "any", session, None).final_reply
            (told,) = [r for message in session._live.conversation.state.history for r in message.tool_results]
    assert told.content.startswith("Applied.")
    assert "aa" == (tmp_path / "f").read_text()


TESTS: Final[dict[str, Callable[[Path], None]]] = {"durable-17": killed_between_effect_and_record}
LATER: Final = {
    **dict.fromkeys(
        ("durable-01", "durable-02", "durable-04", "durable-05", "durable-06"),
        "step 7: admission, lanes and recovery of the runtime",
    ),
    **dict.fromkeys(("durable-07", "durable-14", "durable-16"), "step 7: workers and leases on PostgreSQL"),
    "durable-09": "step 7: the SQLite store",
    **dict.fromkeys(("durable-12", "durable-13"), "step 8: schedules"),
}


@pytest.mark.parametrize("case", TESTS)
def test_known_trouble(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the corpus expects of this trouble holds."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    TESTS[case](tmp_path)


def test_every_known_trouble_has_its_test_or_its_step() -> None:
    """No case of the corpus is left out, and what waits says for what."""
    assert sorted(KNOWN) == sorted({*TESTS, *LATER})
    assert set() == TESTS.keys() & LATER.keys()
