"""E35: a program calls a tool of its session: by the session's rules, in its journal, told to who watches, not said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import NamedEvent, Tool, execute_tool_call, init_session, load_specification, register_hook, run_turn
from plait.core.errors import ConfigError, SessionBusy
from plait.engine.agent_spec import AgentSpec
from plait.hands.editing import atomic
from plait.session.history.rewinding import rewind
from plait.session.kept.flat import flat
from plait.session.kept.session_journal import replay_journal
from plait.session.session import Session
from plait.testing import Call, ScriptedModel
from plait.tools.extra_specs import grammar
from tests.helpers.deaths import die_before

URL = "http://127.0.0.1:1/v1"


def open_one(*tools: Tool, **options: Any) -> Session:
    """Open a session with the default tools and some more."""
    spec: AgentSpec = load_specification("m", URL)
    return init_session(spec, tools=tools, **({"session_id": "s", "strict_cache_proof": False} | options))


def records(session: Session) -> list[dict[str, Any]]:
    """Return what the journal holds of calls, in the flat form."""
    assert session.kept_in is not None
    lines = (session.kept_in / "journal.jsonl").read_text().splitlines()
    found = [flat(record) for record in map(json.loads, lines) if "type" in record]
    return [record for record in found if record["type"] in ("tool_start", "tool_end")]


def test_e35_a_call_is_in_the_journal_and_told_and_timed(work: Path) -> None:
    """Before the first turn and after it a call has its start and end in the journal, its events, and no message."""
    heard: list[tuple[str, NamedEvent]] = []
    with open_one(on_event=lambda name, event: heard.append((name, event))) as session:
        text = execute_tool_call(session, "write_file", {"path": "a.txt", "content": "one\n"}, call_id="mine")
        with ScriptedModel(["done"]) as model:
            run_turn(model, "m", session, "x")
        again = execute_tool_call(session, "bash", {"command": "cat a.txt; exit 3"})
        journal = records(session)
        messages = [message["role"] for message in session["messages"]]

    assert "OK: wrote 4 bytes to a.txt (new file)" == text
    assert "one\n[exit code 3]" == again
    assert ["system", "user", "assistant"] == messages
    assert ["tool_start", "tool_end", "tool_start", "tool_end"] == [record["type"] for record in journal]
    assert ("mine", "write_file", {"path": "a.txt", "content": "one\n"}) == tuple(
        journal[0][key] for key in ("call_id", "name", "args")
    )
    assert ("mine", "write_file", text) == tuple(journal[1][key] for key in ("call_id", "name", "result"))
    told = [(name, event) for name, event in heard if name in ("tool_call", "tool_result")]
    assert ["tool_call", "tool_result"] * 2 == [name for name, _ in told]
    result = told[1][1]
    assert ("write_file", "mine", ["a.txt"], {"path": "a.txt", "added": 1, "removed": 0}) == (
        result["name"],
        result["call_id"],
        result["files"],
        result["diff_summary"],
    )
    assert result["started_at"] <= result["ended_at"]
    assert result["duration_ms"] >= 0
    assert told[0][1]["args"] == {"path": "a.txt", "content": "one\n"}


def test_the_start_is_durable_before_the_call_acts(work: Path) -> None:
    """What may change something finds its own start in the journal while it runs; a resume knows of both."""

    def act() -> str:
        seen.append([(record["type"], record["name"]) for record in records(session)])
        return "acted"

    seen: list[list[tuple[str, str]]] = []
    with open_one(Tool("act", "Act.", act, mutates=True)) as session:
        assert "acted" == execute_tool_call(session, "act", {})
        kept = session.kept_in
    assert kept is not None

    assert [[("tool_start", "act")]] == seen
    assert 0 == len(replay_journal(kept / "journal.jsonl").pending_tool_calls)
    with open_one() as again, ScriptedModel(["done"]) as model:
        assert "done" == run_turn(model, "m", again, "x").final_reply


def test_what_goes_wrong_is_the_answer(work: Path) -> None:
    """An unknown name, arguments that do not fit, a failing tool and a refusal come back as text, and are told."""

    async def fail() -> str:
        raise RuntimeError("broken")

    heard: list[str] = []
    with open_one(Tool("fail", "Fail.", fail), on_event=lambda name, event: heard.append(event["status"])
                  if name == "tool_result" else None) as session:  # fmt: skip
        assert "Unknown tool 'nope'" in execute_tool_call(session, "nope", {})
        assert "Invalid arguments" in execute_tool_call(session, "read_file", {"path": 3})
        assert "RuntimeError: broken" in execute_tool_call(session, "fail", {})
        assert "ERROR: Not a file" in execute_tool_call(session, "read_file", {"path": "gone"})

    assert ["error"] * 4 == heard


def test_nobody_else_is_in_the_middle_of_it(work: Path) -> None:
    """A tool cannot call another one of its own session during a turn; ids are not used twice; a dict is no session."""

    def nested() -> str:
        return execute_tool_call(session, "read_file", {"path": "a"})

    with (
        open_one(Tool("nested", "Nest.", nested)) as session,
        ScriptedModel([Call("nested", {}, "c1"), "done"]) as model,
    ):
        result = run_turn(model, "m", session, "x")
        assert SessionBusy.__name__ in result.messages[-2]["content"]
        with pytest.raises(ConfigError, match="'c1' was used before"):
            execute_tool_call(session, "read_file", {"path": "a"}, call_id="c1")
    with pytest.raises(ConfigError, match="open session"):
        execute_tool_call(dict(session), "read_file", {"path": "a"})  # type: ignore[arg-type]


def test_a_rewind_takes_its_files_back_too(work: Path) -> None:
    """What a program's call changed in a file since a turn goes back with everything else."""
    (work / "a.txt").write_text("mine\n")
    with open_one() as session, ScriptedModel(["done"]) as model:
        run_turn(model, "m", session, "x")
        execute_tool_call(session, "edit_file", {"path": "a.txt", "old": "mine", "new": "theirs"})
        assert "theirs\n" == (work / "a.txt").read_text()

        back = rewind(session, 1)

    assert [("a.txt", "restored")] == [(file.path, file.outcome) for file in back.files]
    assert "mine\n" == (work / "a.txt").read_text()


def test_a_tool_with_a_grammar_gets_its_text(work: Path) -> None:
    """A patch goes to `apply_patch` as text; a session without a journal can be called as well."""
    entry = {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": grammar()}
    spec = {"model": "m", "endpoint": URL, "tool_specs": [entry]}
    patch = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch"
    with init_session(spec, durable=False) as session:
        assert "OK: 1 file changed\nA n.txt (+1)" == execute_tool_call(session, "apply_patch", {"input": patch})
    assert "x\n" == (work / "n.txt").read_text()


def test_hooks_have_their_word(work: Path) -> None:
    """A program's call is put before the hooks like the model's: one denies it under any name, one sees its result."""
    seen: list[str] = []
    no = {"permissionDecision": "deny", "permissionDecisionReason": "read-only", "hookEventName": "PreToolUse"}
    with open_one() as session:
        register_hook(session, "PreToolUse", lambda call: {"hookSpecificOutput": no}, matcher="Bash")
        register_hook(session, "PostToolUse", lambda call: seen.append(call["tool_name"]), matcher="Write")
        denied = execute_tool_call(session, "execute_shell_command", {"command": "touch made"})
        allowed = execute_tool_call(session, "write_file", {"path": "a", "content": "x"})

    assert "ERROR: tool call denied by hook: read-only" == denied
    assert not (work / "made").exists()
    assert allowed.startswith("OK")
    assert ["Write"] == seen


def call_and_die(step: int) -> int:
    """Call a tool in a process that is gone before its nth step on disk; return how that one ended."""

    def live(before: Callable[[str], None]) -> None:
        atomic._nothing = before
        execute_tool_call(open_one(), "write_file", {"path": "a.txt", "content": "new\n"}, call_id="mine")

    return die_before(step, live)


@pytest.mark.parametrize("step, became", [(2, "Not applied."), (7, "Applied.")])
def test_a_call_whose_process_died_has_its_end_with_the_next_turn(work: Path, step: int, became: str) -> None:
    """What became of a program's call is found out once and recorded; a rewind takes back what it did."""
    (work / "a.txt").write_text("old\n")
    with open_one() as session, ScriptedModel(["done"]) as model:
        run_turn(model, "m", session, "x")
    assert 9 == call_and_die(step)
    left = (work / "a.txt").read_text()

    with open_one() as session, ScriptedModel(["done", "more"]) as model:
        run_turn(model, "m", session, "x")
        run_turn(model, "m", session, "y")
        ends = [record for record in records(session) if record["type"] == "tool_end"]
        rewind(session, 1)

    assert {"Not applied.": "old\n", "Applied.": "new\n"}[became] == left
    assert [("mine", "write_file", True)] == [
        (end["call_id"], end["name"], end["result"].startswith(became)) for end in ends
    ]
    assert "old\n" == (work / "a.txt").read_text()
