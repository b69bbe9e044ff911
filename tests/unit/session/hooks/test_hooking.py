"""What follows in a session from what hooks say."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import HookBlock, register_hook, session_hooks
from plait.core.errors import PolicyError
from plait.core.messages import ToolCall
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool
from plait.session.cancelling import CancelToken
from plait.session.history.resetting import compact_session
from plait.session.hooks import terms as hook_terms
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Fail, Say, ScriptedModel
from tests.unit.session.hooks.hooked import SHELL, SPEC, Heard, Payload, ask, at, contents


class Person:
    """An approver with somebody behind it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, call: ToolCall, tool: Tool) -> bool:
        """Say yes."""
        self.asked.append(call.name)
        return True


@pytest.mark.parametrize(
    "hook, result, warning",
    [
        ("echo 'rm is not for you' >&2; exit 2", "ERROR: tool call denied by hook: rm is not for you", None),
        ("exit 0", "hi", None),
        ("echo oops >&2; exit 7", "hi", "PreToolUse hook 'echo oops >&2; exit 7': it ended with exit code 7: oops"),
        ({"permissionDecision": "allow"}, "hi", None),
        ({"permissionDecision": "deny", "permissionDecisionReason": "no"}, "ERROR: tool call denied by hook: no", None),
        ({"permissionDecision": "ask"}, "ERROR: tool call denied: a hook wants the user to be asked", None),
        ({"permissionDecision": "allow", "updatedInput": {"command": "echo ho"}}, "ho", None),
        ({"additionalContext": "mind the gap"}, "hi\n\nmind the gap", None),
        (
            {"permissionDecision": "allow", "updatedInput": {"cmd": 1}},
            "ERROR: tool call denied: what a hook made",
            None,
        ),
    ],
)
def test_a_guard_of_the_shell(hook: Any, result: str, warning: str | None) -> None:
    """E28: what a guard says by its exit code or its JSON is what becomes of the call, and what the model reads."""
    if isinstance(hook, dict):
        hook = f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', **hook}})}'"
    heard = Heard()
    with init_session(SPEC, hooks=at("PreToolUse", hook, matcher="Bash"), on_event=heard.on_event) as session:
        ask(session, Say(calls=[SHELL]), "done")

        assert [True] == [text.startswith(result) for text in contents(session)], contents(session)
        assert ([] if warning is None else [warning]) == heard.texts()
        called = next(data for name, data in heard.events if name == "tool_call")
        assert {"command": "echo ho" if result == "ho" else "echo hi"} == called["args"]


def test_a_read_only_session_and_a_stop_that_waits_for_tests() -> None:
    """E31: a function denies the shell under any name; a stop is put off once, with the reason as a message."""

    def no_stop(payload: Payload) -> None:
        seen.append(payload["stop_hook_active"])
        raise HookBlock("run the tests first")

    seen: list[bool] = []
    with init_session(SPEC) as session:
        deny = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}
        deny["hookSpecificOutput"]["permissionDecisionReason"] = "read-only session"
        entry = register_hook(session, "PreToolUse", lambda payload: deny, matcher="Bash")
        register_hook(session, "Stop", no_stop, timeout=5)

        aliased = Call("execute_shell_command", {"command": "touch x"})
        result = ask(session, Say(calls=[SHELL]), Say(calls=[aliased]), "done", "really done")

        assert ("completed", "really done") == (result.status, result.final_reply)
        assert ["ERROR: tool call denied by hook: read-only session"] * 2 == contents(session)
        assert (["go", "run the tests first"], [False, True]) == (contents(session, "user"), seen)
        assert not Path("x").exists()
        assert [entry.to_dict(), "Stop"] == [session_hooks(session)[0], session_hooks(session)[1]["event"]]


def test_a_tool_that_is_the_shell_by_another_name() -> None:
    """A spec that gives the shell a name of its own does not get around a guard of the shell."""
    spec = {
        **SPEC,
        "tool_specs": [
            {
                "type": "function",
                "function": {
                    "name": "sh",
                    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
                },
            }
        ],
        "tools": ["t_run"],
    }
    with init_session(spec, hooks=at("PreToolUse", "exit 2", matcher="Bash")) as session:
        ask(session, Say(calls=[Call("sh", {"command": "touch x"})]), "done")

        assert ["ERROR: tool call denied by hook: blocked by a hook that gave no reason"] == contents(session)


def test_prompts_are_added_to_and_rejected() -> None:
    """Context goes with the prompt; a rejected one is neither sent nor added, and the caller has the reason."""

    def judge(payload: Payload) -> object:
        return {"decision": "block", "reason": "secret"} if "key" in payload["prompt"] else "today is monday"

    with init_session(SPEC, hooks=[at("UserPromptSubmit", judge), at("SessionStart", "echo be brief")]) as session:
        refused = ask(session, task="my key is 1")
        result = ask(session, "done", task="hello")

        assert ("limit", "Prompt rejected by hook: secret") == (refused.status, refused.final_reply)
        with pytest.raises(PolicyError, match="Prompt rejected by hook: secret"):
            refused.raise_for_status()
        assert (["hello\n\ntoday is monday"], "done") == (contents(session, "user"), result.final_reply)
        assert session["messages"][0]["content"].endswith("\n\nbe brief")


def test_results_are_replaced_rejected_and_added_to() -> None:
    """PostToolUse may hide a result, add to it, refuse it, and end the turn."""
    own = {"hookEventName": "PostToolUse", "updatedToolOutput": "hidden", "additionalContext": "seen"}
    with init_session(SPEC, hooks=at("PostToolUse", lambda payload: {"hookSpecificOutput": own})) as session:
        ask(session, Say(calls=[SHELL]), "done")
        assert ["hidden\n\nseen"] == contents(session)
    with init_session(SPEC, hooks=at("PostToolUse", lambda payload: {"decision": "block", "reason": "bad"})) as session:
        ask(session, Say(calls=[SHELL]), "done")
        assert ["ERROR: PostToolUse hook rejected this tool result: bad"] == contents(session)
    stop = {"continue": False, "stopReason": "that is enough"}
    with init_session(SPEC, hooks=at("PostToolUse", lambda payload: stop)) as session:
        result = ask(session, Say(calls=[SHELL]))
        assert ("limit", "stopped by a PostToolUse hook: that is enough") == (result.status, str(result.error))
        assert "more" == ask(session, "more").final_reply


def test_a_long_context_is_kept_where_the_model_can_read_it() -> None:
    """Context over 10,000 characters is head and tail, and all of it is in a file that `read_file` opens."""
    with init_session(SPEC, hooks=at("UserPromptSubmit", lambda payload: "x" * 20_000)) as session:
        ask(session, "ok")
        (prompt,) = contents(session, "user")
        path = prompt.partition("all of it is in ")[2].partition(" ")[0]
        ask(session, Say(calls=[Call("read_file", {"path": path})]), "done")

        assert (True, True) == (len(prompt) < 6_500, contents(session)[0].startswith("xxxx"))


def test_hooks_before_the_approver() -> None:
    """Allow spares the question, ask makes one, a permission hook answers it, and a question is told of."""
    heard, rung = Heard(), threading.Event()

    def permission(payload: Payload) -> object:
        behavior = "deny" if "rm" in payload["tool_input"]["command"] else None
        own = {
            "hookEventName": "PermissionRequest",
            "decision": behavior and {"behavior": behavior, "message": "never"},
        }
        return {"hookSpecificOutput": own}

    def allow(payload: Payload) -> object:
        word = {"ls": "allow", "cat": "ask"}.get(payload["tool_input"].get("command", "cat"))
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word}}

    def notified(payload: Payload) -> None:
        heard(payload)
        rung.set()

    hooks = [at("PreToolUse", allow), at("PermissionRequest", permission), at("Notification", notified)]
    person = Person()
    with init_session(SPEC, hooks=hooks, approver=person) as session:
        calls = [Call("exec_shell", {"command": command}) for command in ("ls", "rm x", "true")]
        ask(session, Say(calls=[*calls, Call("read_file", {"path": "x"})]), "done")

        assert ["exec_shell", "read_file"] == person.asked
        assert "ERROR: tool call denied by hook: never" == contents(session)[1]
        assert rung.wait(10)
    assert "permission_prompt" == heard.told[0]["notification_type"]


def test_an_asked_user_without_an_approver() -> None:
    """Where somebody answers the model's questions, they are asked for a hook too; a session without a user denies."""
    own = {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "sure?"}
    asked: list[str] = []
    hooks = at("PreToolUse", lambda payload: {"hookSpecificOutput": own})
    plait.set_ask_user_handler(
        lambda question, options: (asked.append(question), "yes" if "echo" in question else "n")[1]
    )
    with init_session(SPEC, hooks=hooks) as session:
        ask(session, Say(calls=[SHELL, Call("exec_shell", {"command": "ls"})]), "done")
        assert ["hi", "ERROR: tool call denied by user: a"] == [text[:34].strip() for text in contents(session)]
    assert (2, True) == (len(asked), asked[0].startswith("A hook wants you to be asked (sure?). Run exec_shell with"))
    with init_session(SPEC, hooks=hooks, non_interactive=True) as session:
        ask(session, Say(calls=[SHELL]), "done")
        assert contents(session)[0].startswith("ERROR: tool call denied: a hook wants the user to be asked")
    assert 2 == len(asked)


def test_a_frozen_hook_does_not_hold_a_turn_and_a_gate_stays_closed() -> None:
    """At its timeout a hook is an error and the call runs; where the hook has to agree, it does not."""
    heard = Heard()
    frozen = {"command": "sleep 300", "timeout": 0.2, "statusMessage": "looking"}
    with init_session(SPEC, hooks=at("PreToolUse", frozen), on_event=heard.on_event) as session:
        ask(session, Say(calls=[SHELL]), "done")
        assert (["hi"], ["looking"]) == ([text.strip() for text in contents(session)], heard.texts("hook_status"))
        assert ["PreToolUse hook 'sleep 300': it took longer than 0.2 s"] == heard.texts()
    with init_session(SPEC, hooks=at("PreToolUse", {**frozen, "onError": "deny"})) as session:
        ask(session, Say(calls=[SHELL]), "done")
        assert contents(session)[0].startswith(
            "ERROR: tool call denied by hook: a hook that has to agree failed: it took"
        )


def test_an_interrupted_turn_is_told_and_its_hooks_stop() -> None:
    """A stop ends the hook that runs with the turn, and the interrupt is told once the history is closed."""
    heard, token = Heard(), CancelToken()

    def slow(payload: Payload) -> None:
        token.cancel()
        threading.Event().wait(30)

    with init_session(SPEC, hooks=[at("PreToolUse", slow), at("Interrupt", heard)]) as session:
        result = ask(session, Say(calls=[SHELL]), cancel=token)

        assert ("interrupted", ["Interrupt"], True) == (result.status, heard.names(), bool(heard.told[0]["turn_id"]))
        assert 1 == len(contents(session))


def test_compaction_is_asked_for_and_told() -> None:
    """A summary that is asked for is `manual`, one the loop needs `auto`; a no keeps the history, with its reason."""
    heard = Heard()
    long = "word " * 2_000
    overflow = Fail("context_overflow", "too long")
    with init_session(SPEC, hooks=[at("PreCompact", heard), at("PostCompact", heard)]) as session:
        ask(session, long)
        ask(session, long)
        ask(session, overflow, "short", "ok")
        ask(session, long, task="more")
        with ScriptedModel(["notes"]) as model:
            assert compact_session(model, "m", session, keep_last_turns=1)
    told = [(payload["hook_event_name"], payload["trigger"]) for payload in heard.told]
    assert [(name, trigger) for trigger in ("auto", "manual") for name in ("PreCompact", "PostCompact")] == told

    events = Heard()
    with init_session(SPEC, hooks=at("PreCompact", "echo not now >&2; exit 2"), on_event=events.on_event) as session:
        ask(session, long)
        ask(session, long)
        with ScriptedModel([]) as model:
            kept = compact_session(model, "m", session, keep_last_turns=1)
        failed = ask(session, overflow)
    assert (False, "completed", "not now") == (bool(kept), kept.status, kept.reason)
    assert ("error", True) == (
        failed.status,
        "a PreCompact hook keeps it from being shortened: not now" in str(failed.error),
    )
    assert ["not now", "not now"] == [data["reason"] for name, data in events.events if name == "compaction_skipped"]


@pytest.mark.parametrize("answer", ["exit 0", "echo not now >&2; exit 2"], ids=["yes", "no"])
def test_what_is_too_large_to_be_shown_is_asked_about_too(answer: str) -> None:
    """Where not even the request for a summary would fit, hooks have their say before a list takes its place."""
    heard = Heard()
    with init_session(SPEC, hooks=[at("PreCompact", answer), at("PostCompact", heard)]) as session:
        for _ in range(3):
            ask(session, Say("fine", usage={}), task="word " * 20_000)
        with ScriptedModel(["ok"], context_window=16_000, allow_unused=True) as small:
            result = run_turn(small, "m", session, "and now?")
            asked = [request.purpose for request in small.requests]
    if answer == "exit 0":
        assert ("completed", ["step"], 1) == (result.status, asked, len(heard.told))
        assert any(item.get("compacted_summary") for item in session["messages"])
    else:
        assert ("error", [], 0) == (result.status, asked, len(heard.told))
        assert "a PreCompact hook keeps it from being shortened: not now" in str(result.error)
        assert not any(item.get("compacted_summary") for item in session["messages"])


def test_a_stopped_compaction_stops_its_hooks() -> None:
    """A hook that is asked for leave ends with the signal of whoever asked, and nothing is replaced."""
    token, released, long = CancelToken(), threading.Event(), "word " * 2_000

    def slow(payload: Payload) -> None:
        token.cancel()
        released.wait(30)

    with init_session(SPEC, hooks=at("PreCompact", slow)) as session:
        ask(session, long)
        ask(session, long)
        with ScriptedModel([], allow_unused=True) as model:
            kept = compact_session(model, "m", session, keep_last_turns=1, cancel=token)
    released.set()
    assert ("interrupted", False) == (kept.status, bool(kept))


def test_a_question_of_the_model_s_is_told() -> None:
    """Somebody hears that the model waits for an answer, with the question."""
    rung, heard = threading.Event(), Heard()
    plait.set_ask_user_handler(lambda question, options: "blue")
    asking = Tool("ask_user", "Ask.", plait.TOOL_LIBRARY["t_ask_user"])

    def notified(payload: Payload) -> None:
        heard(payload)
        rung.set()

    with init_session(
        SPEC, hooks=at("Notification", notified, matcher="elicitation_dialog"), tools=[asking]
    ) as session:
        ask(session, Say(calls=[Call("ask_user", {"question": "Which colour?"})]), "done")
        assert rung.wait(10)
    assert "Which colour?" == heard.told[0]["message"]


def test_a_long_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody hears of a wait that is worth a look, while the session waits."""
    monkeypatch.setattr(hook_terms, "LONG_WAIT_S", 0.001)
    rung, heard = threading.Event(), Heard()

    def notified(payload: Payload) -> None:
        heard(payload)
        rung.set()

    with init_session(
        SPEC, hooks=at("Notification", notified, matcher="long_wait"), retry=Retry(base_s=0.01)
    ) as session:
        ask(session, Fail("overloaded", "busy"), "done")
        assert rung.wait(10)
    assert "busy" in heard.told[0]["message"]


def test_a_handler_that_breaks_does_not_break_a_hook() -> None:
    """An exception of an observer at a hook's event comes out of the turn, after the history is closed."""

    def handler(name: str, event: Any) -> None:
        if name == "hook_status":
            raise RuntimeError("display is gone")

    with init_session(SPEC, hooks=at("PreToolUse", "exit 0"), on_event=handler) as session:
        with pytest.raises(RuntimeError, match="display is gone"):
            ask(session, Say(calls=[SHELL]))
        session.on_event = None
        assert "fine" == ask(session, "fine").final_reply


def test_ctrl_c_ends_a_hook_with_its_tree() -> None:
    """Ctrl-C while a command judges a call ends the turn with a valid history, and the command with all it started."""

    def interrupt(payload: Payload) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        released.wait(30)

    released = threading.Event()
    hooks = at("PreToolUse", "sleep 300 & echo $! > pid; wait", interrupt)
    with init_session(SPEC, hooks=hooks) as session:
        result = ask(session, Say(calls=[SHELL]))

        released.set()
        assert ("interrupted", ["ERROR: Not run: the turn was interrupted."]) == (result.status, contents(session))
        pid = int(Path("pid").read_text() or 0) if Path("pid").exists() else 0
        line = Path(f"/proc/{pid}/cmdline")
        assert not pid or not line.exists() or b"" == line.read_bytes()  # what nobody has fetched has no words left


def test_contexts_of_calls_side_by_side_do_not_mix() -> None:
    """What hooks say before and after a call stands in the result of that call, in whatever order the calls end."""

    def about(payload: Payload) -> object:
        word = f"{payload['hook_event_name']} {payload['tool_input']['text']}"
        return {"hookSpecificOutput": {"hookEventName": payload["hook_event_name"], "additionalContext": word}}

    together = threading.Barrier(4)
    tool = Tool("echo", "Say it.", lambda text: (together.wait(30), text)[1], parallel_safe=True)
    hooks = [at("PreToolUse", about), at("PostToolUse", about)]
    with init_session(SPEC, hooks=hooks, tools=[tool]) as session:
        ask(session, Say(calls=[Call("echo", {"text": text}) for text in "abcd"]), "done")

        assert [f"{text}\n\nPreToolUse {text}\n\nPostToolUse {text}" for text in "abcd"] == contents(session)
