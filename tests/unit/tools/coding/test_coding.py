"""The strict tools for code, over real files and programs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.cancel import Cancel
from plait.core.errors import REFUSAL_STATUS
from plait.core.messages import ToolResult
from plait.kernel.tools import Tool, ToolContext, as_result
from plait.tools.coding import CodingLimits, CodingRequest, Command, DiskArtifacts, MemoryArtifacts, coding_tools

ANSWERING = "read_file write_file edit_file list_directory glob search_files".split()
SH = Command("/bin/sh", ("-c",))


class Host:
    """A host that allows, and remembers what it was asked."""

    def __init__(self, refuses: str = "", answer: bool = True) -> None:
        self.requests: list[CodingRequest] = []
        self.paths: list[str] = []
        self.refuses = refuses
        self.answer = answer

    def authorize(self, request: CodingRequest) -> bool:
        self.requests.append(request)
        return self.answer

    def authorize_path(self, path: str) -> bool:
        self.paths.append(path)
        return path != self.refuses


Call = Callable[..., ToolResult]


def caller(tools: list[Tool]) -> Call:
    """Return a function that calls a tool by its name, as a host does."""
    by_name = {tool.name: tool for tool in tools}

    def call(tool_name: str, **arguments: object) -> ToolResult:
        return as_result("1", by_name[tool_name].fn(**arguments))

    return call


def strict(root: Path, host: Host, **options: Any) -> Call:
    """Open the strict tools of a workspace for a host."""
    return caller(coding_tools(root, authorize=host.authorize, authorize_path=host.authorize_path, **options))


def code(result: ToolResult) -> str:
    """Return the code of a refusal, after the checks that hold for each; `ok` for an answer."""
    if not result.is_error:
        return "ok"
    data = json.loads(json.dumps(dict(result.data or {})))
    assert data["status"] == REFUSAL_STATUS[data["code"]]
    assert "hint" in data
    return str(data["code"])


def data(result: ToolResult) -> Any:
    """Return what a program is told."""
    assert not result.is_error, result.content
    return dict(result.data or {})


def test_the_tools_depend_on_what_the_host_offers(root: Path) -> None:
    """Without commands there is no `run_command`, without kept outputs no `read_output`."""
    host = Host()
    assert ANSWERING == [tool.name for tool in coding_tools(root, authorize=host.authorize)]
    tools = coding_tools(root, authorize=host.authorize, commands={"sh": SH}, artifacts=MemoryArtifacts())
    assert [*ANSWERING, "run_command", "read_output"] == [tool.name for tool in tools]
    assert ["write_file", "edit_file", "run_command"] == [tool.name for tool in tools if tool.mutates]
    with pytest.raises(ValueError, match="absolute path"):
        Command("pytest")


def test_a_file_is_written_read_and_edited_with_its_digests(root: Path) -> None:
    """Digests chain from one call to the next, and the file holds what was said."""
    call = strict(root, Host())
    written = data(call("write_file", path="src/a/x.py", content="one\r\ntwo\n"))
    assert (["src", "src/a"], True) == (written["created_directories"], written["created"])
    assert hashlib.sha256(b"one\r\ntwo\n").hexdigest() == written["sha256"]
    read = call("read_file", path="src/a/x.py", limit=1)
    assert ("one\r\n[lines 1-1 of 2; go on with offset=2]", 2, True) == (
        read.content,
        data(read)["next_offset"],
        data(read)["truncated"],
    )
    edited = data(
        call("edit_file", path="src/a/x.py", old_text="two", new_text=r"\1\n", expected_sha256=written["sha256"])
    )
    assert rb"one" + b"\r\n" + rb"\1\n" + b"\n" == (root / "src/a/x.py").read_bytes()
    assert edited["sha256"] == data(call("read_file", path="src/a/x.py"))["sha256"]


def test_what_exists_is_replaced_only_when_that_is_said(root: Path) -> None:
    """A write over a file conflicts without `overwrite`, and with another digest than the file's."""
    call = strict(root, Host())
    (root / "a.txt").write_text("old")
    assert "CONFLICT" == code(call("write_file", path="a.txt", content="new"))
    assert "CONFLICT" == code(call("write_file", path="a.txt", content="new", overwrite=True, expected_sha256="0" * 64))
    assert "old" == (root / "a.txt").read_text()
    assert "ok" == code(call("write_file", path="a.txt", content="new", overwrite=True))
    assert "new" == (root / "a.txt").read_text()


@pytest.mark.parametrize(
    "path, expected",
    [
        ("../x", "FORBIDDEN"),
        ("a/../../x", "FORBIDDEN"),
        ("/etc/passwd", "FORBIDDEN"),
        ("a\\b", "INVALID_INPUT"),
        ("a//b", "INVALID_INPUT"),
        ("", "INVALID_INPUT"),
        ("a\0b", "INVALID_INPUT"),
        ("x" * 5_000, "INVALID_INPUT"),
        ("/".join("x" * 65), "INVALID_INPUT"),
        ("half\ud800", "INVALID_INPUT"),
        ("link/x", "FORBIDDEN"),
        ("link", "FORBIDDEN"),
        ("missing", "NOT_FOUND"),
        ("pipe", "UNSUPPORTED_CONTENT"),
        ("latin.txt", "UNSUPPORTED_CONTENT"),
        ("utf16.txt", "UNSUPPORTED_CONTENT"),
        ("blob", "UNSUPPORTED_CONTENT"),
        (".", "INVALID_INPUT"),
    ],
)
def test_a_path_or_content_that_is_not_strict_is_refused(root: Path, path: str, expected: str) -> None:
    """Each refusal has its code, and neither reading nor editing gets past it."""
    (root.parent / "x").write_text("outside")
    (root / "link").symlink_to(root.parent)
    os.mkfifo(root / "pipe")
    (root / "latin.txt").write_bytes(b"caf\xe9")
    (root / "utf16.txt").write_bytes("text".encode("utf-16"))
    (root / "blob").write_bytes(b"\0\1")
    call = strict(root, Host())
    assert expected == code(call("read_file", path=path))
    assert expected == code(call("edit_file", path=path, old_text="caf", new_text="x"))


def test_content_that_no_utf_8_file_can_hold_is_refused(root: Path) -> None:
    """Half a character is neither written nor put in the place of something."""
    (root / "a.txt").write_text("x")
    call = strict(root, Host())
    assert "INVALID_INPUT" == code(call("write_file", path="new.txt", content="half\ud800"))
    assert "INVALID_INPUT" == code(call("edit_file", path="a.txt", old_text="x", new_text="half\ud800"))
    assert ["a.txt"] == os.listdir(root)
    assert "x" == (root / "a.txt").read_text()


def test_an_absolute_path_inside_is_refused_with_the_one_to_use(root: Path) -> None:
    """The refusal of an absolute path below the root carries the relative path; any other carries none."""
    (root / "a.txt").write_text("x")
    call = strict(root, Host())
    refused = call("read_file", path=str(root / "a.txt"))
    assert "a.txt" == refused.data["details"]["recovery_path"]  # type: ignore[index]
    assert "recovery_path" not in call("read_file", path="/etc/passwd").data["details"]  # type: ignore[index]


def test_an_ambiguous_snippet_is_refused_with_its_count(root: Path) -> None:
    """Several occurrences conflict, with how many there are; `replace_all` takes them all."""
    (root / "a.txt").write_text("x x x")
    call = strict(root, Host())
    refused = call("edit_file", path="a.txt", old_text="x", new_text="y")
    assert ("CONFLICT", 3) == (code(refused), refused.data["details"]["occurrences"])  # type: ignore[index]
    assert 3 == data(call("edit_file", path="a.txt", old_text="x", new_text="$&", replace_all=True))["replacements"]
    assert "$& $& $&" == (root / "a.txt").read_text()


@given(
    st.text("ab\r\n\\$&1", min_size=1, max_size=12),
    st.text("ab\r\n", min_size=1, max_size=3),
    st.text("ab\r\n\\$&1", max_size=4),
    st.booleans(),
)
def test_p_cod_5_an_edit_is_a_literal_replacement(
    tmp_path_factory: pytest.TempPathFactory, content: str, old: str, new: str, every: bool
) -> None:
    """What an edit makes of any content is what `str.replace` makes of it, of one place and of all."""
    root = tmp_path_factory.mktemp("edit")
    (root / "a.txt").write_bytes(content.encode())
    result = strict(root, Host())("edit_file", path="a.txt", old_text=old, new_text=new, replace_all=every)
    expected = content.replace(old, new) if not result.is_error else content
    is_ambiguous = not every and content.count(old) > 1
    assert result.is_error == (old not in content or old == new or is_ambiguous)
    assert expected.encode() == (root / "a.txt").read_bytes()


def test_p_cod_4_concurrent_edits_are_all_there(root: Path) -> None:
    """Edits of different snippets at the same time all land."""
    (root / "a.txt").write_text(" ".join(f"<{number}>" for number in range(12)))
    call = strict(root, Host())
    threads = [
        threading.Thread(
            target=call,
            args=("edit_file",),
            kwargs={"path": "a.txt", "old_text": f"<{number}>", "new_text": f"[{number}]"},
        )
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert " ".join(f"[{number}]" for number in range(12)) == (root / "a.txt").read_text()


def test_p_cod_8_nothing_happens_before_the_host_says_yes(root: Path) -> None:
    """A call that is not allowed creates, changes and starts nothing, and the host saw exactly what it would do."""
    (root / "a.txt").write_text("old old")
    host = Host(answer=False)
    call = strict(root, host, commands={"sh": SH})
    before = sorted(os.listdir(root))
    attempts: list[dict[str, object]] = [
        {"tool_name": "read_file", "path": "a.txt"},
        {"tool_name": "write_file", "path": "new/b.txt", "content": "x"},
        {"tool_name": "edit_file", "path": "a.txt", "old_text": "old", "new_text": "new", "replace_all": True},
        {"tool_name": "list_directory"},
        {"tool_name": "glob", "pattern": "*"},
        {"tool_name": "search_files", "pattern": "old"},
        {"tool_name": "run_command", "command": "sh", "args": ["echo > ran"]},
    ]
    for attempt in attempts:
        assert "FORBIDDEN" == code(call(**attempt)), attempt  # type: ignore[arg-type]
    assert before == sorted(os.listdir(root))
    assert "old old" == (root / "a.txt").read_text()
    asked = {request.tool: dict(request.details) for request in host.requests}
    assert [attempt["tool_name"] for attempt in attempts] == list(asked)
    assert (["new"], "new/b.txt", 1) == tuple(
        asked["write_file"][key] for key in ("created_directories", "path", "size_bytes")
    )
    assert (2, hashlib.sha256(b"new new").hexdigest()) == tuple(
        asked["edit_file"][key] for key in ("replacements", "sha256")
    )
    json.dumps(asked)


def test_p_cod_2_a_refused_path_is_asked_about_from_above_and_left_out_everywhere(root: Path) -> None:
    """The first no ends the questions; direct calls are refused, listings and searches say nothing of the place."""
    for name in ("credentials/deep/key.txt", "credentials-backup/key.txt", "open.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("needle\n")
    host = Host(refuses="credentials")
    call = strict(root, host)
    for result in (
        call("read_file", path="credentials/deep/key.txt"),
        call("write_file", path="credentials/new.txt", content=""),
        call("edit_file", path="credentials/deep/key.txt", old_text="needle", new_text="x"),
    ):
        assert "FORBIDDEN" == code(result)
    assert [".", "credentials"] * 3 == host.paths
    assert [] == host.requests
    host.paths.clear()
    call("read_file", path="credentials-backup/key.txt")
    assert [".", "credentials-backup", "credentials-backup/key.txt"] == host.paths
    assert ["credentials-backup/key.txt", "open.txt"] == data(call("glob", pattern="**/*.txt"))["paths"]
    assert [] == data(call("glob", pattern="credentials/**"))["paths"]
    found = data(call("search_files", pattern="needle"))
    assert (["credentials-backup/key.txt", "open.txt"], 2) == (
        [match["path"] for match in found["matches"]],
        found["scanned_files"],
    )
    assert ["credentials-backup", "open.txt"] == [e["name"] for e in data(call("list_directory"))["entries"]]
    for name, more in (("list_directory", {}), ("glob", {"pattern": "*"}), ("search_files", {"pattern": "needle"})):
        assert "(nothing)" == call(name, path="credentials", **more).content


def test_listings_and_searches_say_what_was_passed_over(root: Path) -> None:
    """An excluded directory is listed with a mark and counted by searches; a filter that fits nothing is said."""
    (root / "node_modules").mkdir()
    (root / "src").mkdir()
    (root / "src/a.py").write_text("x = 1\ny = 2\n")
    call = strict(root, Host())
    assert "node_modules/ (excluded)\nsrc/" == call("list_directory").content
    assert 1 == data(call("glob", pattern="**/*.py"))["skipped_directories"]
    assert "src/a.py-1-x = 1\nsrc/a.py:2:y = 2" == call("search_files", pattern="y =", context=1).content
    assert "(nothing)" == call("search_files", pattern="[xy] = .").content
    assert 2 == len(data(call("search_files", pattern="[xy] = .", regex=True))["matches"])
    assert "(nothing)\n[no file fits the filter '*.py']" == call("search_files", pattern="x", include="*.py").content
    assert 1 == data(call("search_files", pattern="x", include="**/*.py"))["scanned_files"]


def test_a_command_is_an_alias_with_arguments_and_its_own_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shell reads the arguments, nothing of the host's environment is there, and unknown aliases are named."""
    monkeypatch.setenv("HARMLESS", "host")
    python = Command(
        sys.executable, ("-c", "import os, sys; print(sys.argv[1:], os.environ.get('HARMLESS'), os.getcwd())")
    )
    call = strict(
        root, Host(), commands={"show": python, "gone": Command("/no/such/program")}, env={"HARMLESS": "given"}
    )
    result = call("run_command", command="show", args=["a b", "$(id)"])
    assert f"['a b', '$(id)'] given {root}" == result.content
    assert ("exited", 0) == (data(result)["end"], data(result)["exit_code"])
    unknown = call("run_command", command="rm")
    assert "NOT_FOUND" == code(unknown)
    assert "The commands are: gone, show" in unknown.content
    gone = call("run_command", command="gone")
    assert "INTERNAL_SERVER_ERROR" == code(gone)
    assert "/no/such" not in json.dumps(dict(gone.data or {}))


def test_p_cod_7_nothing_of_a_command_lives_on(root: Path) -> None:
    """Children die when the command ends, when its time is up, when it is cancelled and when it prints too much."""
    limits = CodingLimits(shell_timeout_s=5, termination_grace_s=0.05, output_bytes=2_000)
    call = strict(root, Host(), commands={"sh": SH}, env={"PATH": os.environ["PATH"]}, limits=limits)
    start = "trap '' TERM; (trap '' TERM; sleep 60) & echo $! > pid;"

    def is_gone() -> bool:
        path = Path("/proc", (root / "pid").read_text().strip(), "stat")
        return not path.exists() or path.read_text().rpartition(")")[2].split()[0] in {"Z", "X"}

    assert "[exit code 3]" == call("run_command", command="sh", args=[f"{start} exit 3"]).content
    assert is_gone()
    began = time.monotonic()
    assert "TIMEOUT" == code(call("run_command", command="sh", args=[f"{start} wait; wait"], timeout_s=0.2))
    assert time.monotonic() - began < 3
    assert is_gone()
    assert "TOO_LARGE" == code(call("run_command", command="sh", args=[f"{start} yes"]))
    assert is_gone()
    cancel = Cancel()
    threading.Timer(0.1, cancel.cancel, ("enough",)).start()
    context = ToolContext("1", "k", cancel)
    result = call("run_command", command="sh", args=[f"{start} echo begun; wait; wait"], call=context)
    assert ("CANCELLED", "cancelled") == (code(result), result.status)
    assert "begun" in result.content
    assert is_gone()
    (root / "pid").unlink()
    assert "CANCELLED" == code(call("run_command", command="sh", args=[start], call=context))
    assert not (root / "pid").exists()


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"args": ["x"] * 65}, "TOO_LARGE"),
        ({"args": ["x" * 40_000]}, "TOO_LARGE"),
        ({"args": ["a\0b"]}, "INVALID_INPUT"),
        ({"timeout_s": 0}, "INVALID_INPUT"),
        ({"timeout_s": 10_000}, "INVALID_INPUT"),
    ],
)
def test_a_command_beyond_its_bounds_is_not_run(root: Path, arguments: dict[str, object], expected: str) -> None:
    """Too many or too long arguments and impossible time limits are refused."""
    assert expected == code(strict(root, Host(), commands={"sh": SH})("run_command", command="sh", **arguments))


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_long_output_is_kept_behind_a_reference(root: Path, tmp_path: Path, kind: str) -> None:
    """What was too long to show is read in slices by a reference that tells no path; an unknown one is refused."""
    store = MemoryArtifacts() if kind == "memory" else DiskArtifacts(tmp_path / "kept")
    limits = CodingLimits(output_bytes=2_000, kept_bytes=50_000)
    call = strict(root, Host(), commands={"sh": SH}, env={"PATH": os.environ["PATH"]}, artifacts=store, limits=limits)
    result = call("run_command", command="sh", args=["seq 1 5000 | sed s/$/ä/"])
    reference = data(result)["reference"]
    assert f"read_output gives all of it: {reference}" in result.content
    assert str(tmp_path) not in json.dumps([result.content, dict(result.data or {})])
    whole, offset = "", 0
    while offset >= 0:
        part = call("read_output", reference=reference, offset=offset, limit=7_001)
        whole += part.content.rpartition("\n[bytes ")[0] if data(part)["truncated"] else part.content
        offset = data(part).get("next_offset", -1)
    assert "".join(f"{number}ä\n" for number in range(1, 5_001)) == whole
    assert "TOO_LARGE" == code(call("run_command", command="sh", args=["yes"]))
    for unknown in (f"artifact-{'0' * 32}", "../kept", str(tmp_path), ""):
        assert "SPILL_REFERENCE_UNKNOWN" == code(call("read_output", reference=unknown))
    assert "INVALID_INPUT" == code(call("read_output", reference=reference, offset=-1))
    assert [] == os.listdir(root)


def test_a_host_with_coroutines_is_asked_in_its_own_loop(root: Path) -> None:
    """With asynchronous callbacks the tools are coroutine functions, and the callbacks run in the host's loop."""
    (root / "a.txt").write_text("hello")
    seen: list[object] = []

    async def main() -> ToolResult:
        loop = asyncio.get_running_loop()

        async def authorize(request: CodingRequest) -> bool:
            seen.append((request.tool, asyncio.get_running_loop() is loop))
            return True

        async def authorize_path(path: str) -> bool:
            await asyncio.sleep(0)
            return path != "b.txt"

        tools = {tool.name: tool for tool in coding_tools(root, authorize=authorize, authorize_path=authorize_path)}
        assert "FORBIDDEN" == code(as_result("1", await tools["read_file"].fn(path="b.txt")))
        return as_result("1", await tools["read_file"].fn(path="a.txt"))

    assert "hello" == asyncio.run(main()).content
    assert [("read_file", True)] == seen


def test_a_synchronous_tool_waits_for_a_late_answer(root: Path) -> None:
    """A plain function that returns a coroutine is waited for where no loop runs."""
    (root / "a.txt").write_text("hello")

    async def yes() -> bool:
        return True

    call = caller(coding_tools(root, authorize=lambda _request: yes()))
    assert "hello" == call("read_file", path="a.txt").content


def test_the_mask_is_not_written_over_a_secret(tmp_path: Path) -> None:
    """Whoever hands results on masks secrets; a model that sends the mask back is told, and the file keeps its own."""
    text = f"PORT=1\nAPI_KEY={'gh' + 'p_'}abcdefghijklmnopqrstuvwxyz0123456789\n"
    (tmp_path / ".env").write_text(text)
    call = strict(tmp_path, Host())
    answers = [
        call("write_file", path=".env", content="PORT=2\nAPI_KEY=[REDACTED]\n", overwrite=True),
        call("edit_file", path=".env", old_text="API_KEY=[REDACTED]", new_text="API_KEY=new"),
        call("edit_file", path=".env", old_text="PORT=1", new_text="PORT=1\nAPI_KEY=[REDACTED]"),
    ]
    assert [True] * 3 == ["leave the line with [REDACTED]" in answer.content for answer in answers]
    assert [True] * 3 == [answer.is_error for answer in answers]
    assert text == (tmp_path / ".env").read_text()
