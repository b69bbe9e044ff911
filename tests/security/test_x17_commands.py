"""X17: no line but the one that is allowed runs without a question, under any name and by any way a call can take."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from plait.cli.specs import built_in_spec
from plait.core.messages import ToolCall
from plait.engine.permissions.rule import rules_of
from plait.engine.permissions.ruling import Permissions
from plait.engine.permissions.subject import subject_of
from plait.engine.spec import default_specification
from plait.kernel.effects import Allow, Deny
from plait.kernel.tools import Tool
from plait.session.executing import execute_tool_call
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel
from plait.tools.background_specs import enable_nohup

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
LINES = [
    "git status; touch made",
    "git status && touch made",
    "git status || touch made",
    "git status | touch made",
    "git status & touch made",
    "git status\ntouch made",
    "git status $(touch made)",
    "git status `touch made`",
    'git status "$(touch made)"',
    "git status <(touch made)",
    "git status > made",
    "git status 2> made",
    "git status <<E\n$(touch made)\nE",
    "touch made #git status",
    "GIT_PAGER='touch made' git status",
    "PATH=. git status",
    "git -c core.pager='touch made' status",
    "git -c core.fsmonitor='touch made' status",
    "git --exec-path=. status",
    "git -C / status",
    "env git status",
    "env -S 'touch made' git status",
    "xargs touch made",
    "find . -maxdepth 0 -exec touch made ;",
    "sh -c 'touch made'",
    "bash -c 'git status; touch made'",
    "eval 'touch made'",
    "tar cf /dev/null . --checkpoint=1 --checkpoint-action=exec='touch made'",
    "ssh -o ProxyCommand='touch made' host",
    "alias git='touch made'; git status",
    "git() { touch made; }; git status",
    "echo dG91Y2ggbWFkZQ== | base64 -d | sh",
    "ｇit status",
    "gіt status",
    "git\u00a0status",
    "git status\u200b",
    "./git status",
    "$GIT status",
    "g*t status",
    "{git,status}",
    "git sta\\tus; touch made",
    "sudo git status",
    "command git status; touch made",
    "time git status; touch made",
    "! git status; touch made",
    "(git status; touch made)",
    "{ git status; touch made; }",
    "if git status; then touch made; fi",
    "git status -- $IFS",
]


def ruled(line: str, *, tool: str = "exec_shell", **rules: list[str]) -> str | None:
    """Return what rules say of a line."""
    permissions = Permissions(rules_of(rules, "test"), "/srv")
    call = ToolCall.of("c", tool, {"command": line})
    return permissions.judge(subject_of(call, Tool(tool, "", lambda: None), "/srv")).action


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_not_the_allowed_one(line: str) -> None:
    """A rule for `git status` covers it alone, and one for everything that git does covers no more than git."""
    assert "allow" == ruled("git status", allow=["Bash(git status)"])
    assert "allow" != ruled(line, allow=["Bash(git status)"])
    if "made" in line:
        assert "allow" != ruled(line, allow=["Bash(git status:*)", "Bash(git:*)"])


class Nobody:
    """An approver that says no, and counts."""

    asked = 0

    def approve(self, call: Any, tool: Any) -> Deny:
        """Say no."""
        self.asked += 1
        return Deny("no")


def test_none_of_them_runs_in_a_session_without_a_question(tmp_path: Path) -> None:
    """Each is put to the approver, and nothing was made where the answer is no."""
    nobody = Nobody()
    model = ScriptedModel([*(Say(calls=[Call("exec_shell", {"command": line})]) for line in LINES), "done"])
    with init_session(
        SPEC,
        workspace=tmp_path,
        approver=nobody,
        permissions={"allow": ["Bash(git status)", "Bash(git log:*)"]},
        durable=False,
    ) as session:
        run_turn(model, "m", session, "go").raise_for_status()
    assert (len(LINES), False) == (nobody.asked, (tmp_path / "made").exists())


class Yes:
    """An approver that says yes to everything."""

    def approve(self, call: ToolCall, tool: Any) -> Allow:
        """Say yes."""
        return Allow(call)


def test_a_denied_command_runs_by_no_other_way(tmp_path: Path) -> None:
    """Enforced where a call runs: every name of the shell, jobs, programs' own calls, tools that are loaded later."""
    ran: list[str] = []
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [
        Tool(name, "Says something.", lambda text: ran.append(text) or "ok", schema, deferred=name == "later")
        for name in ("mcp__server__say", "plugged", "later")
    ]
    spec = built_in_spec("m", "http://127.0.0.1:1/v1")
    enable_nohup(spec)
    touch = {"command": "touch made"}
    calls = [
        Call("exec_shell", touch),
        Call("bash", touch),
        Call("execute_shell_command", touch),
        Call("run_command", touch),
        Call("nohup", touch),
        Call("mcp__server__say", {"text": "mcp"}),
        Call("plugged", {"text": "plugin"}),
        Call("search_tools", {"query": "later"}),
        Call("later", {"text": "deferred"}),
    ]
    rules = {"deny": ["Bash(touch:*)", "mcp__server", "plugged", "later"]}
    model = ScriptedModel([*(Say(calls=[call]) for call in calls), "done"])
    with init_session(
        spec,
        workspace=tmp_path,
        approver=Yes(),
        tools=tools,
        tool_loading="grow",
        permissions=rules,
        durable=False,
    ) as session:
        run_turn(model, "m", session, "go").raise_for_status()
        told = [str(message["content"]) for message in session["messages"] if message["role"] == "tool"]
        own = [
            execute_tool_call(session, call.name, dict(cast("Any", call.arguments)))
            for call in calls
            if call.name != "search_tools"
        ]
    denied = [call.name for call, text in zip(calls, told, strict=True) if "Denied by the rule" in text]
    unknown = [call.name for call, text in zip(calls, told, strict=True) if "nknown tool" in text or "no tool" in text]
    assert {call.name for call in calls} - {"search_tools"} == {*denied, *unknown}
    assert {"exec_shell", "nohup", "mcp__server__say", "plugged", "later"} <= set(denied)
    assert not any("ok" == text for text in own)
    assert ([], False) == (ran, (tmp_path / "made").exists())


def test_what_is_to_be_asked_about_is_asked_whoever_calls(tmp_path: Path) -> None:
    """A program's own call has no approver to ask, so it does not run."""
    with init_session(
        SPEC, workspace=tmp_path, approver=Yes(), permissions={"ask": ["Bash(touch:*)"]}, durable=False
    ) as session:
        told = execute_tool_call(session, "exec_shell", {"command": "touch made"})
    assert ("nobody to ask" in told, False) == (True, (tmp_path / "made").exists())
