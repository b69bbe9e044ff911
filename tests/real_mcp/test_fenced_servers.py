"""The servers that people run, behind a fence: they work in the workspace and reach nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plait import BubblewrapToolExecutor, SandboxPolicy, init_session, run_turn
from plait.core.messages import ToolResult
from plait.testing import Call, ScriptedModel
from plait.tools import definitions
from plait.tools.spec import schema_entry

pytestmark = pytest.mark.real_mcp
SPEC = {
    "model": "m",
    "endpoint": "http://127.0.0.1:9",
    "tool_specs": [schema_entry(definitions.READ_FILE.tool(lambda: None))],
}
ENTITY = {"name": "plait", "entityType": "program", "observations": ["woven"]}


class Ground:
    """A workspace that is a repository, and beside it what nobody inside may see or change."""

    def __init__(self, folder: Path) -> None:
        self.work, self.outside = folder / "work", folder / "outside"
        for place in (self.work, self.outside):
            subprocess.run(["git", "init", "-q", str(place)], check=True, timeout=60)
            (place / "a.txt").write_text(f"in {place.name}\n")


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    return Ground(tmp_path)


def played(ground: Ground, server: dict[str, Any], calls: list[Call], shown: tuple[str, ...]) -> tuple[Any, list[str]]:
    """Have a model make calls of one server behind the fence; return the results, and what was told of the server."""
    told: list[str] = []

    def tell(name: str, event: Any) -> None:
        if name == "mcp_server":
            told.append(f"{event.state}: {event.text}")

    executor = BubblewrapToolExecutor(SandboxPolicy(ground.work, read_only_paths=shown))
    server = {"timeout": 60, "startup_timeout": 60, **server}
    options: dict[str, Any] = {"tool_executor": executor, "mcp_servers": [server], "strict_cache_proof": False}
    with (
        ScriptedModel([*calls, "done"]) as model,
        init_session(SPEC, on_event=tell, durable=False, **options) as session,
    ):
        assert "completed" == run_turn(model, "m", session, "go").status
    results: list[ToolResult] = [each for message in model.requests[-1].messages for each in message.tool_results]
    return results, told


SERVERS = ("everything", "filesystem", "memory", "git", "time")


def case(name: str, ground: Ground) -> tuple[dict[str, Any], list[Call], list[str], list[Call]]:
    """Return a server's arguments and variables, calls that have to work with words of their answers, and calls that
    must come to nothing."""
    work, outside = str(ground.work), str(ground.outside)
    prefix = f"mcp__{name}__"
    if name == "everything":
        return {}, [Call(f"{prefix}echo", {"message": "hi"}), Call(f"{prefix}get-env", {})], ["hi", "/tmp/home"], []
    if name == "filesystem":
        # It is told that it may go anywhere; the fence is what says no.
        inside = [
            Call(f"{prefix}read_text_file", {"path": f"{work}/a.txt"}),
            Call(f"{prefix}write_file", {"path": f"{work}/b.txt", "content": "new"}),
        ]
        beyond = [
            Call(f"{prefix}read_text_file", {"path": f"{outside}/a.txt"}),
            Call(f"{prefix}write_file", {"path": f"{outside}/evil", "content": "x"}),
            Call(f"{prefix}write_file", {"path": "/etc/plait-evil", "content": "x"}),
            Call(f"{prefix}write_file", {"path": f"{work}/.git/hooks/post-commit", "content": "x"}),
            Call(f"{prefix}read_text_file", {"path": "/etc/shadow"}),
        ]
        return {"args": ["/"]}, inside, ["in work", "wrote"], beyond
    if name == "memory":
        inside = [Call(f"{prefix}create_entities", {"entities": [ENTITY]}), Call(f"{prefix}read_graph", {})]
        return {"env": {"MEMORY_FILE_PATH": f"{work}/memory.json"}}, inside, ["woven", "woven"], []
    if name == "git":
        inside = [
            Call(f"{prefix}git_add", {"repo_path": work, "files": ["a.txt"]}),
            Call(f"{prefix}git_status", {"repo_path": work}),
        ]
        return {}, inside, ["staged", "a.txt"], [Call(f"{prefix}git_status", {"repo_path": outside})]
    return {"args": ["--local-timezone", "UTC"]}, [Call(f"{prefix}get_current_time", {"timezone": "UTC"})], ["UTC"], []


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_works_inside_and_reaches_nothing_else(name: str, programs: dict[str, str], ground: Ground) -> None:
    """What it is for goes on as ever; what lies outside it does not see, and what is obeyed it cannot change."""
    server = {"name": name, "command": programs[f"mcp-server-{name}"]}
    more, inside, words, beyond = case(name, ground)

    blind, told = played(ground, server, [], ())
    assert [] == blind
    assert "is not visible in the sandbox; add to the sandbox's read_only_paths: '" in told[0]
    shown = told[0].rpartition("read_only_paths: '")[2].rstrip("'")

    results, told = played(ground, {**server, **more}, [*inside, *beyond], (shown,))
    assert told[0].startswith("ready: "), told
    for result, word in zip(results, words, strict=False):
        assert ("ok", True) == (result.status, word in result.content), result.content
    for result in results[len(inside) :]:
        assert "in outside" not in result.content
        assert "root:" not in result.content
        assert result.is_error, result.content
    assert "sk-secret" not in str(results)
    assert {".git", "a.txt"} == {path.name for path in ground.outside.iterdir()}
    assert not Path("/etc/plait-evil").exists()
    assert not (ground.work / ".git/hooks/post-commit").exists()
    if name == "filesystem":
        assert "new" == (ground.work / "b.txt").read_text()


def test_a_memory_outside_the_fence_cannot_be_kept(programs: dict[str, str], ground: Ground) -> None:
    """Its call is an error, and nothing is written."""
    server = {
        "name": "memory",
        "command": programs["mcp-server-memory"],
        "env": {"MEMORY_FILE_PATH": str(ground.outside / "memory.json")},
    }
    shown = (str(Path(programs["mcp-server-memory"]).parents[1]),)
    results, _ = played(ground, server, [Call("mcp__memory__create_entities", {"entities": [ENTITY]})], shown)
    assert results[0].is_error
    assert not (ground.outside / "memory.json").exists()
