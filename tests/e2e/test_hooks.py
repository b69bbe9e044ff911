"""Hook files of other programs, unmodified, in runs of the installed command."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from plait.testing import Call, Say, ScriptServer
from tests.e2e.command import end_of, is_alive, plait, start, wait_until

GUARD = """#!/bin/sh
input=$(cat)
case $input in *'"tool_name":"Bash"'*) ;; *) exit 1 ;; esac
case $input in *'rm -rf'*) echo 'Destructive commands are blocked' >&2; exit 2 ;; esac
"""
FORMAT = r"""#!/bin/sh
file=$(sed -n 's/.*"file_path":"\([^"]*\)".*/\1/p')
echo "formatted" >> "$CLAUDE_PROJECT_DIR/$file"
"""
CLAUDE = {
    "permissions": {"allow": ["Bash(npm run lint)"], "deny": ["Read(./.env)"]},
    "env": {"FOO": "bar"},
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [{"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh'}],
            }
        ],
        "PostToolUse": [
            {
                "matcher": "Edit|MultiEdit|Write",
                "hooks": [{"type": "command", "command": "$CLAUDE_PROJECT_DIR/.claude/hooks/format.sh", "timeout": 30}],
            }
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo 'Current branch: main'"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "test -f a.txt || { echo 'write a.txt' >&2; exit 2; }"}]}],
    },
}
CODEX = {
    "hooks": {
        "SessionStart": [
            {
                "matcher": "startup|resume",
                "hooks": [{"type": "command", "command": "echo conventions: tabs", "statusMessage": "Loading notes"}],
            }
        ],
        "PreToolUse": [
            {
                "matcher": "^Bash$",
                "hooks": [
                    {
                        "type": "command",
                        "command": "sh pre.sh",
                        "timeout": 30,
                        "statusMessage": "Checking Bash command",
                    }
                ],
            }
        ],
        "PermissionRequest": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "sh permit.sh"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "sh stop.sh", "timeout": 30}]}],
    }
}
PRE = """
input=$(cat)
for name in session_id turn_id cwd model permission_mode tool_use_id; do
  case $input in *\\"$name\\":*) ;; *) echo "no $name" >&2; exit 2 ;; esac
done
case $input in *secret*) printf '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
  "permissionDecisionReason": "no secrets"}}' ;; esac
"""
PERMIT = """
printf '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}'
"""
STOP = """
case $(cat) in *'"stop_hook_active":true'*) echo '{}' ;;
  *) echo '{"decision": "block", "reason": "Run one more pass"}' ;; esac
"""


def shell(command: str) -> Say:
    """Return an answer that runs a command."""
    return Say(calls=[Call("exec_shell", {"command": command})])


def test_a_settings_file_of_claude_code(tmp_path: Path) -> None:
    """Guards block, formatters find their files, prompts get context, a stop is put off: by the file as it stands."""
    hooks = tmp_path / ".claude/hooks"
    hooks.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    for name, text in (("guard.sh", GUARD), ("format.sh", FORMAT)):
        (hooks / name).write_text(text)
        (hooks / name).chmod(0o755)
    (tmp_path / ".claude/settings.json").write_text(json.dumps(CLAUDE))
    write = Say(calls=[Call("write_file", {"path": "a.txt", "content": "hello\n"})])

    with ScriptServer([shell("rm -rf /"), "All done.", write, shell("cat a.txt"), "Really."]) as server:
        options = ("--endpoint", server.url, "-m", "any", "--yes", "--hooks", ".claude/settings.json")
        ran = plait("run", "go", *options, "--json", cwd=tmp_path)

    assert (0, "Really.") == (ran.code, ran.json["reply"]), ran.err
    sent = [request.messages for request in server.requests]
    assert "go\n\nCurrent branch: main" == sent[0][-1]["content"]
    assert "ERROR: tool call denied by hook: Destructive commands are blocked" == sent[1][-1]["content"]
    assert "write a.txt" == sent[2][-1]["content"]
    assert "hello\nformatted" == sent[4][-1]["content"].strip()


def test_a_hooks_file_of_codex(tmp_path: Path) -> None:
    """Its notes stand in the prompt, its guard denies, its permission spares the question, its stop wants more once."""
    for name, text in (("pre.sh", PRE), ("permit.sh", PERMIT), ("stop.sh", STOP)):
        (tmp_path / name).write_text(text)
    (tmp_path / "hooks.json").write_text(json.dumps(CODEX))

    with ScriptServer([shell("cat secret"), shell("echo ran"), "Done.", "Better."]) as server:
        options = ("--endpoint", server.url, "-m", "any", "--hooks", "hooks.json")
        ran = plait("run", "go", *options, cwd=tmp_path)

    assert (0, "Better.\n") == (ran.code, ran.out), ran.err
    assert {"hook: Loading notes", "hook: Checking Bash command"} <= {line.strip() for line in ran.err.splitlines()}
    sent = [request.messages for request in server.requests]
    assert sent[0][0]["content"].endswith("\n\nconventions: tabs")
    assert "ERROR: tool call denied by hook: no secrets" == sent[1][-1]["content"]
    assert "ran" == sent[2][-1]["content"].strip()
    assert "Run one more pass" == sent[3][-1]["content"]


@pytest.mark.parametrize("option", ["--hooks", "--no-hooks", ""])
def test_a_clone_with_hooks_of_its_own_runs_none(option: str, tmp_path: Path) -> None:
    """A repository's own hooks are skipped and said so in one line; the user's own run unless they are switched off."""
    (tmp_path / ".git").mkdir()
    for folder, text in (
        (tmp_path / ".plait/hooks", "touch stolen"),
        (Path.home() / ".config/plait/hooks", "touch own"),
    ):
        folder.mkdir(parents=True)
        (folder / "session-start.sh").write_text(f"#!/bin/sh\n{text}\n")
        (folder / "session-start.sh").chmod(0o755)

    with ScriptServer(["Fine."], allow_unused=True) as server:
        options = {"--hooks": ["--hooks", "missing.json"], "": []}.get(option, [option])
        ran = plait("run", "go", "--endpoint", server.url, "-m", "any", *options, cwd=tmp_path)

    made = {name for name in ("stolen", "own") if (tmp_path / name).exists()}
    told = [line for line in ran.err.splitlines() if "not trusted" in line]
    if option == "--hooks":
        assert (2, set(), True) == (ran.code, made, "there are no hooks at 'missing.json'" in ran.err)
    else:
        assert (0, set() if option else {"own"}, 0 if option else 1) == (ran.code, made, len(told))


def test_a_prompt_that_a_hook_rejects(tmp_path: Path) -> None:
    """Nothing is sent, the reason is a complaint and no answer, and the run has not done what it was asked for."""
    reject = {"UserPromptSubmit": [{"hooks": [{"command": "echo 'no deploys on fridays' >&2; exit 2"}]}]}
    (tmp_path / "hooks.json").write_text(json.dumps(reject))

    with ScriptServer([], allow_unused=True) as server:
        ran = plait(
            "run", "deploy", "--endpoint", server.url, "-m", "any", "--hooks", "hooks.json", "--json", cwd=tmp_path
        )

    assert (1, None, 0) == (ran.code, ran.json["reply"], len(server.requests))
    assert "Prompt rejected by hook: no deploys on fridays" == ran.json["error"]["message"]


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_a_signal_ends_a_hook_that_a_run_waits_for(event: str, tmp_path: Path) -> None:
    """Before the first request as well: the hook dies with all it started, and nothing is sent."""
    hook = {event: [{"hooks": [{"command": "sleep 300 & echo $! > pid; wait"}]}]}
    (tmp_path / "hooks.json").write_text(json.dumps(hook))

    with ScriptServer([], allow_unused=True) as server:
        process = start("run", "x", "--endpoint", server.url, "-m", "any", "--hooks", "hooks.json", cwd=tmp_path)
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "the hook")
        process.send_signal(signal.SIGINT)
        ran = end_of(process)

    assert (130, 0) == (ran.code, len(server.requests)), ran.err
    assert not is_alive(int((tmp_path / "pid").read_text()))
