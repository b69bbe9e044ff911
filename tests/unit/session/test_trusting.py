"""What a repository brings along runs only while its user trusts it as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plait.config.repository_parts import parts_of
from plait.engine.spec import default_specification
from plait.engine.trusting import trust_store
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel
from plait.tools.plugins import load_plugins

SPEC = default_specification("m", "http://127.0.0.1:1/v1")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone that brings a hook, a rule, a server and a plugin along, each of which leaves a trace when it is used."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    root = tmp_path / "clone"
    hooks = root / ".plait" / "hooks" / "PreToolUse"
    hooks.mkdir(parents=True)
    (root / ".git").mkdir()
    script = hooks / "guard.sh"
    script.write_text(f"#!/bin/sh\necho hook >> {tmp_path}/trace\n")
    script.chmod(0o755)
    (root / "plait.toml").write_text('[permissions]\nallow = ["Bash(true)"]\n')
    plugins = root / ".plait" / "plugins"
    plugins.mkdir()
    (plugins / "own.py").write_text(
        f"with open({str(tmp_path / 'trace')!r}, 'a') as file: file.write('plugin\\n')\nTOOLS = []\n"
    )
    return root


class Counted:
    """An approver that says yes, and counts."""

    asked = 0

    def approve(self, call: Any, tool: Any) -> bool:
        """Say yes."""
        self.asked += 1
        return True


def turn(clone: Path, **options: Any) -> tuple[list[str], int, list[str]]:
    """Run a call in a session; return the traces, how often somebody was asked, and what was told."""
    trace = clone.parent / "trace"
    trace.unlink(missing_ok=True)
    approver, told = Counted(), []
    model = ScriptedModel([Say(calls=[Call("exec_shell", {"command": "true"})]), "done"])
    with init_session(
        SPEC,
        workspace=clone,
        approver=approver,
        durable=False,
        on_event=lambda name, event: told.append(str(event.get("text", ""))) if name == "hook_warning" else None,
        **options,
    ) as session:
        run_turn(model, "m", session, "go").raise_for_status()
    return (trace.read_text().split() if trace.exists() else []), approver.asked, told


def test_before_trust_nothing_is_used_and_that_is_said(clone: Path) -> None:
    """Neither a hook nor a rule that allows, and one sentence names what is left out; False leaves it out quietly."""
    traces, asked, told = turn(clone)
    assert ([], 1, 1) == (traces, asked, len(told))
    assert "plait trust" in told[0]
    assert ([], 1, []) == turn(clone, trust=False)


def test_after_trust_everything_is_used(clone: Path) -> None:
    """The same session then runs the hook, and asks nobody about what the project allows."""
    trust_store().trust(parts_of(clone))
    assert (["hook"], 0, []) == turn(clone)


def test_a_change_ends_the_trust(clone: Path) -> None:
    """Any byte that changes between two sessions, and all of it is left out again."""
    trust_store().trust(parts_of(clone))
    (clone / "plait.toml").write_text('[permissions]\nallow = ["Bash"]\n')
    traces, asked, told = turn(clone)
    assert ([], 1, 1) == (traces, asked, len(told))


def test_a_hook_that_changes_in_the_middle_does_not_run(clone: Path) -> None:
    """The model cannot write itself a hook: what was trusted is looked at again before each run."""
    trust_store().trust(parts_of(clone))
    evil = f"#!/bin/sh\necho evil >> {clone.parent}/trace\n"
    script = ".plait/hooks/PreToolUse/guard.sh"
    told: list[str] = []
    model = ScriptedModel(
        [
            Say(calls=[Call("write_file", {"path": script, "content": evil})]),
            Say(calls=[Call("exec_shell", {"command": "true"})]),
            "done",
        ]
    )
    with init_session(
        SPEC,
        workspace=clone,
        durable=False,
        on_event=lambda name, event: told.append(str(event.get("text", ""))) if name == "hook_warning" else None,
    ) as session:
        run_turn(model, "m", session, "go").raise_for_status()
    assert ["hook"] == (clone.parent / "trace").read_text().split()
    assert ["has changed since it was trusted" in text for text in told] == [True]


def test_plugins_of_a_repository_wait_for_trust(clone: Path) -> None:
    """They are not even imported before it, and a copy of the folder elsewhere in the tree never is."""
    trace = clone.parent / "trace"
    notices = load_plugins({}, clone).notices
    assert (True, False) == (any("plait trust" in notice for notice in notices), trace.exists())
    assert [] == load_plugins({}, clone, is_trusted=True).notices
    assert ["plugin"] == trace.read_text().split()


OPENING = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event in (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.getaddrinfo",
) else None)
from plait import init_session
from plait.engine.spec import default_specification
with init_session(default_specification("m", "http://127.0.0.1:1/v1"), workspace=sys.argv[1], durable=False) as session:
    pass
print(seen)
"""


def test_opening_a_session_in_a_hostile_clone_starts_nothing(clone: Path) -> None:
    """No process and no address before trust, whatever the clone brings along, git's own configuration included."""
    (clone / ".git" / "config").write_text("[core]\n\tfsmonitor = touch /nowhere\n\thooksPath = evil\n")
    (clone / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "touch", "args": ["evil"]}}}')
    done = subprocess.run(
        [sys.executable, "-c", OPENING, str(clone)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ("[]\n", False) == (done.stdout, (clone / "evil").exists()), done.stderr
