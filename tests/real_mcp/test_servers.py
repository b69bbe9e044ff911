"""plait's client with the servers that people run, of both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait import Agent, mcp_tools
from plait.core.messages import ToolResult
from plait.hands.process_tree import Tree
from plait.testing import Call, ScriptedModel
from plait.tools.mcp.face import MCPTools

pytestmark = pytest.mark.real_mcp


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with one file."""
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=60)
    (folder / "a.txt").write_text("hello\n")
    return folder


@pytest.fixture(scope="module")
def declared(programs: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """Return the declaration of each server."""
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
    return [
        {"name": "everything", "command": programs["mcp-server-everything"]},
        {"name": "filesystem", "command": programs["mcp-server-filesystem"], "args": [str(folder)]},
        {"name": "memory", "command": programs["mcp-server-memory"], "env": memory},
        {"name": "git", "command": programs["mcp-server-git"], "args": ["--repository", str(folder)]},
        {"name": "time", "command": programs["mcp-server-time"], "args": ["--local-timezone", "UTC"]},
    ]


@pytest.fixture(scope="module")
def tools(declared: list[dict[str, Any]]) -> Iterator[MCPTools]:
    """All five, over stdio."""
    with mcp_tools(declared) as tools:
        yield tools


def call(tools: MCPTools, name: str, /, **arguments: Any) -> ToolResult:
    tool = next(tool for tool in tools if tool.name == name)
    result = asyncio.run(tool.fn(**arguments))
    assert isinstance(result, ToolResult)
    return result


def test_both_generations_are_spoken(tools: MCPTools) -> None:
    """Each server's own is found out."""
    spoken = {server.config.name: server.protocol for server in tools._servers.servers}
    for name, protocol in spoken.items():
        print(name, protocol)
    assert {"everything", "filesystem", "memory", "git", "time"} == set(spoken)
    assert {"2025-11-25", "2026-07-28"} == set(spoken.values())
    assert len(tools) > 40


def test_their_tools_answer(tools: MCPTools, folder: Path) -> None:
    """Text, a picture, what is structured, links, embedded texts, errors; a file and a graph that change."""
    assert "Echo: hi" == call(tools, "mcp__everything__echo", message="hi").content
    picture = call(tools, "mcp__everything__get-tiny-image")
    assert 1 == len(picture.images)
    assert picture.images[0].data[:40] not in picture.content
    weather = call(tools, "mcp__everything__get-structured-content", location="Chicago")
    assert "temperature" in weather.content
    assert "[resource " in call(tools, "mcp__everything__get-resource-links", count=2).content
    assert (
        "plaintext" in call(tools, "mcp__everything__get-resource-reference", resourceType="Text", resourceId=1).content
    )
    assert "hello" in call(tools, "mcp__filesystem__read_text_file", path=str(folder / "a.txt")).content
    assert call(tools, "mcp__filesystem__read_text_file", path="/etc/passwd").is_error
    call(tools, "mcp__filesystem__write_file", path=str(folder / "b.txt"), content="new")
    assert "new" == (folder / "b.txt").read_text()
    entity = {"name": "plait", "entityType": "program", "observations": ["woven"]}
    call(tools, "mcp__memory__create_entities", entities=[entity])
    assert "woven" in call(tools, "mcp__memory__read_graph").content
    assert "a.txt" in call(tools, "mcp__git__git_status", repo_path=str(folder)).content
    assert "UTC" in call(tools, "mcp__time__get_current_time", timezone="UTC").content


def test_a_server_sees_nothing_that_was_not_named(programs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that it tells has no variable of ours but the usual few."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with mcp_tools([{"name": "everything", "command": programs["mcp-server-everything"]}]) as tools:
        seen = json.loads(call(tools, "mcp__everything__get-env").content)
    assert "OPENAI_API_KEY" not in seen
    assert "PATH" in seen


def test_one_that_is_killed_in_a_call_is_begun_again(programs: dict[str, str]) -> None:
    """The call is unknown within moments; the next one finds a new process; nothing is left at the end."""
    with mcp_tools([{"name": "everything", "command": programs["mcp-server-everything"]}]) as tools:
        long = next(tool for tool in tools if tool.name == "mcp__everything__trigger-long-running-operation")
        mark = json.loads(call(tools, "mcp__everything__get-env").content)["PLAIT_TREE"].rpartition(":")[2]

        async def killed() -> ToolResult:
            running = asyncio.ensure_future(long.fn(duration=60, steps=60))
            await asyncio.sleep(0.5)
            for process in Tree(0, mark).members():
                os.kill(process.pid, signal.SIGKILL)
            result = await asyncio.wait_for(running, 10)
            assert isinstance(result, ToolResult)
            return result

        assert "ended during the call" in asyncio.run(killed()).content
        assert "Echo: again" == call(tools, "mcp__everything__echo", message="again").content
        mark = json.loads(call(tools, "mcp__everything__get-env").content)["PLAIT_TREE"].rpartition(":")[2]
    assert [] == Tree(0, mark).members()


def test_an_agent_works_with_all_of_them(declared: list[dict[str, Any]], folder: Path) -> None:
    """Calls of several servers in one message, results in the order of the calls."""
    calls = [
        Call("mcp__everything__get-sum", {"a": 2, "b": 3}),
        Call("mcp__filesystem__list_directory", {"path": str(folder)}),
        Call("mcp__git__git_status", {"repo_path": str(folder)}),
        Call("mcp__time__get_current_time", {"timezone": "UTC"}),
    ]
    waiting = [{**declaration, "startup_timeout": 60} for declaration in declared]
    with ScriptedModel([calls, "done"]) as model:
        result = Agent(model, mcp_servers=waiting).run("go")
    answers = next(message.tool_results for message in result.messages if message.tool_results)
    for answer, words in zip(answers, ("5", "a.txt", "branch", "UTC"), strict=True):
        assert words in answer.content
        assert not answer.is_error


def test_one_over_http(programs: dict[str, str]) -> None:
    """The server of everything at an address: the same tools, and a picture."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    server = subprocess.Popen(
        [programs["mcp-server-everything"], "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ends_s = time.monotonic() + 60
        while time.monotonic() < ends_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        with mcp_tools([{"name": "everything", "url": f"http://127.0.0.1:{port}/mcp"}]) as tools:
            assert "Echo: hi" == call(tools, "mcp__everything__echo", message="hi").content
            assert 1 == len(call(tools, "mcp__everything__get-tiny-image").images)
    finally:
        server.kill()
        server.wait(30)
