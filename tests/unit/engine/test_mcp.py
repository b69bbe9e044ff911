"""MCP servers of agents: `Agent(mcp_servers=…)`, in both colours, and the kernel face's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plait.core.errors import MCPError
from plait.core.events import Event, Notice
from plait.engine.agent import Agent
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import ToolRegistry, build_runtime
from plait.kernel.tools import Tool
from plait.testing import Call, ScriptedModel
from plait.tools.mcp.face import register_mcp_servers
from tests.helpers.mcp_server import table


def test_an_agent_calls_its_servers_from_any_loop(tmp_path: Path) -> None:
    """One server for all its runs, sync ones and async ones on loops that come and go; calls run beside each other."""
    told: list[Event] = []
    calls = [Call("mcp__fake__echo", {"text": str(number), "delay_s": 0.1}) for number in range(4)]
    with ScriptedModel([calls, "sync", calls, "async", "again"]) as model:
        agent = Agent(model, mcp_servers=[table("fake")], on_event=told.append)
        first = agent.run("go")
        second = asyncio.run(agent.arun("go"))
        third = asyncio.run(agent.arun("go"))

    assert ["sync", "async", "again"] == [first.text, second.text, third.text]
    for result in (first, second):
        results = next(message.tool_results for message in result.messages if message.tool_results)
        assert ["0", "1", "2", "3"] == [each.content for each in results]
    notices = [event.data["state"] for event in told if isinstance(event, Notice) and event.type == "mcp_server"]
    assert ["ready"] == notices


def test_an_interrupted_call_stops_at_the_server() -> None:
    """A cancelled run tells the server; the next run finds it alive."""

    async def run() -> str:
        with ScriptedModel([Call("mcp__fake__echo", {"delay_s": 30}), Call("mcp__fake__told", {}), "end"]) as model:
            agent = Agent(model, mcp_servers=[table("fake")])
            task = asyncio.create_task(agent.arun("go"))
            while len(model.requests) < 1:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            result = await agent.arun("and now?")
            return next(message.tool_results[0].content for message in result.messages if message.tool_results)

    assert asyncio.run(run()) != "[]"


def test_the_kernel_face_has_their_own_names(tmp_path: Path) -> None:
    """Bare where nobody else has them, in full where a built-in or another server does; the caller closes them."""
    one, two = table("one", "tools=read_file,only"), table("two")
    config = Config(
        model="m", working_dir=str(tmp_path), mcp_log_dir=str(tmp_path / "logs"), approval_policy="auto_allow"
    )
    calls = [Call("only", {}), Call("mcp__one__echo", {"text": "x"}), Call("read_file", {"path": "a.txt"})]
    (tmp_path / "a.txt").write_text("ours")
    with ScriptedModel([*calls, "done"]) as model:
        agent, _, clients = build_runtime(config, model=model, mcp_servers=[one, two])
        names = {tool.name for tool in agent.tools}
        assert {"only", "mcp__one__read_file", "mcp__one__echo", "mcp__two__echo", "read_file"} <= names
        assert "echo" not in names
        result = agent.run("go")
        for client in clients:
            client.close()
    contents = [message.tool_results[0].content for message in result.messages if message.tool_results]
    assert "x" == contents[1]
    assert "ours" in contents[2]
    assert {"one.log", "two.log"} == {path.name for path in (tmp_path / "logs").iterdir()}


def test_a_registry_takes_all_servers_or_none(tmp_path: Path) -> None:
    """The good one is ended when the bad one cannot be begun; what was registered before stays."""
    registry = ToolRegistry()
    registry.register(Tool("echo", "ours", lambda: "ours"))
    mark = tmp_path.name
    with pytest.raises(MCPError, match="'bad'"):
        register_mcp_servers(
            registry, [table("good", env={"PLAIT_TEST": mark}), {"name": "bad", "command": "/nowhere"}]
        )
    assert ["echo"] == [tool.name for tool in registry.specs()]

    (server,) = register_mcp_servers(registry, [table("good")], tmp_path)
    try:
        assert "fake" == server.server_info["name"]
        assert {"echo", "mcp__good__echo", "boom", "note"} <= {tool.name for tool in registry.specs()}
        assert registry.spec("note") is not None
    finally:
        server.close()
