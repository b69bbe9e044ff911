"""Diffs and their sums: right for any two texts, and bounded for the largest."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plait.hands.editing.diff import summarise, unified

TEXT = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=30).map("".join)
RAGGED = st.tuples(TEXT, st.sampled_from(["", "x"])).map("".join)


@given(RAGGED, RAGGED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_a_diff_turns_the_old_text_into_the_new(tmp_path: Path, old: str, new: str) -> None:
    """What `unified` prints is a patch: applied to the old text it gives the new one."""
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    text = unified("f", old, new)
    (tmp_path / "f").write_text(old)
    if not text:
        assert old == new
        return
    done = subprocess.run(["patch", "-s", "-p0"], input=text, text=True, cwd=tmp_path, capture_output=True)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert new == ((tmp_path / "f").read_text() if (tmp_path / "f").exists() else "")


@given(TEXT, TEXT)
def test_a_summary_counts_what_the_diff_shows(old: str, new: str) -> None:
    """Added and removed are the `+` and `-` lines, and they explain the change in length."""
    summary = summarise("f", old, new)
    assert new.count("\n") - old.count("\n") == summary.added - summary.removed
    lines = unified("f", old, new).splitlines()[2:]
    assert summary.added <= sum(line.startswith("+") for line in lines)


def test_a_large_rewrite_is_not_compared_line_by_line() -> None:
    """Two long texts with nothing in common count as replaced, at once."""
    old = "".join(f"old {number}\n" for number in range(50_000))
    new = "".join(f"new {number}\n" for number in range(40_000))
    summary = summarise("f", old, new)
    assert (40_000, 50_000) == (summary.added, summary.removed)
    assert "truncated" in unified("f", old, new)


def test_a_small_change_in_a_large_file_is_exact() -> None:
    """What both texts begin and end with does not count, however long it is."""
    lines = [f"line {number}\n" for number in range(100_000)]
    changed = [*lines[:70_000], "other\n", *lines[70_001:]]
    assert "@@ -69998,7 +69998,7 @@" in unified("f", "".join(lines), "".join(changed))


def test_a_long_diff_says_that_it_is_truncated() -> None:
    """A diff of more lines than allowed ends with a line that says so."""
    old = "".join(f"{number}\n" for number in range(1_000))
    text = unified("f", old, old.replace("\n", "!\n"), lines_max=50)
    assert (51, True) == (len(text.splitlines()), text.splitlines()[-1].startswith("(truncated"))
