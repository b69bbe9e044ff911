"""Command lines that `rtk` rewrites, and those that it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.tools.library import Library

STUB = """#!/bin/sh
[ "$1" = rewrite ] || exit 9
case "$2" in
  "echo one") echo "echo two"; exit 3;;
  "echo silent") exit 0;;
  "echo fails") echo "echo never"; exit 1;;
  "echo slow") sleep 60;;
  "echo nul") printf 'echo \\0';;
  "echo bytes") printf 'echo \\377';;
  *) echo "$2 | tr a-z A-Z";;
esac
"""


@pytest.fixture
def library(root: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Return a library of its own, which works in the workspace."""
    monkeypatch.chdir(root)
    return Library()


def test_without_rtk_nothing_changes(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no `rtk` on the PATH, or only one that the working directory brings, commands run as they are."""
    Path("rtk").write_text(STUB)
    Path("rtk").chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin:.:")

    assert False is library.enable_rtk_rewrite()
    assert "one" == library.own.t_run("echo one")[0]


def test_what_rtk_says_runs(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer runs in place of the command, however often it is enabled; what is none in time changes nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rtk").write_text(STUB)
    (folder / "rtk").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("plait.tools.rtk._TIMEOUT_S", 0.5)

    assert [True, True] == [library.enable_rtk_rewrite(), library.enable_rtk_rewrite()]

    commands = ("echo one", "echo silent", "echo fails", "echo slow", "echo nul", "echo bytes", "echo a")
    assert ["two", "silent", "fails", "slow", "nul", "bytes", "A"] == [
        library.own.t_run(command)[0] for command in commands
    ]
