"""X03: a fenced process that swaps directories for links, while the file tools work where it works."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.hands.command import Command, RunOptions
from plait.hands.fence.fence import open_fence
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.process import run
from plait.tools.answer import as_answer
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.helpers.campaigns import Campaign

SWAPS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
number = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
os.symlink(sys.argv[1], "link")
swapped = ctypes.c_char_p(b"place"), ctypes.c_char_p(b"link")
print("ready", flush=True)
while True:
    for _ in range(100):
        libc.syscall(number, -100, swapped[0], -100, swapped[1], 2)
"""
CANARY = "what only the user may read"


def outside_of(folder: Path) -> dict[str, str]:
    """Return what stands in a folder, with its content."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_no_swap_leads_a_file_tool_out(tmp_path: Path, campaign: Campaign) -> None:
    """Reads, writes, edits, new directories and searches in a place that is exchanged all the time stay inside."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    for folder in (workspace / "place", outside):
        folder.mkdir(parents=True)
    for folder, text in ((workspace / "place", "inside"), (outside, CANARY)):
        (folder / "file").write_text(f"{text}\n")
    before = outside_of(outside)
    fence = open_fence(SandboxPolicy(workspace))
    stop, ready = Cancel(), threading.Event()
    options = RunOptions(
        cwd=str(workspace),
        environment=fence.environment(os.environ),
        timeout_s=600,
        grace_s=0,
        on_output=lambda _text, _stream: ready.set(),
        fence=fence,
    )
    command = Command((fence.ground.interpreter, "-c", SWAPS, str(outside)))  # type: ignore[attr-defined]
    swapping = threading.Thread(target=run, args=(command, options, stop))
    swapping.start()
    box = Toolbox(workspace, ToolboxOptions(policy="inside_only", fence=fence))
    try:
        assert ready.wait(20)
        said, tries = attempts(box, campaign)
    finally:
        stop.cancel("done")
        swapping.join(30)
        box.close()

    assert before == outside_of(outside)
    assert CANARY not in "".join(said)
    assert {True, False} == {text.startswith("ERROR") for text in said}  # it met the link, and it met the directory
    assert tries == 5 * campaign.cases


def attempts(box: Toolbox, campaign: Campaign) -> tuple[set[str], int]:
    """Use every file tool in the place, many times; return what was said, each thing once."""
    said: set[str] = set()
    tries = 0
    for turn in campaign.seeds(30, 20_000):
        name = f"made-{turn % 7}"
        for reply in (
            box.read_file("place/file"),
            box.write_file(f"place/{name}", "x"),
            box.str_replace("place/file", "inside", "inside"),
            box.write_file(f"place/{name}-folder/deep/file", "x"),
            box.glob("place/*") if turn % 4 == 0 else box.list_dir("place"),
        ):
            said.add(as_answer(reply)[0])
            tries += 1
        if turn % 10 == 0:  # it starts a program
            said.add(as_answer(box.search_files("only the user", "."))[0].replace(json.dumps(CANARY), ""))
    return said, tries
