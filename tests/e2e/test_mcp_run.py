"""`plait run` and `plait resume` with MCP servers: where they are declared, what is told, what a crash leaves."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from plait.hands.process_tree import Tree
from plait.testing import Call, ScriptServer
from tests.e2e.command import REPOSITORY, environment, plait, start
from tests.helpers.mcp_server import command
from tests.helpers.warm import run_warm


def declaration(path: Path, name: str) -> Path:
    """Write a file with one server, of the shape of `.mcp.json`."""
    first, *rest = command()
    path.write_text(json.dumps({"mcpServers": {name: {"command": first, "args": rest}}}))
    return path


def test_the_users_servers_and_those_of_a_file_are_there_and_the_repositorys_are_not(tmp_path: Path) -> None:
    """One line each; what only reads is called unasked, what changes something is denied where nobody can be asked."""
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".config" / "plait").mkdir(parents=True)
    work.mkdir()
    first, *rest = command("chatty")
    table = f"[[mcp_servers]]\nname = 'mine'\ncommand = {first!r}\nargs = {rest!r}\n"
    (home / ".config" / "plait" / "plait.toml").write_text(table)
    declaration(work / ".mcp.json", "theirs")
    file = declaration(tmp_path / "more.json", "more")
    calls = [Call("mcp__mine__echo", {"text": "hello"}), Call("mcp__more__note", {"path": str(work / "note")})]
    with ScriptServer([*calls, "Done."]) as server:
        env = environment(XDG_CONFIG_HOME=str(home / ".config"), PLAIT_HOME=str(home / "state"))
        asked = ("x", "--endpoint", server.url, "-m", "any", "--mcp-config", str(file))
        ran = plait("run", *asked, cwd=work, env=env)

    assert (1, "Done.\n") == (ran.code, ran.out)
    assert "the MCP server 'mine' is connected: 14 tools" in ran.err
    assert "the MCP server 'more' is connected: 14 tools" in ran.err
    assert f"{work / '.mcp.json'}' are not started: the repository is not trusted" in ran.err
    tools = [tool["function"]["name"] for tool in server.requests[0].tools]
    assert {"read_file", "mcp__mine__echo", "mcp__more__echo"} <= set(tools)
    assert not any("theirs" in name for name in tools)
    assert "hello" in server.requests[1].text
    assert not (work / "note").exists()
    logs = home / "state" / "mcp-logs"
    assert "Server v1 started" in (logs / "mine.log").read_text()


def test_a_file_that_cannot_be_used_ends_with_2(tmp_path: Path) -> None:
    """Before anything is asked or started."""
    ran = plait("run", "x", "--endpoint", "http://127.0.0.1:9", "-m", "m", "--mcp-config", "no.json", cwd=tmp_path)
    assert (2, "") == (ran.code, ran.out)
    assert "cannot read 'no.json'" in ran.err


def test_a_call_that_a_crash_cut_off_is_unknown_and_not_sent_again(tmp_path: Path) -> None:
    """plait is killed in the middle of a server's call: the resume tells the model, and the server is not asked."""
    file, note = declaration(tmp_path / "servers.json", "fake"), tmp_path / "note"
    with ScriptServer([Call("mcp__fake__note", {"path": str(note), "then": "hang"}), "It may be done."]) as server:
        options = ("--endpoint", server.url, "-m", "any", "--mcp-config", str(file), "--yes")
        process = start("run", "x", *options, "--session", "cut", cwd=tmp_path)
        ends_s = time.monotonic() + 60
        while not note.exists() and time.monotonic() < ends_s:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        ran = plait("resume", "cut", "--mcp-config", str(file), "--yes", cwd=tmp_path)

    assert (0, "It may be done.\n") == (ran.code, ran.out)
    assert "noted\n" == note.read_text()
    assert "may have done all, part or nothing" in server.requests[1].text


PROGRAM = """
import json, sys
from plait import Agent
from plait.testing import Call, ScriptedModel
from tests.helpers.mcp_server import table

with ScriptedModel([Call("mcp__fake__environment", {}), "done"]) as model:
    agent = Agent(model, mcp_servers=[table("fake", "spawns")])
    result = agent.run("go")
seen = next(message.tool_results[0].content for message in result.messages if message.tool_results)
print(json.loads(seen)["PLAIT_TREE"].rpartition(":")[2])
"""


def test_a_program_that_ends_without_a_word_leaves_no_server(tmp_path: Path) -> None:
    """Nobody closed the agent: its server and what that started end with the interpreter."""
    ran = run_warm(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "") == (ran.returncode, ran.stderr)
    assert [] == Tree(0, ran.stdout.strip()).members()
