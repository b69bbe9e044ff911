"""The sample repository: copied, tested and compared.

Floor: 7. Owns: the files under `sample/` and the verdict on a copy of them; never: how it is mended.

The files end in `.txt`, so that no tool takes them for modules of plait.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_DATA_SUFFIX: Final = ".txt"
_TEST_TIMEOUT_S: Final = 60


def command_for_tests() -> str:
    """Return the command that runs the sample's tests, given `environment_for_tests`."""
    return f"{_interpreter().name} -m unittest"


def environment_for_tests() -> dict[str, str]:
    """Return this process's environment, changed so that `command_for_tests` finds this very interpreter."""
    path = os.pathsep.join([str(_interpreter().parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _interpreter() -> Path:
    """Return this interpreter where it really is: a link to it need not be visible in a sandbox."""
    return Path(os.path.realpath(sys.executable))


def copy_to(folder: Path) -> None:
    """Write the sample's files into an existing, empty folder."""
    for name, text in _files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")


def run_tests(folder: Path) -> tuple[bool, str]:
    """Run the tests of a copy; return whether they all passed, and what was printed."""
    ran = subprocess.run(
        [sys.executable, "-m", "unittest"],
        cwd=folder,
        env=environment_for_tests(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_TEST_TIMEOUT_S,
        check=False,
    )
    return ran.returncode == 0, ran.stdout.decode("utf-8", "replace")


def diff(folder: Path) -> str:
    """Return what was changed in a copy, as a unified diff."""
    lines: list[str] = []
    for name, before in _files():
        path = folder / name
        after = path.read_text(encoding="utf-8") if path.is_file() else ""
        lines += difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    return "".join(lines)


def _files() -> Iterator[tuple[str, str]]:
    """Yield the path of each file in a copy, and its text."""
    root = resources.files("plait.cli.demo") / "sample"
    yield from _files_below(root, "")


def _files_below(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_below(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_DATA_SUFFIX):
            yield f"{prefix}{entry.name.removesuffix(_DATA_SUFFIX)}", entry.read_text(encoding="utf-8")
