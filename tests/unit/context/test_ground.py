"""A session notices what others change, and keeps quiet about what it changes itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.context.ground import Ground
from tests.unit.context.test_git_lines import git, tree

__all__ = ["tree"]


@pytest.fixture
def ground(tree: Path) -> Ground:
    """A ground that has looked once."""
    ground = Ground(str(tree))
    assert ground.moved() is None  # the first look is silent, whatever there is
    ground.settle()
    return ground


def test_a_quiet_turn_says_nothing(ground: Ground) -> None:
    """Nothing has changed, so nothing is said."""
    assert ground.moved() is None


def test_what_others_change_is_told_once(ground: Ground, tree: Path) -> None:
    """A tracked file, one that was read, a new commit and another branch; the second look is quiet again."""
    (tree / "notes").write_text("not tracked")
    ground.touched(["notes"])
    ground.settle()
    (tree / "src" / "f1").write_text("theirs")
    (tree / "notes").unlink()
    moved = ground.moved()
    assert moved is not None
    assert (False, ("notes", "src/f1")) == (moved.is_git_changed, moved.files)
    assert (
        moved.note() == "<ground_moved>Since your last turn, not by you: changed files: notes, src/f1.</ground_moved>"
    )
    assert ground.moved() is None

    git(tree, "commit", "-qam", "theirs")
    moved = ground.moved()
    assert moved is not None
    assert (True, ()) == (moved.is_git_changed, moved.files)
    assert "branch main moved from" in moved.note()
    git(tree, "checkout", "-qb", "other")
    moved = ground.moved()
    assert moved is not None
    assert "git is on branch other (was branch main)" in moved.note()


def test_new_files_of_others_are_noticed_by_name(ground: Ground, tree: Path) -> None:
    """What appears and goes is told, once; what is ignored, and what an untracked file says, is not."""
    (tree / ".gitignore").write_text("*.log\n")
    ground.settle()
    (tree / "src" / "new").write_text("theirs")
    (tree / "added").mkdir()
    (tree / "added" / "one").write_text("theirs")
    (tree / "x.log").write_text("noise")
    moved = ground.moved()
    assert moved is not None
    assert (False, ("added", "src/new")) == (moved.is_git_changed, moved.files)
    (tree / "src" / "new").write_text("theirs, longer")
    (tree / "added" / "two").write_text("theirs")
    assert ground.moved() is None
    (tree / "src" / "new").unlink()
    moved = ground.moved()
    assert moved is not None
    assert ("src/new",) == moved.files

    (tree / "mine").write_text("mine")
    ground.touched(["mine"])
    assert ground.moved() is None
    (tree / "mine").write_text("theirs")
    moved = ground.moved()
    assert moved is not None
    assert ("mine",) == moved.files


def test_own_changes_are_quiet(ground: Ground, tree: Path) -> None:
    """A file tool's write, and whatever a command did, are taken in."""
    (tree / "src" / "f1").write_text("mine")
    ground.touched(["src/f1"])
    ground.settle()
    assert ground.moved() is None
    (tree / "src" / "f1").write_text("by a command")
    git(tree, "commit", "-qam", "mine")
    ground.ran()
    ground.settle()
    assert ground.moved() is None


def test_a_change_in_the_middle_of_a_turn_is_noticed(ground: Ground, tree: Path) -> None:
    """A file that was read, and changed by somebody before the turn ended, is told at the next."""
    ground.touched(["src/f2"])
    (tree / "src" / "f2").write_text("theirs, meanwhile")
    ground.settle()
    moved = ground.moved()
    assert moved is not None
    assert ("src/f2",) == moved.files


def test_many_changes_are_counted(ground: Ground, tree: Path) -> None:
    """Twenty names and a number."""
    for number in range(25):
        (tree / f"n{number:02}").touch()
    git(tree, "add", ".")
    moved = ground.moved()
    assert moved is not None
    assert moved.note().endswith("n19 and 5 more.</ground_moved>")


def test_without_git_read_files_are_watched(tmp_path: Path) -> None:
    """Outside of a repository too, and outside of the folder."""
    (tmp_path / "work").mkdir()
    (tmp_path / "a").write_text("1")
    ground = Ground(str(tmp_path / "work"))
    ground.touched([str(tmp_path / "a")])
    assert ground.moved() is None
    (tmp_path / "a").write_text("22")
    moved = ground.moved()
    assert moved is not None
    assert (str(tmp_path / "a"),) == moved.files


def test_of_many_folders_only_what_is_tracked_is_looked_at(tree: Path) -> None:
    """Beyond a number of folders names are not read, and no date of one of them is; tracked files still are."""
    for number in range(201):
        (tree / f"d{number}").mkdir()
        (tree / f"d{number}" / "f").write_text("x")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "many")
    ground = Ground(str(tree))
    ground.settle()
    (tree / "d0" / "new").write_text("theirs")
    assert ground.moved() is None
    (tree / "d200" / "f").write_text("theirs")
    moved = ground.moved()
    assert moved is not None
    assert ("d200/f",) == moved.files
