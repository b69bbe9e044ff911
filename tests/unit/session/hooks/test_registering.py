"""Which hooks a session has, when each is asked, and what is left of them."""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from plait import HookBlock, load_hooks, register_hook, session_hooks
from plait.core.errors import ConfigError
from plait.hands.process_tree import Tree
from plait.session.history.replaying import replay_session
from plait.session.history.resetting import clear_session
from plait.session.opening import init_session
from plait.testing import Say
from tests.unit.session.hooks.hooked import SHELL, SPEC, Heard, Payload, ask, at, contents, everywhere


def write(path: Path, data: object) -> Path:
    """Write JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


def test_every_moment_of_a_session() -> None:
    """Hooks are asked in the order in which things happen, with who, where and what."""
    heard = Heard()
    with init_session(SPEC, hooks=everywhere(heard), session_id="s1") as session:
        ask(session, Say(calls=[SHELL]), "done", sender={"kind": "peer", "name": "p"})
        journal = f"{session.kept_in}/journal.jsonl"

    names = "SessionStart UserPromptSubmit PreToolUse PostToolUse Stop SessionEnd".split()
    start, prompt, before, after, stop, end = heard.told
    assert names == heard.names()
    common = {"session_id": "s1", "cwd": str(Path.cwd()), "model": "m", "permission_mode": "default"}
    assert all(common.items() <= payload.items() for payload in heard.told)
    assert [journal] * 3 == [payload["transcript_path"] for payload in (start, prompt, end)]
    assert ("startup", "go", {"kind": "peer", "name": "p"}) == (start["source"], prompt["prompt"], prompt["sender"])
    assert ("Bash", "exec_shell", {"command": "echo hi"}) == (
        before["tool_name"],
        before["plait_tool_name"],
        before["tool_input"],
    )
    assert ("hi\n", before["tool_use_id"]) == (after["tool_response"].rstrip() + "\n", after["tool_use_id"])
    assert (False, "done", "other") == (stop["stop_hook_active"], stop["last_assistant_message"], end["reason"])
    assert 1 == len({payload["prompt_id"] for payload in (prompt, before, after, stop)})
    assert not Path(start["scratchpad_dir"]).exists()


def test_what_cannot_be_registered() -> None:
    """An unknown event, neither or both of function and command, and values that mean nothing are refused."""
    with init_session(SPEC) as session:
        for wrong in (
            {"event": "BeforeTool", "fn": print},
            {"event": "Stop"},
            {"event": "Stop", "fn": print, "command": "x"},
            {"event": "Stop", "fn": print, "timeout": -1.0},
            {"event": "Stop", "fn": print, "on_error": "stop"},
            {"event": "Stop", "fn": print, "on_error": "deny", "async_": True},
        ):
            with pytest.raises(ValueError, match=r"event|function|timeout|on_error"):
                register_hook(session, **wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            load_hooks(session, {"Stop": 1})
        assert ([], ["Stopp: no event is called 'Stopp' here, so its hooks are left out; did you mean 'Stop'?"]) == (
            load_hooks(session, {"Stopp": []})
        )
        assert [] == session_hooks(session)
        load_hooks(session, at("Stop", print))
        assert ["Stop"] == [hook["event"] for hook in session_hooks(session)]
    with pytest.raises(ConfigError, match="open session"):
        register_hook(dict(session), "Stop", print)  # type: ignore[arg-type]


def test_resume_and_replay_need_no_hook_again() -> None:
    """What hooks changed stands in the journal: a resume has the same conversation, and a replay proves it unasked."""
    calls: list[str] = []

    def change(payload: Payload) -> object:
        calls.append(payload["hook_event_name"])
        own = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "echo ho"}}
        return {"hookSpecificOutput": own}

    def once(payload: Payload) -> None:
        raise HookBlock("look again")

    hooks = [at("PreToolUse", change), at("Stop", once), at("SessionStart", "echo from $PLAIT_PROJECT_DIR")]
    post = at(
        "PostToolUse", lambda payload: {"decision": "block", "reason": "bad"} if "denied" in str(payload) else None
    )
    with init_session(SPEC, hooks=[*hooks, post], session_id="r1") as session:
        ask(session, Say(calls=[SHELL]), "done", "really")
        before = list(session["messages"])
    heard = Heard()

    with init_session(
        SPEC, resumed_from="r1", hooks=[at("SessionStart", heard, lambda payload: "welcome back")]
    ) as again:
        assert before == again["messages"]
        ask(again, "fine", task="and?")
        assert ("resume", "and?\n\nwelcome back") == (heard.told[0]["source"], contents(again, "user")[-1])
        assert before[0] == again["messages"][0]

    told = replay_session("r1", SPEC)
    assert (True, ["PreToolUse"]) == (told.is_same, calls)


def test_a_cleared_conversation_is_over() -> None:
    """Emptying a conversation ends it for its hooks, by its own reason."""
    heard = Heard()
    with init_session(SPEC, hooks=at("SessionEnd", heard)) as session:
        ask(session, "hi")
        clear_session(session)
    assert ["clear", "other"] == [payload["reason"] for payload in heard.told]


def test_the_user_s_own_hooks_the_spec_s_and_the_repository_s(here: Path) -> None:
    """All layers count in their order; the repository's own only where the embedder vouches, else that is said once."""
    (here / ".git").mkdir()
    write(Path.home() / ".config/plait/hooks.json", at("Stop", "true"))
    own = write(here / ".plait/hooks.json", at("Stop", "false"))
    write(here / ".codex/hooks.json", at("Stop", "codex"))
    spec = {**SPEC, "behaviour": {"hooks": at("Stop", "spec")}}
    notice = f"the repository's own hooks are not run, because it is not trusted (plait trust): {own}"

    def listed(**options: Any) -> tuple[list[object], list[str]]:
        heard = Heard()
        with init_session(spec, on_event=heard.on_event, hooks=at("Stop", "kwarg"), **options) as session:
            return [hook["command"] for hook in session_hooks(session)], heard.texts()

    assert (["kwarg", "spec", "true"], [notice]) == listed()
    assert (["kwarg", "spec", "false", "true"], []) == listed(trust=True)
    assert (["kwarg", "spec", "false", "codex", "true"], []) == listed(trust=True, hooks_compat=["codex"])
    assert (["kwarg", "spec", "true"], []) == listed(trust=False)
    assert ([], []) == listed(hooks_enabled=False)
    spec["hooks_enabled"] = False
    assert ([], []) == listed()
    assert ["kwarg", "spec", "true"] == listed(hooks_enabled=True)[0]


def test_a_broken_file_opens_no_session(here: Path) -> None:
    """A hooks file that cannot be read is an error with its place, and never a session without hooks."""
    path = Path.home() / ".config/plait/hooks.json"
    write(path, {}).write_text('{"hooks": ')

    with pytest.raises(ConfigError, match=rf"{path}:1:11' are no JSON"):
        init_session(SPEC, session_id="s1")
    init_session(SPEC, session_id="s1", hooks_enabled=False).close()
    path.unlink()
    init_session(SPEC, session_id="s1").close()


def test_a_session_without_hooks_loads_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither opening nor running nor closing needs the modules that ask hooks."""
    for name in ("plait.session.hooks.registering", "plait.session.hooks.hooking", "plait.hooks.asking"):
        monkeypatch.setitem(sys.modules, name, None)

    with init_session(SPEC) as session:
        assert "done" == ask(session, Say(calls=[SHELL]), "done").final_reply


def test_a_dropped_session_leaves_nothing_running() -> None:
    """What hooks have begun and nobody waits for ends with the session, also with one that is only dropped."""
    session = init_session(SPEC, hooks=at("SessionStart", {"command": "echo $$ > pid; sleep 300", "async": True}))
    register_hook(session, "Stop", lambda payload, held=session: None)
    mark = session._live.hooks.hooks.leftovers.mark  # type: ignore[union-attr]
    while not Tree(0, mark).members():
        time.sleep(0.001)

    del session
    gc.collect()

    assert [] == Tree(0, mark).members()


def test_the_user_s_settings_say_which_hooks_there_are() -> None:
    """`[hooks]` in the user's plait.toml holds events, files, other programs' and a switch; a wrong one is placed."""
    settings = write(Path.home() / ".config/plait/plait.toml", {})
    write(Path.home() / ".config/plait/team.json", at("Stop", "team"))
    write(Path.home() / ".codex/hooks.json", at("Stop", "codex"))

    def listed(text: str, **options: Any) -> list[object]:
        settings.write_text(f"[hooks]\n{text}")
        with init_session(SPEC, **options) as session:
            return [hook["command"] for hook in session_hooks(session)]

    own = '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "own"\n'
    assert ["own", "team", "codex"] == listed(f'files = ["team.json"]\ncompat = ["codex"]\n{own}')
    assert ([], ["own"]) == (listed(f"enabled = false\n{own}"), listed(f"enabled = false\n{own}", hooks_enabled=True))
    for text, place in (
        ("enabled = 1", "'hooks.enabled'"),
        ("files = 1", "'hooks.files'"),
        ('compat = ["vim"]', "'vim'"),
        ("Stop = 1", "hooks: Stop is a number"),
    ):
        with pytest.raises(ConfigError, match=place):
            listed(text)
