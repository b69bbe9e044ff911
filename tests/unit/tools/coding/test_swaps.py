"""Somebody swaps a part of a path before each system call in turn: nothing outside is read, written or named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from plait.hands import beneath
from plait.kernel.tools import Tool, as_result
from plait.tools.coding import coding_tools

CANARY: Final = "canary of the outside"
CALLS: Final = "open stat mkdir rename link unlink rmdir readlink scandir listdir".split()
"""The functions through which tools reach the file system."""
ATTEMPTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "read": ("read_file", {"path": "d/e/b.txt"}),
    "create": ("write_file", {"path": "d/e/new.txt", "content": "x"}),
    "create deep": ("write_file", {"path": "d/e/f/new.txt", "content": "x"}),
    "replace": ("write_file", {"path": "d/e/b.txt", "content": "x", "overwrite": True}),
    "edit": ("edit_file", {"path": "d/e/b.txt", "old_text": "inside", "new_text": "changed"}),
    "list": ("list_directory", {"path": "d/e"}),
    "glob": ("glob", {"pattern": "d/**/*.txt"}),
    "search": ("search_files", {"pattern": "canary"}),
    "search one": ("search_files", {"pattern": "canary", "path": "d/e/b.txt"}),
}


class Ground:
    """A workspace and what stands outside it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outside = folder / "root", folder / "outside"
        for base, word in ((self.root / "d", "inside"), (self.root / "spare", "inside"), (self.outside, CANARY)):
            (base / "e").mkdir(parents=True)
            for name in ("e/b.txt", "e/private.txt" if base is self.outside else "e/c.txt", "a.txt"):
                (base / name).write_text(word)

    def secret(self) -> dict[str, str]:
        """Return what is outside: every path, with what it holds."""
        return {str(path): path.read_text() if path.is_file() else "" for path in sorted(self.outside.rglob("*"))}


Swap = Callable[[Ground], None]


def link_directory(ground: Ground) -> None:
    """A directory on the way becomes a link to the outside."""
    os.rename(ground.root / "d", ground.root / "aside")
    os.symlink(ground.outside, ground.root / "d")


def link_deep(ground: Ground) -> None:
    """The last directory becomes a link to the outside."""
    os.rename(ground.root / "d/e", ground.root / "aside")
    os.symlink(ground.outside / "e", ground.root / "d/e")


def link_file(ground: Ground) -> None:
    """The file becomes a link to one outside; so does the one that is to be created."""
    for name in ("b.txt", "new.txt", "c.txt"):
        (ground.root / "d/e" / name).unlink(missing_ok=True)
        os.symlink(ground.outside / "e/b.txt", ground.root / "d/e" / name)


def link_missing(ground: Ground) -> None:
    """What is to be created as a directory is there already, as a link to the outside."""
    if not (ground.root / "d/e/f").exists():
        os.symlink(ground.outside / "e", ground.root / "d/e/f")


def exchange(ground: Ground) -> None:
    """Another directory takes the place of the first one."""
    os.rename(ground.root / "d", ground.root / "aside")
    os.rename(ground.root / "spare", ground.root / "d")


SWAPS: Final[tuple[Swap, ...]] = (link_directory, link_deep, link_file, link_missing, exchange)


@contextmanager
def adversary(ground: Ground, swap: Swap | None, at: int) -> Iterator[list[int]]:
    """Swap before the system call number `at`; count them all."""
    seen = [0]
    originals = {name: getattr(os, name) for name in CALLS}
    is_acting = False

    def watching(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal is_acting
            if not is_acting:
                if seen[0] == at and swap is not None:
                    is_acting = True
                    try:
                        swap(ground)
                    finally:
                        is_acting = False
                seen[0] += 1
            return originals[name](*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, watching(name))
        yield seen


def attempt(folder: Path, what: str, swap: Swap | None, at: int) -> int:
    """Make one call with one swap; look at what it said and at the outside; return how many system calls it made."""
    ground = Ground(folder)
    before = ground.secret()
    tools: dict[str, Tool] = {tool.name: tool for tool in coding_tools(ground.root, authorize=lambda _: True)}
    name, arguments = ATTEMPTS[what]
    with adversary(ground, swap, at) as seen:
        result = as_result("1", tools[name].fn(**arguments))
    said = result.content + json.dumps(dict(result.data or {}))
    where = (what, swap, at, said)
    assert CANARY not in said, where
    assert "private" not in said, where
    assert before == ground.secret(), where
    shutil.rmtree(folder)
    return seen[0]


def assault(folder: Path, what: str, walk: str, *, is_whole: bool) -> None:
    """Make a call with every swap before every system call; the short form takes one swap for each, on one walk."""
    with pytest.MonkeyPatch.context() as patch:
        if walk == "name by name":
            patch.setattr(beneath.ByKernel, "probe", classmethod(lambda *_, **__: None))
        count = attempt(folder / "count", what, None, 0)
        assert count > 2
        for number, swap in enumerate(SWAPS, len(SWAPS) * (walk == "name by name")):
            for at in range(count):
                if is_whole or at % (2 * len(SWAPS)) == number:
                    attempt(folder / f"{swap.__name__}-{at}", what, swap, at)


@pytest.mark.parametrize("walk", ["by kernel", "name by name"])
@pytest.mark.parametrize("what", ATTEMPTS)
def test_p_cod_1_a_swap_before_any_system_call_leads_nowhere(tmp_path: Path, what: str, walk: str) -> None:
    """Whichever part is swapped, and whenever: no byte outside is read, written, created or told."""
    assault(tmp_path, what, walk, is_whole=False)


@pytest.mark.prove
@pytest.mark.parametrize("walk", ["by kernel", "name by name"])
@pytest.mark.parametrize("what", ATTEMPTS)
def test_p_cod_1_every_swap_before_every_system_call(tmp_path: Path, what: str, walk: str) -> None:
    """The same, with each swap at each place."""
    assault(tmp_path, what, walk, is_whole=True)
