"""Path text: what the strict and the lenient style take, refuse and suggest."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import Refusal
from plait.hands.paths import Location, below, lenient_location, strict_location

ROOTS = ("/real/root", "/given/root")


@pytest.mark.parametrize(
    "path, refusal",
    [
        ("", "INVALID_INPUT"),
        ("a\0b", "INVALID_INPUT"),
        ("a//b", "INVALID_INPUT"),
        ("a/", "INVALID_INPUT"),
        ("./a", "INVALID_INPUT"),
        ("~/a", "INVALID_INPUT"),
        ("a\\b", "INVALID_INPUT"),
        ("a/\ud800", "INVALID_INPUT"),
        ("x" * 5_000, "INVALID_INPUT"),
        ("/".join("a" * 65), "INVALID_INPUT"),
        ("../a", "FORBIDDEN"),
        ("a/../../b", "FORBIDDEN"),
        ("/etc/passwd", "FORBIDDEN"),
        ("/real/rootless", "FORBIDDEN"),
    ],
)
def test_strict_refuses(path: str, refusal: str) -> None:
    """The strict style takes relative names joined by single slashes, and nothing else."""
    with pytest.raises(Refusal) as caught:
        strict_location(path, ROOTS)
    assert refusal == caught.value.refusal


@pytest.mark.parametrize("root", ROOTS)
def test_strict_suggests_the_relative_path(root: str) -> None:
    """An absolute path inside the root is refused with the relative one, which is then taken."""
    with pytest.raises(Refusal) as caught:
        strict_location(f"{root}/a/b.py", ROOTS)
    assert "a/b.py" == caught.value.details["recovery_path"]
    assert Location(True, ("a", "b.py")) == strict_location("a/b.py", ROOTS)


def test_strict_suggests_nothing_it_would_refuse() -> None:
    """A suggestion passes the same rules as any path: one with a backslash is refused for that."""
    with pytest.raises(Refusal) as caught:
        strict_location("/real/root/a\\b", ROOTS)
    assert "recovery_path" not in caught.value.details


def test_strict_does_not_point_outside() -> None:
    """The refusal of an absolute path outside suggests nothing."""
    with pytest.raises(Refusal) as caught:
        strict_location("/etc/passwd", ROOTS)
    assert {} == dict(caught.value.details)


@pytest.mark.parametrize(
    "path, expected",
    [
        (".", Location(True, ())),
        ("a", Location(True, ("a",))),
        ("./a//b/", Location(True, ("a", "b"))),
        ("a/../b", Location(True, ("b",))),
        ("/real/root/a", Location(True, ("a",))),
        ("/given/root/a", Location(True, ("a",))),
        ("//real/root/a", Location(True, ("a",))),
        ("../root/a", Location(True, ("a",))),
        ("../other", Location(False, ("real", "other"))),
        ("~", Location(False, ("home", "me"))),
        ("~/a", Location(False, ("home", "me", "a"))),
        ("~other/a", Location(True, ("~other", "a"))),
        ("/real/rootless", Location(False, ("real", "rootless"))),
        ("../../../..", Location(False, ())),
        ("name\udcff", Location(True, ("name\udcff",))),
    ],
)
def test_lenient_reads_what_people_write(path: str, expected: Location) -> None:
    """The lenient style takes `~`, `..` and absolute paths and says whether they are inside."""
    assert expected == lenient_location(path, ROOTS, "/home/me")


@pytest.mark.parametrize("path", ["", "a\0", "\ud800", "x" * 5_000, "/".join("a" * 300)])
def test_lenient_refuses_what_names_nothing(path: str) -> None:
    """Text that can name no file is refused by the lenient style too."""
    with pytest.raises(Refusal) as caught:
        lenient_location(path, ROOTS, "/home/me")
    assert "INVALID_INPUT" == caught.value.refusal


def test_a_location_shows_itself() -> None:
    """Inside a path is shown relative, outside absolute."""
    shown = [Location(True, ("a", "b")).shown, Location(True, ()).shown, Location(False, ("etc",)).shown]
    assert ["a/b", ".", "/etc"] == shown


@given(st.lists(st.sampled_from(["a", "b", ".", "..", "", "root", "~"]), max_size=8).map("/".join))
def test_no_text_is_inside_that_normalises_to_the_outside(path: str) -> None:
    """Whatever is said to be inside has only plain names."""
    if not path:
        return
    location = lenient_location(path, ROOTS, "/home/me")
    assert not {"", ".", ".."} & set(location.segments)


def test_below_the_root_of_the_machine() -> None:
    """Everything is below `/`."""
    assert [(), ("a", "b")] == [below("/", "/"), below("/", "/a/b")]
