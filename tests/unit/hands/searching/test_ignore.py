"""`.gitignore` files mean here what they mean to git."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plait.hands.searching.ignore import parse_ignore
from plait.hands.searching.walk import Walk
from plait.hands.workspace import OpenDirectory

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge")

PARTS = ("a", "b", "*", "**", "?", "[ab]", "[!a]", "a*b", "*.o", r"\*", r"a\ ", "ab", "[", "#a", "!b")
LINES = st.tuples(
    st.sampled_from(["", "!", "/", "!/"]),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "/", " ", "\r"]),
).map("".join)
FILES = ("a", "b", "ab", "aab", "x.o", "*", "#a", "!b", "a ", "[")


def tree(root: Path) -> None:
    """Two levels of directories with the same names in each."""
    for name in FILES:
        (root / f"{name}.f").mkdir(parents=True)
        for path in (root / name, root / f"{name}.f" / name):
            path.touch()
    for upper, lower in itertools.product(("d", "aXb"), ("a", "b")):
        (root / upper / lower).mkdir(parents=True)
        for name in ("a", "b", "x.o"):
            (root / upper / lower / f"{name}").touch()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with files of many names."""
    root = tmp_path_factory.mktemp("repository")
    if shutil.which("git") is not None:
        subprocess.run(
            ["git", "init", "-q", str(root)], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        )
    tree(root)
    return root


def git_keeps(root: Path) -> set[str]:
    """The files that git does not ignore."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
    ).stdout
    return {os.fsdecode(name) for name in listed.split(b"\0") if name}


def walk_keeps(root: Path) -> set[str]:
    """The files that a walk finds."""
    fd = os.open(root, os.O_RDONLY)
    with OpenDirectory(fd, ".") as directory:
        return {found.path for found in Walk(directory) if found.kind == "file"}


@needs_git
@given(st.lists(LINES, min_size=1, max_size=5), st.lists(LINES, max_size=2))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_walk_keeps_what_git_keeps(repository: Path, lines: list[str], nested: list[str]) -> None:
    """Whatever two ignore files say, one inside the other, the same files are left."""
    (repository / ".gitignore").write_bytes("\n".join(lines).encode())
    (repository / "d/.gitignore").write_bytes("\n".join(nested).encode())
    assert git_keeps(repository) == walk_keeps(repository)


@pytest.mark.parametrize(
    "line, path, is_directory, verdict",
    [
        ("*.o", "d/x.o", False, True),
        ("/x", "d/x", False, None),
        ("d/x", "d/x", False, True),
        ("x/", "x", False, None),
        ("x/", "x", True, True),
        ("!x", "x", False, False),
        ("# x", "# x", False, None),
        (r"\#x", "#x", False, True),
        ("a/**/b", "a/b", False, True),
        ("**/b", "a/b", False, True),
        ("b/**", "b/c/d", False, True),
        ("x ", "x", False, True),
        (r"x\ ", "x ", False, True),
        ("x\\", "x", False, None),
        ("*a" * 200, "a" * 150 + "b", False, None),
    ],
)
def test_what_lines_mean(line: str, path: str, is_directory: bool, verdict: bool | None) -> None:
    """Anchors, directories, negation, comments, escapes; and no line is slow."""
    assert verdict is parse_ignore(line).verdict(path, is_directory=is_directory)


def test_the_last_line_that_fits_decides() -> None:
    """Later lines win over earlier ones."""
    file = parse_ignore("*.o\n!keep.o\n/dir/keep.o\n")
    found = [file.verdict(path, is_directory=False) for path in ("x.o", "keep.o", "dir/keep.o", "x.c")]
    assert [True, False, True, None] == found
