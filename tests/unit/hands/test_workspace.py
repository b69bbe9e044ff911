"""The workspace: what can be reached beneath a root, and that nothing else can, whoever swaps what under it."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from plait.core.errors import Refusal
from plait.hands.beneath import ByKernel
from plait.hands.editing.edit import plan_write
from plait.hands.workspace import OpenFile, Workspace
from tests.unit.hands.ground import Ground

_SWAP = """
import ctypes, os, sys
swap = ctypes.CDLL(None).renameat2
one, other = (os.fsencode(name) for name in sys.argv[1:])
print(flush=True)
while True:
    swap(-100, one, -100, other, 2)
"""


def read(opened: OpenFile) -> str:
    """Read and close."""
    with opened:
        return os.read(opened.fd, 1_000).decode()


def refusal_of(call: Callable[[], object]) -> str:
    """The code with which a call is refused."""
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value.refusal


def test_files_beneath_are_read(ground: Ground, either_walk: Workspace) -> None:
    """A file is found by its relative and its absolute path, and through links that stay beneath."""
    (ground.root / "a/b").mkdir(parents=True)
    (ground.root / "a/b/file").write_text("text")
    (ground.root / "link").symlink_to("a/b")
    (ground.root / "a/up").symlink_to("../a/b/file")
    (ground.root / "whole").symlink_to(ground.root / "a/b/file")
    (ground.root / "chain").symlink_to("whole")
    paths = ["a/b/file", str(ground.root / "a/b/file"), "link/file", "a/up", "whole", "chain", "a/../link/file"]
    assert ["text"] * len(paths) == [read(either_walk.open_file(path)) for path in paths]


@pytest.mark.parametrize(
    "target", ["../outside/canary", "{outside}/canary", "../outside", "sub/../../outside/canary", "loop", "/", ".."]
)
def test_links_that_leave_are_refused(ground: Ground, either_walk: Workspace, target: str) -> None:
    """A link to the outside is refused as a file, as a directory, for reading and for writing."""
    (ground.root / "sub").mkdir()
    (ground.root / "loop").symlink_to("loop")
    (ground.root / "link").symlink_to(target.format(outside=ground.outside))
    codes = {
        refusal_of(lambda: either_walk.open_file("link")),
        refusal_of(lambda: either_walk.open_file("link/canary")),
        refusal_of(lambda: either_walk.pin("link/new", "write")),
        refusal_of(lambda: either_walk.open_directory("link")),
    }
    assert {"FORBIDDEN"} == codes
    assert ground.untouched()


@pytest.mark.parametrize("path", ["../outside/canary", "/etc/passwd", "~/../../outside/canary"])
def test_paths_that_leave_are_refused(either_walk: Workspace, path: str) -> None:
    """A path outside is refused, with the words that say so."""
    with pytest.raises(Refusal, match="escapes working directory"):
        either_walk.open_file(path)


def test_strict_follows_no_link(ground: Ground) -> None:
    """In the strict style a link is refused even when it stays inside, as a directory and as the last name."""
    (ground.root / "dir").mkdir()
    (ground.root / "dir/file").write_text("text")
    (ground.root / "link").symlink_to("dir")
    (ground.root / "last").symlink_to("dir/file")
    for uses_openat2 in (True, False):
        workspace = ground.workspace(style="strict", uses_openat2=uses_openat2)
        assert "text" == read(workspace.open_file("dir/file"))
        assert "FORBIDDEN" == refusal_of(lambda: workspace.open_file("link/file"))  # noqa: B023
        assert "FORBIDDEN" == refusal_of(lambda: workspace.pin("last", "write"))  # noqa: B023


def test_what_is_no_regular_file_is_not_opened(ground: Ground, either_walk: Workspace) -> None:
    """Pipes, sockets, devices and directories are refused with what they are, and nothing hangs."""
    os.mkfifo(ground.root / "pipe")
    (ground.root / "dir").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(ground.root)  # a socket's path may be short only
        listener.bind("socket")
        os.chdir(here)
    (ground.root / "null").symlink_to("/dev/null")
    assert "UNSUPPORTED_CONTENT" == refusal_of(lambda: either_walk.open_file("pipe"))
    assert "UNSUPPORTED_CONTENT" == refusal_of(lambda: either_walk.open_file("socket"))
    assert "INVALID_INPUT" == refusal_of(lambda: either_walk.open_file("dir"))
    assert "FORBIDDEN" == refusal_of(lambda: either_walk.open_file("null"))


def test_what_is_missing_is_said(ground: Ground, either_walk: Workspace) -> None:
    """A missing file, a missing directory and a file in the place of a directory are told apart from escapes."""
    (ground.root / "file").write_text("")
    assert "NOT_FOUND" == refusal_of(lambda: either_walk.open_file("no"))
    assert "NOT_FOUND" == refusal_of(lambda: either_walk.open_file("no/such/file"))
    assert "NOT_FOUND" == refusal_of(lambda: either_walk.open_file("file/below"))
    assert "NOT_FOUND" == refusal_of(lambda: either_walk.open_directory("no"))
    assert "INVALID_INPUT" == refusal_of(lambda: either_walk.open_directory("file"))
    assert "INVALID_INPUT" == refusal_of(lambda: either_walk.open_file("x" * 300))


def test_a_pin_knows_what_is_missing(ground: Ground, either_walk: Workspace) -> None:
    """A name whose directories do not exist yet is pinned at the deepest one that does; nothing is created."""
    (ground.root / "a").mkdir()
    with either_walk.pin("a/b/c/file", "write") as pinned:
        assert (("b", "c"), "file", "a/b/c/file", None) == (
            pinned.missing,
            pinned.name,
            pinned.shown,
            pinned.status(),
        )
    assert [] == list((ground.root / "a").iterdir())


def test_a_dangling_link_names_nothing(ground: Ground, either_walk: Workspace) -> None:
    """What a link leads to must exist: nothing is created at the end of one that leads nowhere."""
    (ground.root / "dangling").symlink_to("not/there")
    assert "NOT_FOUND" == refusal_of(lambda: either_walk.pin("dangling", "write"))
    assert "NOT_FOUND" == refusal_of(lambda: either_walk.pin("dangling/file", "write"))


def test_a_pin_through_a_link_is_at_its_target(ground: Ground, either_walk: Workspace) -> None:
    """Writing through a link changes the file that it leads to, and the link stays."""
    (ground.root / "real").write_text("old")
    (ground.root / "link").symlink_to("real")
    with either_walk.pin("link", "write") as pinned:
        plan_write(pinned, "new").apply()
    assert ("new", "real") == ((ground.root / "real").read_text(), os.readlink(ground.root / "link"))


def test_a_pin_notices_that_its_directory_moved(ground: Ground, either_walk: Workspace) -> None:
    """`is_in_place` is about the path: another directory under the same name is another place."""
    (ground.root / "a").mkdir()
    with either_walk.pin("a/file", "write") as pinned:
        assert pinned.is_in_place()
        (ground.root / "a").rename(ground.root / "b")
        assert not pinned.is_in_place()
        (ground.root / "a").mkdir()
        assert not pinned.is_in_place()


def test_a_renamed_root_is_still_the_root(ground: Ground) -> None:
    """The root is opened once: moving it moves the workspace along, and what takes its name is another place."""
    (ground.root / "file").write_text("inside")
    workspace = ground.workspace()
    ground.root.rename(ground.root.with_name("moved"))
    ground.outside.rename(ground.root)
    assert "inside" == read(workspace.open_file("file"))
    assert "NOT_FOUND" == refusal_of(lambda: workspace.open_file("canary"))


def test_a_root_that_is_a_link_is_resolved_once(ground: Ground, tmp_path: Path) -> None:
    """Paths through the link and through the real name both are inside."""
    (ground.root / "file").write_text("text")
    (tmp_path / "link").symlink_to("root")
    workspace = Workspace(tmp_path / "link")
    paths = [str(tmp_path / "link/file"), str(ground.root / "file")]
    assert ["text", "text"] == [read(workspace.open_file(path)) for path in paths]


def test_a_directory_without_leave_to_list_is_passed(ground: Ground, as_ordinary_user: Callable[..., str]) -> None:
    """A directory that may be entered but not listed does not stand in the way, whichever walk it is."""
    (ground.root / "dark").mkdir()
    (ground.root / "dark/file").write_text("text")
    (ground.root / "dark").chmod(0o111)
    code = """
import os, sys
from plait.hands.workspace import Workspace, WorkspaceOptions
for uses_openat2 in (True, False):
    workspace = Workspace(sys.argv[1], WorkspaceOptions(uses_openat2=uses_openat2))
    print(os.read(workspace.open_file("dark/file").fd, 10).decode())
"""
    assert "text\ntext\n" == as_ordinary_user(code, str(ground.root))


def test_files_without_leave_are_refused(ground: Ground, as_ordinary_user: Callable[..., str]) -> None:
    """A file that this user may not read is refused in words."""
    (ground.root / "shut").write_text("text")
    (ground.root / "shut").chmod(0)
    code = """
import sys
from plait.core.errors import Refusal
from plait.hands.workspace import Workspace
try:
    Workspace(sys.argv[1]).open_file("shut")
except Refusal as refusal:
    print(refusal.refusal, refusal)
"""
    assert "FORBIDDEN cannot read 'shut': permission denied\n" == as_ordinary_user(code, str(ground.root))


def test_nothing_is_left_open(ground: Ground, either_walk: Workspace) -> None:
    """Whatever succeeds or fails, no descriptor stays behind."""
    (ground.root / "a/b").mkdir(parents=True)
    (ground.root / "a/b/file").write_text("text")
    (ground.root / "a/link").symlink_to("b/file")
    (ground.root / "out").symlink_to(ground.outside)
    before = sorted(os.listdir("/proc/self/fd")) if sys.platform == "linux" else []
    for path in ("a/b/file", "a/link", "out/canary", "a/no", "no/no", "a/b/file/x", ".", "../x", "a"):
        with suppress(Refusal):
            either_walk.open_file(path).close()
        with suppress(Refusal):
            either_walk.pin(path).close()
    assert before == (sorted(os.listdir("/proc/self/fd")) if sys.platform == "linux" else [])


def test_the_kernels_walk_is_used_here(ground: Ground) -> None:
    """On a Linux that has openat2, the probe finds it."""
    if sys.platform != "linux" or tuple(map(int, os.uname().release.split(".")[:2])) < (5, 6):
        pytest.skip("this kernel has no openat2")
    fd = os.open(ground.root, os.O_RDONLY)
    try:
        assert ByKernel.probe(fd, follows_links=True, is_top=False) is not None
    finally:
        os.close(fd)


@pytest.mark.parametrize("path", ["a/b/file", "a/link", "a/abs", "a/b/../b/file"])
@pytest.mark.parametrize("victim", ["a", "a/b", "a/b/file"])
def test_a_swap_before_any_system_call_reaches_nothing_outside(ground: Ground, path: str, victim: str) -> None:
    """Whichever component becomes a link to the outside, and before whichever call: only inside bytes are read."""
    outside = ground.outside / "canary" if victim.endswith("file") else ground.outside
    for strike in range(20):
        shutil.rmtree(ground.root / "a", ignore_errors=True)
        (ground.root / "a/b").mkdir(parents=True)
        (ground.root / "a/b/file").write_text("inside")
        (ground.root / "a/b/canary").write_text("inside")
        (ground.root / "a/link").symlink_to("b/file")
        (ground.root / "a/abs").symlink_to(ground.root / "a/b/file")
        calls = 0

        def swap(_call: str, strike: int = strike) -> None:
            nonlocal calls
            if calls == strike:
                (ground.root / victim).rename(ground.root / "away")
                (ground.root / victim).symlink_to(outside)
            calls += 1

        workspace = ground.workspace(uses_openat2=False, before=swap)
        with suppress(Refusal):
            assert "inside" == read(workspace.open_file(path))
        with suppress(Refusal), workspace.pin(path, "write") as pinned:
            plan_write(pinned, "written").apply()
        workspace.close()
        (ground.root / victim).unlink(missing_ok=True) if (ground.root / victim).is_symlink() else None
        shutil.rmtree(ground.root / "away", ignore_errors=True)
        (ground.root / "away").unlink(missing_ok=True)
        assert ground.untouched()


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names as fast as another process can."""
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("this system cannot exchange two names")
    swapper = subprocess.Popen([sys.executable, "-S", "-c", _SWAP, str(one), str(other)], stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        yield
    finally:
        swapper.kill()
        swapper.communicate()


def race(ground: Ground, workspace: Workspace, attempts: int) -> tuple[int, int]:
    """Read and pin through a directory that is being exchanged with a link to the outside; count what came of it."""
    (ground.root / "dir/sub").mkdir(parents=True)
    (ground.root / "dir/sub/canary").write_text("inside")
    decoy = ground.outside.parent / "decoy"
    decoy.mkdir()
    (decoy / "sub").symlink_to(ground.outside)
    (ground.root / "link").symlink_to(decoy)
    inside = refused = 0
    with swapping(ground.root / "dir", ground.root / "link"):
        for number in range(attempts):
            try:
                assert "inside" == read(workspace.open_file("dir/sub/canary"))
                if number % 40 == 0:
                    with workspace.pin(f"dir/sub/{number}", "write") as pinned:
                        plan_write(pinned, "inside").apply()
                inside += 1
            except Refusal:
                refused += 1
    return inside, refused


def test_an_exchanged_directory_leads_nowhere(ground: Ground, either_walk: Workspace) -> None:
    """While another process exchanges a directory with a link to the outside, nothing outside is read or written."""
    inside, refused = race(ground, either_walk, 1_500)
    assert ground.untouched()
    assert 1_500 == inside + refused
    assert inside


@pytest.mark.prove
def test_an_exchanged_directory_leads_nowhere_for_long(ground: Ground, either_walk: Workspace) -> None:
    """The same, a hundred thousand times, with both outcomes seen."""
    inside, refused = race(ground, either_walk, 100_000)
    assert ground.untouched()
    assert inside > 1_000
    assert refused > 1_000
