"""What the strict tools promise, shown on real processes, kills and races of edits."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.codec import decode_fact, encode_fact
from plait.core.errors import REFUSAL_STATUS, Refusal
from plait.core.facts import ToolEnd
from plait.core.messages import ToolResult
from plait.hands import beneath
from plait.hands.editing.locks import FileLocks
from plait.kernel.tools import Tool, ToolContext, as_result
from plait.tools.answer import refused
from plait.tools.coding import (
    CodingLimits,
    CodingRequest,
    Command,
    DiskArtifacts,
    MemoryArtifacts,
    coding_tools,
    sweep_workspace,
)
from tests.helpers.warm import Warm

SH = Command("/bin/sh")
ENVIRONMENT = {"PATH": os.environ["PATH"]}
BOMB = """trap '' TERM
echo $$ >> pids
if [ "$1" -gt 0 ]; then
  sh bomb.sh $(($1 - 1)) & sh bomb.sh $(($1 - 1)) &
fi
if [ "$1" = 3 ]; then
  while [ "$(wc -l < pids)" -lt 15 ]; do sleep 0.02; done
  [ "$2" = exit ] && exit 3
  [ "$2" = flood ] && exec yes
fi
exec sleep 60
"""


def tools_of(root: Path, **options: Any) -> dict[str, Tool]:
    """Return the tools of a workspace by name, for a host that allows everything."""
    return {tool.name: tool for tool in coding_tools(root, **{"authorize": lambda _: True, **options})}


def call(tool: Tool, **arguments: Any) -> ToolResult:
    return as_result("1", tool.fn(**arguments))


def is_dead(pid: str) -> bool:
    path = Path("/proc", pid, "stat")
    try:
        return path.read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except OSError:
        return True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize(
    "how, is_kept",
    [("exit", False), ("flood", False), ("time", False), ("cancel", False), ("exit", True), ("flood", True)],
)
def test_p_cod_7_no_generation_outlives_its_command(root: Path, tmp_path: Path, how: str, is_kept: bool) -> None:
    """Three generations that ignore TERM are dead when the call returns, however the command ended."""
    (root / "bomb.sh").write_text(BOMB)
    limits = CodingLimits(shell_timeout_s=30, termination_grace_s=0.05, output_bytes=100_000)
    spool = tmp_path / "spool" if is_kept else None
    tool = tools_of(root, commands={"sh": SH}, env=ENVIRONMENT, limits=limits, spool=spool)["run_command"]
    arguments: dict[str, Any] = {"command": "sh", "args": ["bomb.sh", "3", how]}
    if how == "time":
        arguments["timeout_s"] = 0.6
    cancel = Cancel()
    context = ToolContext("1", "k", cancel)
    if is_kept:
        assert tool.recovery is not None
        context = ToolContext("1", "k", cancel, "", tool.recovery.intend(arguments, context))
    if how == "cancel":
        pids = root / "pids"
        watch = threading.Thread(
            target=lambda: (
                until(lambda: pids.exists() and len(pids.read_text().split()) == 15),
                cancel.cancel("enough"),
            )
        )
        watch.start()
    began = time.monotonic()
    result = call(tool, **arguments, call=context)
    took = time.monotonic() - began
    expected = {"exit": None, "flood": "TOO_LARGE", "time": "TIMEOUT", "cancel": "CANCELLED"}[how]
    assert expected == (result.data or {}).get("code"), result
    assert how != "exit" or "[exit code 3]" == result.content
    pids_seen = (root / "pids").read_text().split()
    assert 15 == len(pids_seen) or how == "time"
    assert [] == [pid for pid in pids_seen if not is_dead(pid)]
    assert took < (0.6 if how == "time" else 20) + 5


def test_a_signal_that_was_given_before_starts_nothing(root: Path, tmp_path: Path) -> None:
    """A call that is cancelled already is cancelled, under a supervisor too, and no process has begun.

    What is noted before such a call makes no file either.
    """
    for spool in (None, tmp_path / "spool"):
        tool = tools_of(root, commands={"sh": SH}, env=ENVIRONMENT, spool=spool)["run_command"]
        arguments = {"command": "sh", "args": ["-c", "echo > ran"]}
        cancel = Cancel()
        before = sorted(tmp_path.rglob("*"))
        intent = None if tool.recovery is None else tool.recovery.intend(arguments, ToolContext("1", "k", cancel))
        assert before == sorted(tmp_path.rglob("*"))
        cancel.cancel("before")
        result = call(tool, **arguments, call=ToolContext("1", "k", cancel, "", intent))
        assert ("CANCELLED", "cancelled") == ((result.data or {})["code"], result.status)
    assert [] == os.listdir(root)


_RUN = """
import json, sys
from pathlib import Path
from plait.core.cancel import Cancel
from plait.kernel.tools import ToolContext
from plait.tools.coding import Command, coding_tools
root, spool, kept = sys.argv[1:]
tools = {t.name: t for t in coding_tools(root, authorize=lambda _: True, commands={"sh": Command("/bin/sh")},
         env={"PATH": "/usr/bin:/bin"}, spool=spool)}
arguments = {"command": "sh", "args": ["-c", "echo begun > begun; while [ ! -e go ]; do sleep 0.02; done; echo done"]}
context = ToolContext("1", "k", Cancel())
intent = dict(tools["run_command"].recovery.intend(arguments, context))
Path(kept).write_text(json.dumps([arguments, intent]))
tools["run_command"].fn(**arguments, call=ToolContext("1", "k", Cancel(), "", intent))
"""


def test_a_command_goes_on_when_its_host_is_killed(root: Path, tmp_path: Path) -> None:
    """Another process finds out what became of it: it ran once, and its answer is the one it would have been."""
    kept = tmp_path / "kept.json"
    child = Warm([sys.executable, "-c", _RUN, str(root), str(tmp_path / "spool"), str(kept)])
    try:
        until((root / "begun").exists)
    finally:
        child.kill()
        child.wait()
    (root / "go").touch()
    arguments, intent = json.loads(kept.read_text())
    tool = tools_of(root, commands={"sh": SH}, env=ENVIRONMENT, spool=tmp_path / "spool")["run_command"]
    assert tool.recovery is not None
    result = as_result("1", tool.recovery.settle(arguments, ToolContext("1", "k", Cancel(), "", intent)))
    assert ("done", "ended", 0) == (result.content, (result.data or {})["recovered"], (result.data or {})["exit_code"])


def test_ends_that_nobody_has_asked_for_are_forgotten_in_time(root: Path, tmp_path: Path) -> None:
    """An entry of a killed host stays for a week; what is no entry stays in any case."""
    for name, age_s in (("a" * 32, 8 * 86_400), ("b" * 32, 3_600), ("notes", 99 * 86_400)):
        (tmp_path / "spool" / name).mkdir(parents=True)
        os.utime(tmp_path / "spool" / name, (time.time() - age_s,) * 2)
    tools_of(root, commands={"sh": SH}, spool=tmp_path / "spool")
    assert ["b" * 32, "notes"] == sorted(path.name for path in (tmp_path / "spool").iterdir() if path.is_dir())


_WRITE = """
import sys
from plait.tools.coding import coding_tools
tools = {t.name: t for t in coding_tools(sys.argv[1], authorize=lambda _: True)}
while True:
    for letter in "ab":
        tools["write_file"].fn(path="deep/file.txt", content=letter * 300_000, overwrite=True)
        print(letter, flush=True)
"""


def kill_writers(root: Path, times: int) -> None:
    """Kill a process that writes, again and again, and look at what it leaves."""
    (root / "deep").mkdir()
    (root / "deep/file.txt").write_text("a" * 300_000)
    for number in range(times):
        child = Warm([sys.executable, "-c", _WRITE, str(root)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(2 + number % 5):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert (root / "deep/file.txt").read_text() in {"a" * 300_000, "b" * 300_000}
        left = sorted(set(os.listdir(root / "deep")) - {"file.txt"})
        assert () == sweep_workspace(root)
        assert [f"deep/{name}" for name in left] == list(sweep_workspace(root, older_than_s=0))
        assert ["file.txt"] == os.listdir(root / "deep")


def test_p_cod_6_a_killed_write_leaves_old_or_new(root: Path) -> None:
    """A file is never half of anything, and what a write has left is swept when the host starts again."""
    kill_writers(root, 2)


@pytest.mark.prove
def test_p_cod_6_at_length(root: Path) -> None:
    """The same for many kills."""
    kill_writers(root, 40)


def test_a_sweep_takes_only_what_writes_have_left(root: Path) -> None:
    """Files of other names, fresh ones, links and directories of that name stay, wherever they are."""
    name = ".plait-0123456789abcdef.tmp"
    for folder in ("", "node_modules", "a/b"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / name).write_text("half")
    (root / "keep.tmp").write_text("x")
    (root / "link").mkdir()
    (root / "link" / name).symlink_to(root / "keep.tmp")
    (root / "folder" / name).mkdir(parents=True)
    assert () == sweep_workspace(root)
    assert (name, f"a/b/{name}", f"node_modules/{name}") == sweep_workspace(root, older_than_s=-1)
    assert (root / "keep.tmp").exists()
    assert (root / "link" / name).is_symlink()
    assert (root / "folder" / name).is_dir()


@pytest.mark.parametrize("shares", [True, False])
def test_p_cod_4_edits_side_by_side_are_all_there_and_their_digests_chain(root: Path, shares: bool) -> None:
    """Twelve edits of one file through two sets of tools land one after the other, each on the one before it.

    The sets share their locks, or each has locks of its own that count between processes.
    """
    text = " ".join(f"<{number}>" for number in range(12))
    (root / "a.txt").write_text(text)
    asked: list[str] = []

    def authorize(request: CodingRequest) -> bool:
        asked.append(str(request.details["sha256"]))
        return True

    told: dict[int, str] = {}
    shared = FileLocks()
    both = [shared if shares else FileLocks(across_processes=True) for _ in range(2)]
    sets = [tools_of(root, authorize=authorize, locks=locks) for locks in both]

    def edit(number: int) -> None:
        result = call(sets[number % 2]["edit_file"], path="a.txt", old_text=f"<{number}>", new_text=f"[{number}]")
        told[number] = str((result.data or {})["sha256"])

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert text.replace("<", "[").replace(">", "]") == (root / "a.txt").read_text()
    assert sorted(told.values()) == sorted(asked)
    for digest in asked:
        number = next(number for number in told if told[number] == digest)
        text = text.replace(f"<{number}>", f"[{number}]")
        assert digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("code", REFUSAL_STATUS)
def test_p_cod_9_every_refusal_survives_the_journal(code: Any) -> None:
    """Code, status, hint and details are what they were, after the way through JSON."""
    result = refused(Refusal(code, "it will not", hint="do something else", details={"count": 3}))
    name, entry = encode_fact(ToolEnd(result))
    again: Any = decode_fact(name, json.loads(json.dumps(entry)))
    assert result == again.result
    data = dict(again.result.data)
    assert (code, REFUSAL_STATUS[code], "do something else", {"count": 3}) == (
        data["code"],
        data["status"],
        data["hint"],
        data["details"],
    )
    assert 400 <= data["status"] < 600
    assert again.result.is_error
    assert "Do something else." in again.result.content


def test_what_breaks_inside_a_tool_tells_the_model_nothing(root: Path) -> None:
    """A host's callback that raises is an internal error that names no place of the host, and the host is told."""
    told: list[tuple[str, BaseException]] = []

    def broken(_request: CodingRequest) -> bool:
        raise RuntimeError("/home/host/secret.py is broken")

    (root / "a.txt").write_text("x")
    tools = tools_of(root, authorize=broken, on_fault=lambda name, error: told.append((name, error)))
    result = call(tools["read_file"], path="a.txt")
    assert ("INTERNAL_SERVER_ERROR", 500) == ((result.data or {})["code"], (result.data or {})["status"])
    assert "secret" not in result.content + json.dumps(dict(result.data or {}))
    assert [("read_file", "/home/host/secret.py is broken")] == [(name, str(error)) for name, error in told]


def test_a_platform_without_the_calls_refuses_every_file_tool(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools are there and say why they do nothing; commands do without a walk."""
    monkeypatch.setattr(beneath, "is_supported", lambda: False)
    tools = tools_of(root, commands={"sh": SH}, env=ENVIRONMENT)
    codes = [(call(tools[name], path="a").data or {}).get("code") for name in list(tools)[:6]]
    assert ["UNSUPPORTED_PLATFORM"] * 6 == codes
    assert "hi" == call(tools["run_command"], command="sh", args=["-c", "echo hi"]).content


def test_every_directory_is_asked_about_once_and_from_above(root: Path) -> None:
    """A path of depth n takes n + 1 questions, also where a pattern names directories; refused ones are not opened."""
    asked: list[str] = []

    def authorize_path(path: str) -> bool:
        asked.append(path)
        return "secret" not in path.split("/")

    (root / "a/b").mkdir(parents=True)
    (root / "a/secret").mkdir()
    (root / "a/b/x.py").write_text("needle")
    (root / "a/secret/y.py").write_text("needle")
    (root / "a/secret").chmod(0)
    tools = tools_of(root, authorize_path=authorize_path)

    def questions(name: str, **arguments: Any) -> list[str]:
        asked.clear()
        assert not call(tools[name], **arguments).is_error
        return list(asked)

    assert [".", "a", "a/b", "a/b/x.py"] == questions("read_file", path="a/b/x.py")
    assert [".", "a", "a/b", "a/b/x.py"] == questions("glob", pattern="a/b/*.py")
    assert [".", "a", "a/b", "a/secret"] == questions("list_directory", path="a")
    assert [".", "a", "a/b", "a/b/x.py", "a/secret"] == questions("search_files", pattern="needle", path="a")
    assert [".", "a", "a/secret"] == questions("glob", pattern="a/secret/deep/*.py")
    (root / "a/secret").chmod(0o700)


def test_a_filter_fits_the_whole_path_wherever_the_search_begins(root: Path) -> None:
    """`include` is anchored at the workspace, for directories and for a single file; what it leaves out is not read."""
    (root / "src/deep").mkdir(parents=True)
    (root / "src/deep/a.py").write_text("needle")
    search = tools_of(root)["search_files"]
    for path in (".", "src", "src/deep", "src/deep/a.py"):
        found = call(search, pattern="needle", path=path, include="src/**/*.py")
        assert 1 == len((found.data or {})["matches"]), path  # type: ignore[arg-type]
        nothing = call(search, pattern="needle", path=path, include="deep/*.py")
        assert "(nothing)\n[no file fits the filter 'deep/*.py']" == nothing.content, path
        assert 0 == (nothing.data or {})["scanned_files"]


def test_a_line_that_does_not_fit_is_where_the_next_slice_begins(root: Path) -> None:
    """The offset in the data is the one in the last line: reading on misses nothing and repeats nothing."""
    lines = [f"{number:04d} {'x' * 40}\n" for number in range(200)]
    (root / "a.txt").write_text("".join(lines))
    read = tools_of(root, limits=CodingLimits(read_bytes=1_000))["read_file"]
    text, offset = "", 1
    while offset:
        part = call(read, path="a.txt", offset=offset)
        text += part.content.rpartition("[lines ")[0] or part.content
        offset = (part.data or {}).get("next_offset", 0)  # type: ignore[assignment]
    assert "".join(lines) == text


def test_a_cancelled_task_has_stopped_its_command_before_it_goes_on(root: Path) -> None:
    """With coroutine callbacks a cancelled call kills what it has started, and the cancellation is not lost."""

    async def authorize(_request: CodingRequest) -> bool:
        return True

    tool = tools_of(root, authorize=authorize, commands={"sh": SH}, env=ENVIRONMENT)["run_command"]

    async def main() -> bool:
        line = "echo $$ > pid; exec sleep 60"
        task = asyncio.ensure_future(tool.fn(command="sh", args=["-c", line]))
        while not (root / "pid").exists() or not (root / "pid").read_text():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return is_dead((root / "pid").read_text().strip())

    assert asyncio.run(main())


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_store_is_bounded_and_its_names_are_opaque(tmp_path: Path, kind: str) -> None:
    """What is too long is not kept, the oldest go first, and no name leads anywhere else."""
    import io

    bounds = {"artifact_bytes_max": 10, "total_bytes_max": 25}
    store = MemoryArtifacts(**bounds) if kind == "memory" else DiskArtifacts(tmp_path / "kept", **bounds)
    assert store.read("artifact-" + "0" * 32, 0, 9) is None
    names = [store.put(io.BytesIO(bytes([65 + number]) * 10), "c") for number in range(3)]
    assert store.put(io.BytesIO(b"x" * 11), "c") is None
    assert [None, b"BBB", b"CC"] == [
        found and found.data
        for found in (store.read(str(name), offset, 3) for name, offset in zip(names, (0, 7, 8), strict=True))
    ]
    assert store.read("../kept", 0, 9) is None
    if kind == "disk":
        assert {0o600} == {path.stat().st_mode & 0o777 for path in (tmp_path / "kept").iterdir()}
        again = DiskArtifacts(tmp_path / "kept").read(str(names[2]), 0, 99)
        assert again is not None
        assert (b"C" * 10, 10) == (again.data, again.size_bytes)
