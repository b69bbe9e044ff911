"""Repositories inside a workspace: found in bounded time, without listing again what has not changed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from plait.hands.fence import repositories
from plait.hands.fence.repositories import Repositories


def settled(root: Path) -> None:
    """Wait until a change after this one would show in the time of the last one."""
    while time.time_ns() - max(os.stat(folder).st_ctime_ns for folder, _, _ in os.walk(root)) <= 110_000_000:
        time.sleep(0.01)


def test_nearest_first_whatever_git_is(tmp_path: Path) -> None:
    """Directories, files that point elsewhere and links; the workspace's own is not one of them; links are no way."""
    for path in (".git", "deep/down/here/.git/hooks", "near/.GIT", "deep/.git/inner/.git"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "pointer").mkdir()
    (tmp_path / "pointer/.git").write_text("gitdir: ../deep/.git")
    (tmp_path / "around").symlink_to(tmp_path / "deep")
    found = Repositories(str(tmp_path)).look()
    assert {"near", "deep", "pointer", "deep/down/here"} == set(found)
    assert "deep/down/here" == found[-1]


def test_what_has_not_changed_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that came since is found, also where somebody has set the directory's time back."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    settled(tmp_path)
    listed: list[str] = []
    scandir = os.scandir

    def counted(path: Any) -> Any:
        listed.append(os.path.relpath(path, tmp_path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    monkeypatch.setattr(repositories, "_SOON_PER_COST", 0)
    subject = Repositories(str(tmp_path))
    assert () == subject.look()
    assert {".", "a", "c", "a/b"} == set(listed)
    assert "a/b" == listed[-1]
    listed.clear()
    assert () == subject.look(soon=True)
    assert [] == listed
    (tmp_path / "a/b/.git").mkdir()
    os.utime(tmp_path / "a/b", (0, 0))
    assert ("a/b",) == subject.look(soon=True)
    assert ["a/b"] == listed


def test_a_walk_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No look takes longer than it may; what is known is told meanwhile, and a repository that went is forgotten."""
    for number in range(300):
        (tmp_path / f"d{number}").mkdir()
    (tmp_path / "d299/x/.git").mkdir(parents=True)
    monkeypatch.setattr(repositories, "BUDGET_S", -1.0)
    monkeypatch.setattr(repositories, "_AGE_PER_COST", 0)
    subject, looks, found = Repositories(str(tmp_path)), 0, ()
    while not subject.is_whole:
        found, looks = subject.look(), looks + 1
    assert (("d299/x",), 10) == (found, looks)
    os.rmdir(tmp_path / "d299/x/.git")
    assert ("d299/x",) == subject.look(), "it is known until a walk has not found it"
    while not subject.is_whole:
        found = subject.look()
    assert () == found
