"""E25: the executor behind a fence, whose refusals are results; and the one that is as good as none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.hands.fence.policy import SandboxPolicy
from plait.tools.executor import LocalToolExecutor, ToolExecutor
from plait.tools.fenced_executor import BubblewrapToolExecutor
from plait.tools.library import default_tool_spec

LEVEL = "bubblewrap+seccomp+landlock"
TABLE = default_tool_spec()[1]


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BubblewrapToolExecutor]:
    """Return an executor over a workspace that has a link out of it and a part that may only be read."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("HARMLESS", "of the host")
    workspace = tmp_path / "workspace"
    (workspace / "vendor").mkdir(parents=True)
    (workspace / "vendor/lib").write_text("read me")
    (tmp_path / "outside").write_text("outside")
    (workspace / "link").symlink_to(tmp_path / "outside")
    policy = SandboxPolicy(workspace, read_only_paths=("vendor",), timeout_seconds=10, environment={"MINE": "1"})
    executor = BubblewrapToolExecutor(policy)
    yield executor
    executor.close()


def done(executor: ToolExecutor, name: str, **arguments: object) -> tuple[str, dict[str, Any]]:
    """Have a call of a default tool executed."""
    entry: Any = TABLE.get(name, {"python_function": print, "param_map": {}})
    return executor.execute(name, arguments, entry, session={"session_id": "s"})


def test_files_inside_are_read_written_and_edited(executor: BubblewrapToolExecutor) -> None:
    """Paths are relative, or as the shell sees them."""
    wrote = done(executor, "write_file", path="a/b.txt", content="one two one")
    edited = done(executor, "str_replace", path="/workspace/a/b.txt", old_str="one", new_str="1")

    assert (True, LEVEL) == (wrote[1]["ok"], wrote[1]["sandbox"])
    assert True is edited[1]["ok"]
    assert "1 two one" == done(executor, "read_file", path="a/b.txt")[0]


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "link", "~/x", "", 7, None])
def test_what_leads_out_is_refused_as_a_result(path: object, executor: BubblewrapToolExecutor) -> None:
    """An absolute path, one that climbs out and a link out are answers, not exceptions."""
    for name, more in (("read_file", {}), ("write_file", {"content": "x"})):
        text, data = done(executor, name, path=path, **more)
        assert ("ERROR: ", False) == (text[:7], data["ok"])

    assert "outside" == Path(executor.policy.root, "../outside").read_text()


@pytest.mark.parametrize("path", ["vendor/lib", ".plait/hooks.json", ".mcp.json", ".git/hooks/x", "plait.toml"])
def test_file_tools_keep_what_the_shell_cannot_change(path: str, executor: BubblewrapToolExecutor) -> None:
    """The read-only and protected paths are the same for both; what exists of them can be read."""
    wrote, data = done(executor, "write_file", path=path, content="x")

    assert ("ERROR: ", "FORBIDDEN") == (wrote[:7], data["code"])
    assert "read me" == done(executor, "read_file", path="vendor/lib")[0]
    assert not Path(executor.policy.root, path).exists() or path == "vendor/lib"


def test_the_shell_is_inside(executor: BubblewrapToolExecutor) -> None:
    """It sees /workspace, no network, nothing of the host's environment, and what it wrote stays."""
    script = "pwd; cat vendor/lib; echo; env; cat /proc/net/dev | tail -n +3 | cut -d: -f1; echo x > made; echo no >&2"

    text, data = done(executor, "exec_shell", command=f"{script}; touch vendor/x")

    told = json.loads(text)
    lines = told["stdout"].split("\n")
    assert (["/workspace", "read me"], 1) == (lines[:2], told["returncode"])
    assert "MINE=1" in lines
    assert ["lo"] == [line.strip() for line in lines if line.startswith((" ", "eth", "lo"))]
    assert "canary" not in text
    assert "HARMLESS" not in text
    assert "no\n" in told["stderr"]
    assert "Read-only" in told["stderr"]
    assert (LEVEL, 1) == (data["sandbox"], data["exit_code"])
    assert "x\n" == Path(executor.policy.root, "made").read_text()


def test_time_is_the_policys_at_most(executor: BubblewrapToolExecutor) -> None:
    """A call may ask for less; then its text has an error in the place of a return code."""
    text, data = done(executor, "exec_shell", command="echo begun; sleep 30", timeout_s=0.3)

    assert {"stdout": "begun\n", "stderr": "", "error": "timed out after 0.3 s"} == json.loads(text)
    assert False is data["ok"]
    assert "no time limit" in done(executor, "exec_shell", command="true", timeout_s=-1)[0]


def test_any_other_tool_is_refused_as_a_result(executor: BubblewrapToolExecutor) -> None:
    """Nothing falls back to this process."""
    text, data = done(executor, "weather")

    assert ("FORBIDDEN", True) == (data["code"], "cannot run in the sandbox" in text)


def test_without_bubblewrap_there_is_no_executor(tmp_path: Path) -> None:
    """The construction fails, so that nobody believes to be inside."""
    with pytest.raises(RuntimeError, match=r"not installed.*doctor sandbox"):
        BubblewrapToolExecutor(SandboxPolicy(tmp_path), binary="no-such-bwrap")


def test_the_local_executor_dispatches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls the function behind the entry, the library's by name."""
    monkeypatch.chdir(tmp_path)
    local = LocalToolExecutor()
    assert isinstance(local, ToolExecutor)

    done(local, "write_file", path="a", content="text")

    assert "text" == done(local, "read_file", path="a")[0]
    entry = {"python_function": lambda n: n + 1, "param_map": {"number": "n"}}
    assert "3" == local.execute("next", {"number": 2}, entry, session={})[0]


def test_what_programs_outside_obey_is_noted(executor: BubblewrapToolExecutor) -> None:
    """The contract's own executor puts it aside as a session does, and its text has a note."""
    texts = [json.loads(done(executor, "exec_shell", command="touch .envrc")[0]) for _ in range(2)]
    workspace = Path(executor.policy.root)
    assert [".envrc.set-aside", ".envrc.set-aside-2"] == sorted(path.name for path in workspace.glob(".envrc*"))
    assert all("[set aside: .envrc is now .envrc.set-aside" in text["note"] for text in texts)
