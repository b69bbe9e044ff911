"""Glob patterns mean what a slow and simple matcher says, and nothing makes them slow."""

from __future__ import annotations

import fnmatch
import re
import time
from functools import lru_cache

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import Refusal
from plait.hands.searching.globs import compile_glob

NAMES = st.sampled_from(["a", "b", "ab", ".a", "a.py", "b.py", "aab", "[", "{a}"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PIECES = st.sampled_from(
    ["a", "b", "*", "?", "[ab]", "[!a]", "[^.]", "**", ".py", "*a", "{a,b}", "{a,{b,ab}}", "[", "]"]
)
PATTERNS = st.lists(st.lists(PIECES, min_size=1, max_size=3).map("".join), min_size=1, max_size=4).map("/".join)


def expand(pattern: str) -> list[str]:
    """All choices of the innermost braces, one after the other."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    return [
        whole
        for choice in found[1].split(",")
        for whole in expand(pattern[: found.start()] + choice + pattern[found.end() :])
    ]


def reference(pattern: str, path: str) -> bool:
    """Match name by name, trying every number of directories for `**/`."""

    @lru_cache(None)
    def matches(names: tuple[str, ...], parts: tuple[str, ...]) -> bool:
        if not names:
            return not parts
        if names[0] == "**":
            if len(names) == 1:
                return bool(parts)
            return matches(names[1:], parts) or (bool(parts) and matches(names, parts[1:]))
        if not parts:
            return False
        name = names[0].replace("[^", "[!")
        return fnmatch.fnmatchcase(parts[0], name) and matches(names[1:], parts[1:])

    return any(matches(tuple(one.split("/")), tuple(path.split("/"))) for one in expand(pattern))


@given(PATTERNS, PATHS)
def test_a_glob_matches_what_the_reference_matches(pattern: str, path: str) -> None:
    """For any pattern and path, with and without its literal directories split off."""
    if pattern.count("**") > 4 or pattern.count("{") > 4:
        return
    assert reference(pattern, path) == compile_glob(pattern, splits_base=False).matches(path)
    glob = compile_glob(pattern)
    base = "/".join((*glob.base, ""))
    if path.startswith(base) and path != base:
        assert reference(pattern, path) == glob.matches(path[len(base) :])


@pytest.mark.parametrize(
    "pattern, path, fits",
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "d/e/a.py", True),
        ("d/**", "d/a", True),
        ("d/**", "d", False),
        ("**", "a/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("*", ".hidden", True),
        ("[!a]b", "/b", False),
        ("a?c", "a/c", False),
        ("[*]", "*", True),
        ("[]]", "]", True),
        ("[a-c]", "b", True),
        ("a.{ts,tsx}", "a.tsx", True),
        ("{a}", "{a}", True),
        ("A", "a", False),
        ("./a", "a", True),
        ("a//b", "a/b", True),
    ],
)
def test_what_globs_mean(pattern: str, path: str, fits: bool) -> None:
    """`*` stays within a name, `**/` is any depth, braces choose, brackets quote, case counts."""
    assert fits == compile_glob(pattern, splits_base=False).matches(path)


def test_a_last_slash_means_directories() -> None:
    """`x/` fits directories only."""
    glob = compile_glob("*/")
    assert (True, False) == (glob.matches("a", is_directory=True), glob.matches("a"))


def test_a_name_can_be_meant_at_any_depth() -> None:
    """Without a slash a filter fits a name anywhere, if that was asked for."""
    assert compile_glob("*.py", at_any_depth=True).matches("d/e/a.py")
    assert not compile_glob("d/*.py", at_any_depth=True, splits_base=False).matches("e/d/a.py")


def test_literal_directories_come_first() -> None:
    """The directories that are named literally are where a search begins."""
    glob = compile_glob("node_modules/x/*.js")
    assert (("node_modules", "x"), True) == (glob.base, glob.matches("a.js"))


@pytest.mark.parametrize(
    "pattern", ["", "/etc/*", "../*", "a/../*", "a\\*", "x" * 2_000, "**/a/" * 5 + "b", "{a,b}" * 8]
)
def test_patterns_that_lead_elsewhere_are_refused(pattern: str) -> None:
    """Absolute, upward, oversized and backslashed patterns are refused in words."""
    with pytest.raises(Refusal) as caught:
        compile_glob(pattern)
    assert "INVALID_INPUT" == caught.value.refusal


@pytest.mark.parametrize("pattern", ["*a" * 100 + "b", "*" * 500 + "b", "**/" * 4 + "*a*a*a*b", "?*" * 50 + "b"])
def test_no_pattern_is_slow(pattern: str) -> None:
    """Patterns that make a backtracking matcher explode are as fast as any other."""
    glob = compile_glob(pattern)
    begun = time.process_time()
    assert not glob.matches("/".join(["a" * 250] * 8))
    assert time.process_time() - begun < 2
