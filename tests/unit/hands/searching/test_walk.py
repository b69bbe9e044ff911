"""The descent: in order, within its limits, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.hands.searching.walk import Walk, WalkRules
from plait.hands.workspace import OpenDirectory


def walk(root: Path, **rules: object) -> tuple[list[str], Walk]:
    """Walk below a directory; return the paths and the walk with its counts."""
    with OpenDirectory(os.open(root, os.O_RDONLY), ".") as directory:
        one = Walk(directory, WalkRules(**rules))  # type: ignore[arg-type]
        return [found.path for found in one], one


def fill(root: Path, *paths: str) -> None:
    """Make empty files."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def test_the_order_is_that_of_names(tmp_path: Path) -> None:
    """Sorted by name, each directory followed by what is in it, whatever order the disk has."""
    fill(tmp_path, "b", "a/z", "a/b/c", "a-b/c", "a.x")
    assert ["a", "a/b", "a/b/c", "a/z", "a-b", "a-b/c", "a.x", "b"] == walk(tmp_path)[0]


def test_links_are_seen_and_not_followed(tmp_path: Path) -> None:
    """A link is an entry; what it leads to is not entered, be it inside, outside or the link itself."""
    fill(tmp_path, "root/d/f", "outside/secret")
    (tmp_path / "root/out").symlink_to(tmp_path / "outside")
    (tmp_path / "root/loop").symlink_to(".")
    assert ["d", "d/f", "loop", "out"] == walk(tmp_path / "root")[0]


def test_a_directory_that_becomes_a_link_is_not_entered(tmp_path: Path) -> None:
    """Between the look and the descent the directory is swapped: it counts as skipped."""
    fill(tmp_path, "root/d/f", "outside/secret")

    def swap(path: str, _is_directory: bool) -> bool:
        if path == "d":
            (tmp_path / "root/d").rename(tmp_path / "away")
            (tmp_path / "root/d").symlink_to(tmp_path / "outside")
        return True

    paths, one = walk(tmp_path / "root", admit=swap)
    assert (["d"], 1) == (paths, one.skipped_directories)


def test_noise_is_passed_over_and_counted(tmp_path: Path) -> None:
    """Directories that hold no source are not entered, unless the rules say otherwise."""
    fill(tmp_path, ".git/x", "node_modules/x", "__pycache__/x", "src/x", ".github/x")
    paths, one = walk(tmp_path)
    assert ([".github", ".github/x", "src", "src/x"], 3) == (paths, one.skipped_directories)
    assert ".git/x" in walk(tmp_path, noise=frozenset())[0]


def test_a_base_inside_noise_is_walked(tmp_path: Path) -> None:
    """What counts are the names below the base: a project inside `.venv` is found whole."""
    fill(tmp_path, ".venv/project/src/x")
    assert ["src", "src/x"] == walk(tmp_path / ".venv/project")[0]


def test_ignore_files_hold_below_their_directory(tmp_path: Path) -> None:
    """Nearer files win, ignored directories are not entered, and what is ignored is counted."""
    fill(tmp_path, "a.log", "d/a.log", "d/keep.log", "build/x", "d/build/y")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    (tmp_path / "d/.gitignore").write_text("!keep.log\n")
    paths, one = walk(tmp_path)
    assert ([".gitignore", "d", "d/.gitignore", "d/keep.log"], 4) == (paths, one.ignored)
    assert "build/x" in walk(tmp_path, respects_ignore_files=False)[0]


def test_the_host_is_asked_before_anything_is_opened(tmp_path: Path) -> None:
    """A refused directory is neither reported nor entered; nothing below it is asked about."""
    fill(tmp_path, "credentials/x", "credentials-backup/x", "f")
    asked: list[str] = []

    def admit(path: str, _is_directory: bool) -> bool:
        asked.append(path)
        return path != "credentials"

    assert ["credentials-backup", "credentials-backup/x", "f"] == walk(tmp_path, admit=admit)[0]
    assert ["credentials", "credentials-backup", "credentials-backup/x", "f"] == asked


def test_forbidden_places_are_not_entered(tmp_path: Path) -> None:
    """What is forbidden is known by device and inode, as a directory and as a file with another name."""
    fill(tmp_path, "keys/id", "f")
    (tmp_path / "link").hardlink_to(tmp_path / "keys/id")
    status = [os.stat(tmp_path / name) for name in ("keys", "keys/id")]
    assert ["f"] == walk(tmp_path, forbidden=frozenset((one.st_dev, one.st_ino) for one in status))[0]


def test_limits_end_a_walk(tmp_path: Path) -> None:
    """Too many entries, a deadline and a cancel end the descent, and the reason is told."""
    fill(tmp_path, *(f"{number:03}" for number in range(300)))
    paths, one = walk(tmp_path, entries_max=10)
    assert (10, "entries") == (len(paths), one.stopped)
    assert "deadline" == walk(tmp_path, deadline_s=0)[1].stopped
    cancel = Cancel()
    cancel.cancel("user")
    assert "cancelled" == walk(tmp_path, cancel=cancel)[1].stopped


def test_names_of_any_bytes_are_walked(tmp_path: Path) -> None:
    """Names that are not UTF-8, with newlines or colons are names."""
    names = [b"a\nb", b"a:b", b"\xff"]
    for name in names:
        (tmp_path / os.fsdecode(name)).touch()
    assert sorted(map(os.fsdecode, names)) == walk(tmp_path)[0]


def test_an_unreadable_ignore_file_ignores_nothing(tmp_path: Path) -> None:
    """A `.gitignore` that is a pipe, a link or a directory is no rule, and nothing hangs."""
    fill(tmp_path, "a/f", "b/f", "c/f", "rules")
    (tmp_path / "rules").write_text("f\n")
    os.mkfifo(tmp_path / "a/.gitignore")
    (tmp_path / "b/.gitignore").symlink_to("../rules")
    (tmp_path / "c/.gitignore").mkdir()
    assert {"a/f", "b/f", "c/f"} <= set(walk(tmp_path)[0])


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """A walk that is given up in the middle closes what it had opened."""
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("descriptors are counted through /proc")
    fill(tmp_path, "a/b/c/d/e")
    before = len(os.listdir("/proc/self/fd"))
    with OpenDirectory(os.open(tmp_path, os.O_RDONLY), ".") as directory:
        entries = iter(Walk(directory))
        for _ in range(4):
            next(entries)
        entries.close()  # type: ignore[attr-defined]
    assert before == len(os.listdir("/proc/self/fd"))
