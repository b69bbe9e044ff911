"""`plait mcp` driven by the official client: one server for all that leaves it alive."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.hands.process_tree import MARK, Tree
from plait.tools.portal import Portal
from tests.e2e.command import plait
from tests.helpers.warm import Warm, run_warm

HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
COMMAND = [sys.executable, "-m", "plait", "mcp"]


class Host:
    """The official client, on a loop of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        from mcp import Client, StdioServerParameters

        self.portal = Portal()
        arguments = ["-m", "plait", "mcp", "--workspace", str(folder), *options]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        self._client: Any = Client(server, read_timeout_seconds=60)
        self._leave = asyncio.Event()
        self.keeper: Any = None

    def __enter__(self) -> Host:
        self.portal.submit(self._open()).result(60)
        return self

    async def _open(self) -> None:
        entered, self._leave = asyncio.Event(), asyncio.Event()

        async def keep() -> None:
            async with self._client:
                entered.set()
                await self._leave.wait()

        self.keeper = asyncio.ensure_future(keep())
        await asyncio.wait({self.keeper, asyncio.ensure_future(entered.wait())}, return_when=asyncio.FIRST_COMPLETED)

    def __exit__(self, *_: object) -> None:
        async def leave() -> None:
            self._leave.set()
            await self.keeper

        self.portal.submit(leave()).result(30)
        self.portal.close()

    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self.portal.submit(self._client.list_tools()).result(60).tools}

    def begin(self, name: str, **arguments: Any) -> Any:
        return self.portal.submit(self._client.call_tool(name, arguments))

    def call(self, name: str, **arguments: Any) -> tuple[str, bool]:
        result = self.begin(name, **arguments).result(60)
        return "".join(block.text for block in result.content), result.is_error


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, for a minute at most."""
    ends_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


@pytest.fixture(scope="module")
def host(folder: Path) -> Iterator[Host]:
    """A host whose server may do everything."""
    with Host(folder, "--yes") as host:
        yield host


def test_a_host_reads_and_writes(host: Host, folder: Path) -> None:
    """The tools have their schemas and hints; what one refuses is an error result with its advice."""
    tools = host.tools()
    assert {"read_file", "write_file", "str_replace", "list_dir", "glob", "search_files", "exec_shell"} <= set(tools)
    assert "path" in tools["read_file"].input_schema["properties"]
    assert (True, False) == (
        tools["read_file"].annotations.read_only_hint,
        tools["exec_shell"].annotations.read_only_hint,
    )
    text, is_error = host.call("read_file", path="a.txt")
    assert not is_error
    assert "one" in text
    assert not host.call("write_file", path="b.txt", content="new")[1]
    assert "new" == (folder / "b.txt").read_text()
    for path in ("/etc/passwd", "../x", "nowhere.txt"):
        text, is_error = host.call("read_file", path=path)
        assert is_error
        assert text.startswith("ERROR: ")
    text, is_error = host.call("read_file", wrong=1)
    assert is_error
    assert "Invalid arguments for 'read_file'" in text


def test_a_command_has_no_part_in_the_protocol(host: Host) -> None:
    """One that reads standard input finds it empty; what it writes is its result."""
    text, is_error = host.call("exec_shell", command="cat; echo done; echo oh >&2")
    assert ("done\noh", False) == (text.strip(), is_error)


def test_a_cancelled_call_stops_its_command(host: Host, folder: Path) -> None:
    """The host gives it up: the process is gone, and the next call is answered."""
    call = host.begin("exec_shell", command=f"echo $$ >{folder}/new && mv {folder}/new {folder}/pid; exec sleep 1000")
    until((folder / "pid").exists)
    pid = (folder / "pid").read_text().strip()
    call.cancel()
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert "over" in host.call("exec_shell", command="echo over")[0]


def test_calls_that_read_run_side_by_side(host: Host) -> None:
    """Twenty at once are answered, each with its own."""
    calls = [host.begin("read_file", path="a.txt", offset=1 + number % 2, limit=1) for number in range(20)]
    texts = [call.result(60).content[0].text for call in calls]
    assert ["one" in text for text in texts] == [number % 2 == 0 for number in range(20)]


def test_only_what_reads_is_offered_unasked(tmp_path: Path) -> None:
    """Without a yes nothing that changes anything; naming a tool is a yes to it; garbage costs an error and no more."""
    lines = [
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":"' + b"a" * (9 << 20) + b'"}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}',
    ]
    first = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}).encode()
    begun = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    done = run_warm(
        [*COMMAND, "--workspace", str(tmp_path)],
        input=b"\n".join([first, begun, *lines, b""]),
        capture_output=True,
        timeout=60,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert 0 == done.returncode
    assert [-32700, -32700, -32700, -32600] == [answer["error"]["code"] for answer in answers if "error" in answer]
    assert 1 == next(answer["id"] for answer in answers if answer.get("error", {}).get("code") == -32600)
    (listed,) = [answer["result"] for answer in answers if answer.get("id") == 7]
    assert ["read_file", "list_dir", "glob", "search_files", "file_info"] == [tool["name"] for tool in listed["tools"]]


def test_a_signal_ends_it_with_all_it_started(tmp_path: Path) -> None:
    """TERM and Ctrl-C end the server in the middle of a call; its command goes too, and the exit code says which."""
    mark = f"t{os.getpid()}x{time.monotonic_ns()}"
    call = {"name": "exec_shell", "arguments": {"command": "touch begun; sleep 1000"}}
    messages = [
        {"id": 0, "method": "initialize", "params": HANDSHAKE},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    ]
    with Warm(
        [*COMMAND, "--workspace", str(tmp_path), "--tools", "exec_shell"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: mark},
    ) as server:
        assert server.stdin is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()
        until((tmp_path / "begun").exists)
        server.send_signal(signal.SIGINT)
        assert 130 == server.wait(30)
    assert [] == Tree(0, mark).members()


def test_wrong_options_end_before_anything_is_served(tmp_path: Path) -> None:
    """A tool that does not exist is named with those that do, on standard error, with exit code 2."""
    done = run_warm([*COMMAND, "--tools", "fly"], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert (2, "") == (done.returncode, done.stdout)
    assert "there is no tool 'fly'" in done.stderr
    assert "read_file" in done.stderr
    gone = plait("mcp", "--workspace", "nowhere", cwd=tmp_path)
    assert (2, "") == (gone.code, gone.out)
    assert "nowhere" in gone.err


NOISY = """
import asyncio, os, subprocess
from plait import Tool
from plait.serve.mcp_server import ToolServer
from plait.serve.mcp_streams import Pipe

def noisy() -> str:
    print("a word of python")
    os.write(1, b"bytes\\n")
    subprocess.run(["sh", "-c", "echo a word of a child; cat"], check=True)
    return "quiet"

with Pipe() as pipe:
    asyncio.run(ToolServer([Tool("noisy", "Make noise.", noisy)]).serve(pipe))
print("after it")
"""


def test_nothing_but_messages_is_on_its_output(tmp_path: Path) -> None:
    """What a tool prints, writes to the descriptor and has a child write goes to standard error."""
    messages = [
        {"id": 0, "method": "initialize", "params": HANDSHAKE},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": {"name": "noisy", "arguments": {}}},
    ]
    with Warm(
        [sys.executable, "-c", NOISY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        rest, errors = server.communicate(timeout=60)
    assert [0, 1] == [answer["id"] for answer in answers]
    assert "quiet" == answers[1]["result"]["content"][0]["text"]
    assert b"after it\n" == rest
    for words in (b"a word of python", b"bytes", b"a word of a child"):
        assert words in errors
