"""A host that offers plait's tools by itself: `default_tool_spec` and `dispatch` inside an MCP server of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import signal, threading

before = signal.getsignal(signal.SIGINT)
from plait import default_tool_spec, dispatch

schemas, table = default_tool_spec("read_file", "list_dir", "exec_shell")
assert signal.getsignal(signal.SIGINT) is before
assert threading.active_count() == 1

import asyncio
import mcp_types as types
from mcp import Client
from mcp.server import Server


async def list_tools(context, params):
    functions = [schema["function"] for schema in schemas]
    found = [types.Tool(name=f["name"], description=f["description"], input_schema=f["parameters"]) for f in functions]
    return types.ListToolsResult(tools=found)


async def call_tool(context, params):
    text, data = await asyncio.to_thread(dispatch, params.name, params.arguments or {}, table)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=data.get("ok") is False)


async def main():
    server = Server("host", on_list_tools=list_tools, on_call_tool=call_tool)
    async with Client(server) as client:
        told = [tool.name for tool in (await client.list_tools()).tools]
        assert told == ["read_file", "list_dir", "exec_shell"], told
        read = await client.call_tool("read_file", {"path": "a.txt"})
        assert "hello" in read.content[0].text, read
        shell = await client.call_tool("exec_shell", {"command": "cat; echo out; echo err >&2"})
        assert shell.content[0].text.split() == ["out", "err"], shell
        missing = await client.call_tool("read_file", {"path": "b.txt"})
        assert missing.is_error, missing


asyncio.run(main())
"""


def test_a_hosts_own_server_offers_plaits_tools(tmp_path: Path) -> None:
    """Importing starts nothing and changes no signal; a call prints nothing and reads none of the host's input."""
    (tmp_path / "a.txt").write_text("hello\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ},
        input="protocol bytes of the host\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
