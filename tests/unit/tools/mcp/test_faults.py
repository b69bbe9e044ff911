"""The known troubles with MCP servers, each with a server that makes it: group `mcp` of `tests/cases/faults.jsonl`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import MCPError
from plait.core.messages import Image, ToolResult
from plait.hands.process_tree import Tree
from plait.kernel.tools import Tool
from plait.tools.mcp.answers import Bounds
from plait.tools.mcp.config import servers_of
from plait.tools.mcp.face import MCPClient, MCPTools, mcp_tools
from plait.tools.mcp.servers import Servers, ServersOptions
from plait.tools.portal import Portal
from plait.tools.spill import Spill
from tests.helpers.mcp_server import PNG, command, table

CASES = Path(__file__).parents[3] / "cases" / "faults.jsonl"
SOON_S = 5.0
"""Generous for a busy machine; what would wait for a timeout waits 30 seconds and more."""


class Called:
    """Tools of one server, called as a sync host calls them."""

    def __init__(self, servers: Servers, portal: Portal) -> None:
        self.servers = servers
        self.portal = portal

    def tool(self, name: str) -> Tool:
        return next(tool for tool in self.servers.tools() if tool.name.endswith(f"__{name}"))

    def __call__(self, tool: str, /, **arguments: Any) -> ToolResult:
        result = self.begin(tool, **arguments).result(60)
        assert isinstance(result, ToolResult)
        return result

    def begin(self, tool: str, /, **arguments: Any) -> Any:
        return self.portal.submit(self.tool(tool).fn(**arguments))

    def __enter__(self) -> Called:
        self.servers.settle()
        return self

    def __exit__(self, *_: object) -> None:
        self.servers.close()
        self.portal.close()


def server(*faults: str, name: str = "fake", options: ServersOptions | None = None, **more: object) -> Called:
    portal = Portal()
    return Called(Servers(servers_of([table(name, *faults, **more)], {}), options, portal=portal), portal)


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Called]:
    """A server that talks on its standard output, shared by the tests that leave it alive."""
    folder = tmp_path_factory.mktemp("mcp")
    bounds = Bounds(2_000, Spill(folder / "spill"))
    with server("chatty", options=ServersOptions(log_dir=folder, pins_dir=folder, bounds=bounds)) as called:
        yield called


def test_every_known_trouble_has_its_test() -> None:
    """Each case of the group has a test named after it."""
    cases = [case for line in CASES.read_text().splitlines() if (case := json.loads(line))["group"] == "mcp"]

    for case in cases:
        print(case["id"], case["title"], "|", case["failure"], "->", case["expected"])
    wanted = {case["id"].replace("-", "_") for case in cases}
    assert wanted == {name[5:11] for name in globals() if name.startswith("test_mcp_")}


def test_mcp_01_a_server_that_dies_before_it_is_ready_is_an_error_at_once() -> None:
    """Whenever it ends, and whatever it was asked last, the error names it and has its last words."""
    for fault, words in (("exits-at-once", "no database"), ("exits-at-initialize", "no licence")):
        began_s = time.monotonic()
        with pytest.raises(MCPError, match=rf"'fake' .* ended before it was ready; it said: .*{words}"):
            MCPClient(table("fake", fault)).connect()
        assert time.monotonic() - began_s < SOON_S


def test_mcp_01_a_call_whose_server_dies_is_unknown_and_never_sent_again(tmp_path: Path) -> None:
    """The next call finds a new server; one that dies each time is not begun again without end."""
    effects = tmp_path / "effects"
    with server() as call:
        began_s = time.monotonic()
        lost = call("note", path=str(effects), then="die")
        assert time.monotonic() - began_s < SOON_S
        assert ("unknown", "noted\n") == (lost.status, effects.read_text())
        assert "ended during the call" in lost.content
        assert "written" == call("note", path=str(effects)).content

        for _ in range(3):
            assert "unknown" == call("note", path=str(effects), then="die").status
        refused = call("note", path=str(effects))
        assert refused.is_error
        assert "has ended 4 times" in refused.content
        assert 5 == len(effects.read_text().splitlines())
        told = [notice.state for notice in call.servers.take_notices()]
        assert ["ready", "restarted", "restarted", "restarted"] == told


def test_mcp_03_what_a_server_prints_between_its_messages_is_skipped_and_logged(chatty: Called) -> None:
    """Words, half lines, bytes that are no text and JSON that is no message cost nothing, and stand in its log."""
    assert "hello" == chatty("echo", text="hello").content
    log = chatty.servers.servers[0].log.path
    assert log is not None
    assert 0o600 == log.stat().st_mode & 0o777
    text = log.read_text()
    for words in ("Server v1 started", "[db] connected", "half a line", "a word on standard error"):
        assert words in text


def test_mcp_03_a_flood_costs_the_flood(chatty: Called) -> None:
    """Megabytes of words and of progress bring an answer all the same, and a log of one size."""
    assert "flooded" == chatty("flood", megabytes=4).content
    log = chatty.servers.servers[0].log
    assert log.path is not None
    assert log.dropped > 0
    assert log.path.stat().st_size <= 1 << 20


def test_mcp_03_an_answer_that_is_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an answer that was not read; the server lives on."""
    monkeypatch.setattr("plait.tools.mcp.lines.LINE_BYTES_MAX", 100_000)
    monkeypatch.setattr("plait.tools.mcp.lines.Lines.__init__.__defaults__", (100_000,))
    with server() as call:
        result = call("big", chars=200_000)
        assert result.is_error
        assert "which is too much to read" in result.content
        assert "small" == call("echo", text="small").content


def test_mcp_05_a_cancelled_call_is_told_and_its_late_answer_is_ignored(chatty: Called) -> None:
    """The server hears of each cancelled call once; calls that run beside it and after it get their own answers."""
    calls = [chatty.begin("echo", text=str(number), delay_s=0.2) for number in range(8)]
    while not chatty("told").content.startswith("["):
        pass
    for call in calls[::2]:
        call.cancel()
    assert [str(number) for number in range(1, 8, 2)] == [call.result(10).content for call in calls[1::2]]
    assert 4 == len(set(json.loads(chatty("told").content)))
    assert "after" == chatty("echo", text="after", delay_s=0.3).content


def test_mcp_06_a_slow_server_holds_nothing_up_and_joins_later() -> None:
    """What has not begun in its time is told of; its tools are there when they are asked for later."""
    with server("sleeps=0.8", startup_timeout=0.05) as call:
        assert () == call.servers.tools()
        (late,) = call.servers.take_notices()
        assert ("late", "fake") == (late.state, late.server)
        (_, beginning), *_ = call.servers.beginnings()
        beginning.result(20)
        assert "x" == call("echo", text="x").content
        (ready,) = call.servers.take_notices()
        assert ready.state == "ready"
        assert "now connected" in ready.text


def test_mcp_06_a_changed_list_comes_at_the_next_safe_point(tmp_path: Path) -> None:
    """However often it is announced: the tools asked for stay the same object until then, and the change is told."""
    with server(options=ServersOptions(pins_dir=tmp_path)) as call:
        before = call.servers.tools()
        assert before is call.servers.tools()
        call.servers.take_notices()
        call("grow", name="fresh", times=50)
        ends_s = time.monotonic() + 20
        while (now := call.servers.tools()) is before and time.monotonic() < ends_s:
            time.sleep(0.01)
        assert ["mcp__fake__fresh"] == [tool.name for tool in now if tool.name not in {each.name for each in before}]
        told, held = call.servers.take_notices()
        assert ("changed", "the MCP server 'fake' has other tools now: new: fresh") == (told.state, told.text)
        assert ("held", ("mcp__fake__fresh",)) == (held.state, tuple(held.tools))

    # It came back without the tool: that is what was agreed to.
    with server(options=ServersOptions(pins_dir=tmp_path)) as call:
        call.servers.tools()
        assert ["ready"] == [notice.state for notice in call.servers.take_notices()]


def test_mcp_08_a_picture_comes_once_and_never_as_text(chatty: Called) -> None:
    """Twice in the content and once more in what is structured: one picture, and words about it."""
    result = chatty("picture")
    assert (Image(PNG, "image/png"),) == result.images
    assert PNG[:40] not in result.content + json.dumps(result.data)
    assert result.content.startswith("[picture: image/png, ")
    assert "a dot" in result.content


def test_mcp_08_other_parts_are_words(chatty: Called) -> None:
    """Links, embedded texts and sounds; what is structured is for programs where there is text, else it is the text."""
    mixed = chatty("mixed")
    assert (
        "see\n[resource a: file:///a.txt]\n[resource file:///b.txt]\nin b\n"
        "[resource file:///c.bin: application/zip, 6 bytes; not shown]\n[audio: audio/wav, 6 bytes; not shown]"
    ) == mixed.content
    assert mixed.data is not None
    told: Any = mixed.data["mcp_result"]
    assert {"n": 1} == told["structuredContent"]
    assert '{"answer":42}' == chatty("structured").content


def test_mcp_08_a_huge_answer_is_cut_and_kept(chatty: Called) -> None:
    """The model gets its ends and the file of the whole."""
    result = chatty("big", chars=100_000)
    assert len(result.content) <= 2_000
    assert result.data is not None
    assert 100_000 == len(Path(str(result.data["spill"])).read_text())


def test_mcp_09_names_depend_on_nobody_else() -> None:
    """Two servers with the same tools, in either order; a tool that has a built-in's name; true clashes are refused."""
    tables = [table("one", "tools=read_file"), table("two", "tools=read_file", "clash")]

    def names(order: list[dict[str, object]]) -> set[str]:
        with mcp_tools(order, reserved=["read_file", "mcp__one__boom"]) as tools:
            return {tool.name for tool in tools}

    found = names(tables)
    assert found == names(tables[::-1])
    assert {"mcp__one__echo", "mcp__two__echo", "mcp__one__read_file", "mcp__two__read_file"} <= found
    assert "mcp__one__boom" not in found
    assert not any("twice" in name for name in found)


def test_mcp_11_a_server_sees_what_it_needs_and_what_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours but the usual few, and those of its declaration, expanded."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_SETTING", "mine")
    declared = servers_of([table("fake", env={"TOKEN": "${THE_TOKEN:-none}"})], {})
    portal = Portal()
    with Called(Servers(declared, portal=portal), portal) as call:
        seen = json.loads(call("environment").content)
    assert "none" == seen["TOKEN"]
    assert {"OPENAI_API_KEY", "MY_SETTING"}.isdisjoint(seen)
    assert {"PATH", "HOME", "TOKEN", "PLAIT_TREE"} <= set(seen) | {"HOME"}


def test_nothing_of_a_server_is_left_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the server that ignores the end of its input, and not the helper that it started in a session of its own."""
    monkeypatch.setattr("plait.tools.mcp.stdio.GRACE_S", 0.2)
    with server("spawns", "deaf") as call:
        mark = json.loads(call("environment").content)["PLAIT_TREE"].rpartition(":")[2]
        assert 2 == len(Tree(0, mark).members())
    assert [] == Tree(0, mark).members()


def test_a_server_that_has_not_begun_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing does not wait for it, and leaves nothing of it."""
    monkeypatch.setattr("plait.tools.mcp.stdio.GRACE_S", 0.2)
    seen = tmp_path / "begun"
    with server("sleeps=600", f"touches={seen}", startup_timeout=0.01):
        while not seen.exists():
            time.sleep(0.01)
        mark = seen.read_text()
        assert 1 == len(Tree(0, mark).members())
    assert [] == Tree(0, mark).members()


def test_a_server_that_leaves_unknown_questions_unanswered_begins_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer protocol's question is taken back before long, and the older one's asked."""
    monkeypatch.setattr("plait.tools.mcp.probe.PROBE_S", 0.2)
    began_s = time.monotonic()
    with server("silent", "chatty") as call:
        assert "hi" == call("echo", text="hi").content
    assert time.monotonic() - began_s < SOON_S


def test_what_a_server_asks_is_declined(chatty: Called) -> None:
    """A ping is answered; to sample, to ask the user and to see the roots is not for it."""
    answered = json.loads(chatty("ask").content)
    assert {
        "ping0": True,
        "roots/list0": False,
        "sampling/createMessage0": False,
        "elicitation/create0": False,
    } == answered


def test_a_server_that_asks_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends for us, and the call is one whose end nobody saw."""
    monkeypatch.setattr("plait.tools.mcp.sieve.REQUESTS_MAX", 20)
    with server() as call:
        assert "unknown" == call("ask", times=20).status


def test_a_call_without_an_answer_ends_with_its_time(tmp_path: Path) -> None:
    """The result says that nobody knows; the server lives on, and is told that no answer is wanted."""
    with server(timeout=0.3) as call:
        late = call("note", path=str(tmp_path / "effects"), then="hang")
        assert "unknown" == late.status
        assert "did not answer within 0.3 s" in late.content
        assert "error" == call("echo", delay_s=1).status
        assert 2 == len(json.loads(call("told").content))


def test_errors_of_a_tool_and_of_the_protocol_are_results(chatty: Called) -> None:
    """Both are told apart by their words only."""
    assert ("it broke", True) == ((broken := chatty("boom")).content, broken.is_error)
    with server("tools=nothing") as call:
        unknown = call("nothing")
        assert unknown.is_error
        assert "no tool nothing" in unknown.content


def test_what_only_reads_says_so(chatty: Called) -> None:
    """A read-only tool is ungated and runs beside others; any other is gated, and none is ever run a second time."""
    echo, note = chatty.tool("echo"), chatty.tool("note")
    assert (False, True, False) == (echo.gated, echo.parallel_safe, echo.repeatable)
    assert (True, False, False) == (note.gated, note.parallel_safe, note.repeatable)
    assert note.mutates
    assert note.requires_approval
    assert ("mcp", "does note") == (note.category, note.description)


def test_a_servers_word_that_a_tool_reads_is_not_taken_later_or_at_all() -> None:
    """A tool that says so later is not called at all until somebody agrees; `always_ask` asks for every one."""
    with server() as call:
        before = call.servers.tools()
        call("turn")
        refused = call("note", path="/dev/null")
        assert before is call.servers.tools()
        assert (True, "not_agreed") == (refused.is_error, (refused.data or {})["code"])
        assert "has changed since it was agreed to (what it says of its effects)" in refused.content
        assert "still here" == call("echo", text="still here").content
    with server(always_ask=True) as call:
        assert all(tool.gated and not tool.parallel_safe for tool in call.servers.tools())


def test_all_or_nothing_for_who_asks_for_it(tmp_path: Path) -> None:
    """One server that cannot be started ends those that could be; the error says what to do."""
    good = table("good", env={"SEEN": "1"})
    with pytest.raises(MCPError, match="there is no '/nowhere/server'") as caught:
        mcp_tools([good, {"name": "bad", "command": "/nowhere/server"}])
    assert "'command'" in caught.value.hint


def test_a_client_speaks_to_one_server(tmp_path: Path) -> None:
    """What a program of the kernel's does: connect, list, call, close; eight calls at once each get their answer."""
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"fake": {"command": command()[0], "args": command()[1:]}}}))
    (config,) = servers_of(file, {})
    with MCPClient(config, log_dir=tmp_path) as client:
        assert "fake" == client.server_info["name"]
        tools = {tool["name"]: tool for tool in client.list_tools()}
        assert {"readOnlyHint": True} == tools["echo"]["annotations"]
        answer: Any = client.call_tool("echo", {"text": "hi"})
        assert [{"type": "text", "text": "hi"}] == answer["content"]
        with pytest.raises(MCPError, match="no tool nothing"):
            client.call_tool("nothing")
    with pytest.raises(MCPError, match="is not connected"):
        client.list_tools()
    assert "a word" in (tmp_path / "fake.log").read_text()


def test_the_tools_of_a_block_end_with_it() -> None:
    """After it a call is an error."""
    with mcp_tools([table("fake")]) as tools:
        assert isinstance(tools, MCPTools)
        assert ("fake",) == tools.servers
        echo = next(tool for tool in tools if tool.name == "mcp__fake__echo")
    late = asyncio.run(echo.fn(text="x"))
    assert late.is_error
    assert "is closed" in late.content
