"""What a command prints and how many files there are does not decide how much memory plait takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.hands.ground import python_environment

MEBIBYTE = 1 << 20
PEAK_BYTES_MAX = 100 * MEBIBYTE
_PROGRAM = """
import json, resource, sys, uuid
from pathlib import Path
from plait.core.cancel import Cancel
from plait.kernel.tools import ToolContext
from plait.tools.toolbox import Toolbox, ToolboxOptions

folder, own, size, is_kept = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "kept"
box = Toolbox(folder, ToolboxOptions(policy="read_outside", timeout_s=900))
box.keep_in(f"{own}/spool", f"{own}/spill")
call = None
if is_kept:
    call = ToolContext("c", "k", Cancel())
    intent = box.recovery("exec_shell").intend({"command": "x"}, call)
    call = ToolContext("c", "k", Cancel(), intent=intent)
told = {}
if size:
    told["lines"] = box.exec_shell(f"yes | head -c {size}", call=call)
    told["line"] = box.exec_shell(f"head -c {size} /dev/zero")
else:
    told["list"] = box.list_dir(".")
    told["names"] = box.list_names("many")
    told["info"] = box.file_info("many")
    told["glob"] = box.glob("**/*7.none")
    told["search"] = box.search_files("needle")
box.close()
status = Path("/proc/self/status").read_text()
own_peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
answers = {name: [len(text), text[-200:]] for name, (text, _) in told.items()}
print(json.dumps({"peak": max(own_peak, children)} | answers))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")


def measured(folder: Path, own: Path, size_bytes: int = 0, *, is_kept: bool = False) -> dict[str, Any]:
    """Use the tools in a process of their own; return its peak in bytes, and length and end of each answer."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder), str(own), str(size_bytes), "kept" if is_kept else "here"],
        env=python_environment(),
        capture_output=True,
        timeout=1_200,
        check=True,
    )
    return dict(json.loads(done.stdout))


def outputs_are_bounded(tmp_path: Path, size_bytes: int) -> None:
    """Have a command print so much, once kept by a supervisor and once not, and look at the peak."""
    (tmp_path / "work").mkdir()
    for is_kept in (False, True):
        told = measured(tmp_path / "work", tmp_path / "own", size_bytes, is_kept=is_kept)
        assert told["peak"] < PEAK_BYTES_MAX
        for name in ("lines", "line"):
            length, _ = told[name]
            assert length <= 32_000


def fill(folder: Path, files: int) -> None:
    """Make a directory of so many empty files; most are further names of a few, which is quicker."""
    folder.mkdir()
    fd, first = os.open(folder, os.O_RDONLY), ""
    for number in range(files):
        if number % 1_000 == 0:
            first = f"f{number}"
            (folder / first).touch()
        else:
            os.link(first, f"f{number}", src_dir_fd=fd, dst_dir_fd=fd)
    os.close(fd)


def trees_are_bounded(tmp_path: Path, files: int) -> None:
    """Put half of so many files into one directory and half into many, and look at the peak of looking for them."""
    work = tmp_path / "work"
    work.mkdir()
    try:
        fill(work / "many", files // 2)
        for number in range(files // 1_000):
            fill(work / f"d{number}", 500)
        told = measured(work, tmp_path / "own")
    finally:
        shutil.rmtree(work)  # the test's folder is kept for a while, and need not hold a million files
    assert told["peak"] < PEAK_BYTES_MAX
    assert f"entries: {files // 2}" in told["info"][1]
    assert f"1000 of {files // 2} shown" in told["names"][1]
    for name in ("glob", "search"):
        assert ("there are too many entries" in told[name][1]) == (files > 200_000)


def test_output_of_any_amount_takes_little_memory(tmp_path: Path) -> None:
    """50 MB of lines, and 50 MB that are one line, leave the peak below 100 MiB, the supervisor's included."""
    outputs_are_bounded(tmp_path, 50_000_000)


def test_many_files_take_little_memory(tmp_path: Path) -> None:
    """Listing, globbing and searching 20,000 files leaves the peak below 100 MiB."""
    trees_are_bounded(tmp_path, 20_000)


@pytest.mark.prove
def test_a_gigabyte_of_output_takes_little_memory(tmp_path: Path) -> None:
    """1 GB of lines, and 1 GB that is one line, leave the peak below 100 MiB."""
    outputs_are_bounded(tmp_path, 1_000_000_000)


@pytest.mark.prove
def test_a_million_files_take_little_memory(tmp_path: Path) -> None:
    """Listing, globbing and searching 10⁶ files leaves the peak below 100 MiB."""
    trees_are_bounded(tmp_path, 1_000_000)
