"""Sessions whose calls run elsewhere: all of a session behind one fence, or with an executor of the host's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from plait import (
    Tool,
    activate_tool,
    execute_tool_call,
    init_session,
    load_specification,
    register_hook,
    run_turn,
)
from plait.core.errors import ConfigError
from plait.core.facts import Observation
from plait.events.named import SessionResumed
from plait.hands.fence.late import LateFence
from plait.hands.fence.policy import SandboxPolicy
from plait.session.confining import Confinement
from plait.session.defaults import LIBRARY
from plait.session.session import Session
from plait.store.opening import load_journal
from plait.testing import Call, ScriptedModel
from plait.tools.executor import LocalToolExecutor
from plait.tools.fenced_executor import BubblewrapToolExecutor

LEVEL = "bubblewrap+seccomp+landlock"
MODULE = '''
import os

def double(n: int) -> dict:
    """Double a number."""
    return {"twice": 2 * n, "root": os.path.exists(OUTSIDE)}

async def later(text: str) -> tuple:
    """Say it later."""
    return text, {"heard": True}
'''


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep sessions apart from an empty workspace."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def opened(*tools: Tool, **options: Any) -> Session:
    """Open a session with the default tools and some more."""
    spec = load_specification("m", "http://127.0.0.1:1/v1")
    return init_session(spec, tools=tools, strict_cache_proof=False, session_id="s", **options)


def test_one_fence_is_around_everything(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built-in tools, their other names, hooks and own tools run inside; the journal says what the fence was."""
    (work / "own_tools_of_this_test.py").write_text(MODULE.replace("OUTSIDE", repr(str(tmp_path / "state"))))
    monkeypatch.syspath_prepend(str(work))
    import own_tools_of_this_test as own  # type: ignore[import-not-found]

    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = (
        Tool("double", "d", own.double, sandbox=True),
        Tool("later", "d", own.later, sandbox=True),
        Tool("echo", "d", lambda text: text, parameters=parameters, sandbox=lambda given: ["echo", given["text"]]),
        Tool("bare", "d", own.double),
        Tool("local", "d", lambda text: text, parameters=parameters, sandbox=True),
    )
    executor = BubblewrapToolExecutor(SandboxPolicy(work))
    with opened(*tools, tool_executor=executor) as session:
        hook = f"ls {tmp_path / 'state'} > hooked 2>&1; touch /etc/hooked"
        register_hook(session, "PreToolUse", command=hook, matcher="Bash")
        said = {
            name: execute_tool_call(session, name, arguments)
            for name, arguments in (
                ("exec_shell", {"command": f"pwd; ls {tmp_path}; cat hooked"}),
                ("bash", {"command": "touch /etc/x || echo no"}),
                ("read_file", {"path": "/etc/passwd"}),
                ("write_file", {"path": ".mcp.json", "content": "{}"}),
                ("double", {"n": 4}),
                ("later", {"text": "hello"}),
                ("echo", {"text": "a  b"}),
                ("bare", {"n": 4}),
                ("local", {"text": "x"}),
            )
        }
        lines = (tmp_path / "state/sessions/s/journal.jsonl").read_text().splitlines()

    shell = said.pop("exec_shell").split("\n")
    assert (str(work), "work") == (shell[0], shell[1])
    assert any("cannot access" in line for line in shell)
    assert "no" in said.pop("bash")
    assert ("hello", "a  b") == (said.pop("later"), said.pop("echo"))
    assert {"twice": 8, "root": False} == json.loads(said.pop("double"))
    assert ["ERROR"] * 4 == [text[:5] for text in said.values()]
    start = next(json.loads(line)["data"] for line in lines if '"session_start"' in line)
    assert (LEVEL, str(work)) == (start["sandbox"], start["sandbox_policy"]["workspace"])
    # The start, each call that ran a command, and what is recorded before the shell's.
    assert 1 + 5 + 2 == sum(LEVEL in line for line in lines)


def test_an_executor_of_the_hosts_gets_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their advertised names, with the entry of the dispatch table, and with the session's id alone."""
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[str, Mapping[str, object], Mapping[str, Any], Mapping[str, object]]] = []

    class Elsewhere:
        def execute(
            self,
            tool_name: str,
            args: Mapping[str, object],
            dispatch_entry: Mapping[str, object],
            *,
            session: Mapping[str, object],
        ) -> tuple[str, dict[str, object]]:
            calls.append((tool_name, args, dispatch_entry, session))
            return "elsewhere", {"ok": tool_name != "exec_shell"}

    def own(number: int) -> int:
        """Never called here."""
        raise AssertionError(number)

    with opened(Tool("own", "d", own), tool_executor=Elsewhere(), durable=False) as session:
        said = [
            execute_tool_call(session, name, arguments)
            for name, arguments in (("own", {"number": 3}), ("read_file", {"path": "x"}), ("bash", {"command": "true"}))
        ]

    assert ["elsewhere"] * 3 == said
    assert [("own", {"number": 3}), ("read_file", {"path": "x"})] == [call[:2] for call in calls[:2]]
    assert (own, "t_read") == tuple(call[2]["python_function"] for call in calls[:2])
    assert all({"session_id": "s"} == call[3] for call in calls)
    assert 3 == len(calls)


def test_tools_that_come_later_are_inside_too(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken from the library in the middle of a session is behind the fence, or refused by it."""
    monkeypatch.setitem(LIBRARY.functions, "escape", lambda: os.listdir("/home"))
    with opened(tool_executor=BubblewrapToolExecutor(SandboxPolicy(work)), durable=False) as session:
        activate_tool(session, "escape")
        activate_tool(session, "glob")
        said = execute_tool_call(session, "escape", {}), execute_tool_call(session, "glob", {"pattern": "*"})

    assert (True, False) == tuple("cannot run in the sandbox" in text for text in said)


def test_a_fence_around_commands_alone(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell and tools that say how get in, late; other tools and hooks stay outside; a change is told."""
    monkeypatch.chdir(work)
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    outside = str(tmp_path / "outside")
    tools = (
        Tool("echo", "d", lambda text: text, parameters=parameters, sandbox=lambda given: ["touch", outside + "1"]),
        Tool("bare", "d", lambda text: Path(outside + "2").write_text(text), parameters=parameters, runs_code=True),
    )
    policy = SandboxPolicy(work)
    with opened(*tools, sandbox=Confinement("auto", LateFence(policy))) as session:
        register_hook(session, "PreToolUse", command=f"touch {outside}3", matcher="Bash")
        known = {tool.name: tool for tool in session._live.conversation.terms.tools}
        said = [execute_tool_call(session, name, {"text": "x"}) for name in ("echo", "bare")]
        execute_tool_call(session, "exec_shell", {"command": f"touch {outside}4 made"})
        inside = [
            name for name in ("exec_shell", "bash", "echo", "bare", "write_file") if session.is_fenced(known[name])
        ]
    assert (["exec_shell", "bash", "echo"], ["", "1"]) == (inside, said)
    assert {"outside2", "outside3"} == {path.name for path in tmp_path.glob("outside*")}

    notices: list[str] = []
    for confinement in (Confinement("auto", LateFence(policy)), Confinement("off"), Confinement("off")):
        heard = partial(_hear_resumed, notices)
        with opened(*tools, sandbox=confinement, on_event=heard) as session:
            execute_tool_call(session, "list_dir", {})
    facts = load_journal(tmp_path / "state/sessions/s/journal.jsonl").facts
    noted = [fact.data for fact in facts if isinstance(fact, Observation) and fact.data.get("event") == "sandbox"]
    assert ["", "the sandbox of this session was 'auto' and is 'off' now", ""] == notices
    assert ["off"] == [data["sandbox_mode"] for data in noted]
    with pytest.raises(ConfigError, match="both say where calls run"):
        opened(sandbox=Confinement("off"), tool_executor=LocalToolExecutor())


def _hear_resumed(notices: list[str], _name: str, event: object) -> None:
    if isinstance(event, SessionResumed):
        notices.append(event.notice)


def test_what_cannot_execute_is_refused(work: Path, tmp_path: Path) -> None:
    """Something without `execute`, and a fence around another folder, are configuration errors."""
    with pytest.raises(ConfigError, match="no execute"):
        opened(tool_executor=object())
    executor = BubblewrapToolExecutor(SandboxPolicy(work))
    with pytest.raises(ConfigError, match="is not the sandbox's"):
        opened(tool_executor=executor, workspace=tmp_path)


def test_the_local_executor_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With it a session has plait's own tools, unchanged."""
    monkeypatch.chdir(tmp_path)
    with opened(tool_executor=LocalToolExecutor(), durable=False) as session:
        assert str(tmp_path) in execute_tool_call(session, "exec_shell", {"command": "pwd"})


class Elsewhere:
    """An executor of a host's own that notes what it gets."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def execute(
        self,
        tool_name: str,
        args: Mapping[str, object],
        dispatch_entry: Mapping[str, object],
        *,
        session: Mapping[str, object],
    ) -> tuple[str, dict[str, object]]:
        """Run nothing."""
        self.calls.append((tool_name, dispatch_entry["python_function"]))
        return "elsewhere", {"ok": True}


def test_one_turn_may_run_its_calls_elsewhere(work: Path, tmp_path: Path) -> None:
    """For that turn alone, behind a fence or with the host's own; the prompt is the same, the journal says which."""
    executor, fence = Elsewhere(), BubblewrapToolExecutor(SandboxPolicy(work))
    calls = [Call("exec_shell", {"command": "pwd"}), Call("own", {"number": 3})]
    tool = Tool("own", "d", own_tool)
    with ScriptedModel([*[*calls, "done"] * 4]) as model, opened(tool, workspace=work) as session:
        ends = [run_turn(model, "m", session, "go", tool_executor=each) for each in (None, executor, fence, None)]
        heads = [request.setup for request in model.requests]
        said = [result.content for message in model.requests[-1].messages for result in message.tool_results]
    assert ["completed"] * 4 == [end.status for end in ends]
    assert all(heads[0] == head for head in heads)
    assert ["own 3", "elsewhere", "cannot run in the sandbox", "own 3"] == [
        next((words for words in ("cannot run in the sandbox",) if words in text), text) for text in said[1::2]
    ]
    assert ["elsewhere", "/workspace" in said[4]] == [said[2], True]
    assert [("exec_shell", "t_run"), ("own", own_tool)] == executor.calls
    lines = (tmp_path / "state/sessions/s/journal.jsonl").read_text().splitlines()
    (noted,) = [json.loads(line)["data"] for line in lines if '"turn_sandbox"' in line]
    assert (LEVEL, str(work)) == (noted["sandbox"], noted["sandbox_policy"]["workspace"])


def test_no_turn_is_let_out_of_the_sessions_fence(work: Path, tmp_path: Path) -> None:
    """Nor into that of another folder; in a session with an executor of the host's, a turn may do without it."""
    (tmp_path / "other").mkdir()
    other = BubblewrapToolExecutor(SandboxPolicy(tmp_path / "other"))
    with (
        ScriptedModel([Call("own", {"number": 3}), "done"]) as model,
        opened(tool_executor=BubblewrapToolExecutor(SandboxPolicy(work))) as session,
    ):
        for executor, words in (
            (LocalToolExecutor(), "no turn is let out of it"),
            (other, "is not the sandbox's"),
            (object(), "no execute"),
        ):
            with pytest.raises(ConfigError) as caught:
                run_turn(model, "m", session, "go", tool_executor=executor)
            assert words in f"{caught.value.message} {caught.value.hint}"
        assert not session.is_busy
        session.close()
        elsewhere = Elsewhere()
        tool = Tool("own", "d", own_tool)
        with opened(tool, tool_executor=elsewhere, durable=False) as unfenced:
            run_turn(model, "m", unfenced, "go", tool_executor=LocalToolExecutor())
    assert "own 3" == model.requests[-1].messages[-1].tool_results[0].content
    assert [] == elsewhere.calls


def own_tool(number: int) -> str:
    """Say which."""
    return f"own {number}"
