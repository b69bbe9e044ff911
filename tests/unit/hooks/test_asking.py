"""Hooks asked at a moment: together, in their time, with real processes that die when they have to."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from plait.core.cancel import Cancel
from plait.hands.process_tree import Tree
from plait.hooks.asking import HookSet
from plait.hooks.decision import NOTHING, HookDecision
from plait.hooks.entry import HookEntry
from plait.hooks.runners import Ground

MARK = "plait-test-hooks"


def hooks(folder: Path, *entries: HookEntry, keep: Any = lambda text: None, **environment: str) -> HookSet:
    """Return a set of hooks over a folder."""
    ground = Ground(str(folder), str(folder), f"{MARK}-{folder.name}", {"PATH": "/usr/bin:/bin", **environment})
    return HookSet(ground, keep, entries)


def alive(folder: Path) -> list[int]:
    """Return what hooks of a folder have left running."""
    return [process.pid for process in Tree(0, f"{MARK}-{folder.name}").members()]


def test_a_command_gets_its_payload_and_no_keys(tmp_path: Path) -> None:
    """The shell form sees JSON on stdin, its folder, the project and an environment without credentials."""
    command = "cat; pwd >&2; echo $CLAUDE_PROJECT_DIR $OPENAI_API_KEY. >&2; exit 2"
    found = hooks(tmp_path, HookEntry("PreToolUse", command=command), OPENAI_API_KEY="k")

    answer = found.ask("PreToolUse", {"tool_name": "Bash", "text": "ä\ud800"})

    assert f"{tmp_path}\n{tmp_path} ." == answer.decision.reason
    echo = hooks(tmp_path, HookEntry("SessionStart", command="read line; echo context: $line"))
    assert ('context: {"tool_name":"Bash","hook_event_name":"SessionStart"}',) == echo.ask(
        "SessionStart", {"tool_name": "Bash"}
    ).decision.context


def test_the_exec_form_takes_arguments_as_they_are(tmp_path: Path) -> None:
    """With `args` no shell comes between: words with blanks and marks arrive, the program is found by its name."""
    entry = HookEntry("SessionStart", command="printf", args=("%s|", "a b", "$HOME;ls"))

    assert ("a b|$HOME;ls|",) == hooks(tmp_path, entry).ask("SessionStart", {}).decision.context
    gone = HookEntry("Stop", command="no-such-program", args=(), on_error="deny")
    said = hooks(tmp_path, gone).ask("Stop", {}).decision
    assert ("deny", True) == (said.decision, said.errors[0].startswith("it could not be started: "))


def test_a_frozen_hook_holds_nobody_and_leaves_nothing(tmp_path: Path) -> None:
    """At its timeout a command dies with all it started, whatever it ignores or never reads; a function is given up."""
    forever = threading.Event()
    stuck = "trap '' TERM; setsid sleep 300 & cat <(sleep 300) & sleep 300"
    frozen = [
        HookEntry("PreToolUse", command=stuck, timeout_s=0.3),
        HookEntry("PreToolUse", fn=lambda payload: forever.wait(), timeout_s=0.2),
        HookEntry("PreToolUse", command="exit 0", on_error="deny"),
    ]

    said = hooks(tmp_path, *frozen).ask("PreToolUse", {"big": "x" * 1_000_000}).decision

    assert HookDecision(errors=("it took longer than 0.3 s", "it took longer than 0.2 s")) == said
    assert [] == alive(tmp_path)
    forever.set()


def test_a_stopped_turn_stops_its_hooks(tmp_path: Path) -> None:
    """The signal of the turn ends commands with their trees and gives functions up; gates stay closed."""
    cancel, begun, forever = Cancel(), threading.Event(), threading.Event()
    found = hooks(
        tmp_path,
        HookEntry("PreToolUse", command="sleep 300 & wait", on_error="deny"),
        HookEntry("PreToolUse", fn=lambda payload: (begun.set(), forever.wait())),
    )
    threading.Thread(target=lambda: (begun.wait(), cancel.cancel("interrupted"))).start()

    said = found.ask("PreToolUse", {}, cancel=cancel).decision

    assert ("deny", 2) == (said.decision, len(said.errors))
    assert [] == alive(tmp_path)
    forever.set()


def test_hooks_run_beside_each_other(tmp_path: Path) -> None:
    """Hooks of one moment start together, at most eight at a time, and answer in their order."""
    together = threading.Barrier(8)
    entries = [HookEntry("SessionStart", fn=lambda payload, n=n: (together.wait(30), f"n{n}")[1]) for n in range(16)]
    begun: list[HookEntry] = []

    answer = hooks(tmp_path, *entries).ask("SessionStart", {}, on_begin=begun.append)

    assert tuple(f"n{n}" for n in range(16)) == answer.decision.context
    assert entries == begun


def test_output_without_end_is_bounded(tmp_path: Path) -> None:
    """A hook that floods its output is read to its end and kept in part."""
    flood = HookEntry("SessionStart", command="head -c 30000000 /dev/zero | tr '\\0' x")

    (text,) = hooks(tmp_path, flood).ask("SessionStart", {}).decision.context

    assert "characters of a hook's text left out; the rest could not be kept" in text
    assert 6_200 > len(text)


def test_long_context_is_cut_and_kept(tmp_path: Path) -> None:
    """What is longer than its limit is head, tail and the place of all of it; a hook's own limit counts."""
    kept: list[str] = []

    def keep(text: str) -> str:
        kept.append(text)
        return f"/spill/{len(kept)}"

    long = "a" * 9_000 + "z" * 2_000
    entries = [
        HookEntry("SessionStart", fn=lambda payload: long),
        HookEntry("SessionStart", fn=lambda payload: "b" * 100, context_chars_max=30),
        HookEntry("SessionStart", fn=lambda payload: "c" * 10_000),
    ]

    first, second, third = hooks(tmp_path, *entries, keep=keep).ask("SessionStart", {}).decision.context

    marker = "[… 5,000 characters of a hook's text left out; all of it is in /spill/1 …]"
    assert "a" * 4_000 + f"\n{marker}\n" + "z" * 2_000 == first
    assert (True, 10_000) == (second.startswith("b" * 20 + "\n[… 70 ") and second.endswith("b" * 10), len(third))
    assert [long, "b" * 100] == kept


def test_nobody_waits_for_async_hooks(tmp_path: Path) -> None:
    """What they decide is dropped, what they say comes later, and they end with the session."""
    go, forever = threading.Event(), threading.Event()

    def later(payload: dict[str, Any]) -> dict[str, Any]:
        go.wait()
        own = {"hookEventName": "PostToolUse", "additionalContext": "lint failed"}
        return {"decision": "block", "systemMessage": "note", "hookSpecificOutput": own}

    slow = HookEntry("PostToolUse", fn=later, is_async=True)
    stuck = HookEntry("PostToolUse", command="sleep 300", is_async=True)
    found = hooks(tmp_path, slow, stuck, HookEntry("PostToolUse", fn=lambda payload: forever.wait(), is_async=True))

    assert (NOTHING, []) == (found.ask("PostToolUse", {}).decision, found.take_later())

    go.set()
    said: list[Any] = []
    until = time.monotonic() + 10
    while not said and time.monotonic() < until:
        said = found.take_later()
    assert [(slow, HookDecision(context=("lint failed",), messages=("note",)))] == said
    found.close()
    assert [] == alive(tmp_path)
    forever.set()


def test_the_matcher_of_a_hook_counts_where_its_event_has_one(tmp_path: Path) -> None:
    """Only the hooks that are meant run; Stop, prompts and interrupts have nothing to match."""
    entries = [
        HookEntry("PreToolUse", "Bash", fn=lambda payload: "x"),
        HookEntry("Stop", "Bash", fn=lambda payload: None),
        HookEntry("SessionStart", "startup", fn=lambda payload: "started"),
    ]
    found = hooks(tmp_path, *entries)

    assert ([entries[0]], []) == (found.matching("PreToolUse", ["Bash", "x"]), found.matching("PreToolUse", ["x"]))
    assert [entries[1]] == found.matching("Stop")
    assert ((), ("started",)) == tuple(
        found.ask("SessionStart", {}, [source]).decision.context for source in ("resume", "startup")
    )
    assert (True, False) == (found.has("Stop"), found.has("Interrupt"))


def test_what_a_function_may_not_do_is_an_error(tmp_path: Path) -> None:
    """A wrong type, a coroutine, a value that is no JSON and `exit()` are errors; a payload is nobody else's."""

    async def wait(payload: dict[str, Any]) -> None:
        """Never run."""

    def spoil(payload: dict[str, Any]) -> None:
        payload["tool_input"]["command"] = "rm"
        raise SystemExit("bye")

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    def fail(payload: dict[str, Any]) -> None:
        raise Mute

    seen: list[Any] = []
    entries = [
        HookEntry("PreToolUse", fn=fn)
        for fn in (fail, lambda payload: 7, wait, lambda payload: {"reason": float("nan")}, spoil, seen.append)
    ]

    said = hooks(tmp_path, *entries).ask("PreToolUse", {"tool_input": {"command": "ls"}}).decision

    mute, wrong, coroutine, no_json, bye = said.errors
    assert "it ended with exit code 1: Mute" == mute
    assert "it returned 'int' where None, a dict or a text is wanted" == wrong
    assert "it is a coroutine; a hook is a plain function" == coroutine
    assert no_json.startswith("it returned what JSON cannot say: ")
    assert "it ended with exit code 1: bye" == bye
    assert {"command": "ls"} == seen[0]["tool_input"]
