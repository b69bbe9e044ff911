"""Tools of both kinds while somebody swaps a directory for a link to the outside under them."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from plait.kernel.tools import Tool, as_result
from plait.tools.aliases import default_tools, kernel_options
from plait.tools.coding import coding_tools
from plait.tools.toolbox import Toolbox

CANARY = "canary of the outside"


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[None]:
    """Let `root/d` be a directory at one moment and a link to `outside` at the next, until the block ends."""
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "d", root / "aside")
            with suppress(FileExistsError):  # a tool has just made the directory that was missing
                os.symlink(outside, root / "d")
            while True:
                try:
                    os.unlink(root / "d") if (root / "d").is_symlink() else shutil.rmtree(root / "d", True)
                    os.rename(root / "aside", root / "d")
                    break
                except OSError:
                    continue

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def attempts(number: int) -> list[tuple[str, dict[str, object]]]:
    """Return one call of each kind at the place that is swapped."""
    return [
        ("read_file", {"path": "d/a.txt"}),
        ("write_file", {"path": f"d/new-{number}.txt", "content": "x"}),
        ("write_file", {"path": f"d/sub-{number}/new.txt", "content": "x"}),
        ("edit_file", {"path": "d/a.txt", "old_text": "a", "new_text": "b"}),
        ("edit_file", {"path": "d/a.txt", "old": "a", "new": "b"}),
        ("list_directory", {"path": "d"}),
        ("glob", {"pattern": "**/*.txt"}),
        ("find_files", {"pattern": "d/*.txt"}),
        ("search_files", {"pattern": "canary"}),
        ("search_text", {"pattern": "canary", "path": "d"}),
    ]


def make_strict(root: Path) -> list[Tool]:
    return coding_tools(root, authorize=lambda _request: True)


def make_kernel(root: Path) -> list[Tool]:
    return default_tools(Toolbox(root, kernel_options()))


def assault(make: Callable[[Path], list[Tool]], root: Path, times: int) -> None:
    """Call every tool many times during the swaps, and look at what it said and at what the outside holds then."""
    outside = root.parent / "outside"
    for folder in (outside, root / "d"):
        folder.mkdir()
    (outside / "a.txt").write_text(CANARY)
    (outside / "private.txt").write_text(CANARY)
    (root / "d/a.txt").write_text("inside")
    tools = {tool.name: tool for tool in make(root)}
    with swapping(root, outside):
        for number in range(times):
            for name, arguments in attempts(number):
                tool = tools.get(name)
                if tool is None or not set(arguments) <= set(tool.resolved_param_map):
                    continue
                result = as_result("1", tool.fn(**arguments))
                said = result.content + json.dumps(dict(result.data or {}))
                assert CANARY not in said
                assert "private.txt" not in said
    assert ["a.txt", "private.txt"] == sorted(os.listdir(outside))
    assert [CANARY, CANARY] == [path.read_text() for path in sorted(outside.iterdir())]


@pytest.mark.parametrize("make", [make_strict, make_kernel])
def test_p_cod_1_nothing_outside_is_touched_or_told(make: Callable[[Path], list[Tool]], root: Path) -> None:
    """Whatever is swapped between any two steps, no byte outside is read, written, created or named."""
    assault(make, root, 15)


@pytest.mark.prove
@pytest.mark.parametrize("make", [make_strict, make_kernel])
def test_p_cod_1_at_length(make: Callable[[Path], list[Tool]], root: Path) -> None:
    """The same, some thousand calls long."""
    assault(make, root, 300)
