"""Bounded text: head and tail stay, and the line between them says what went."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from plait.hands.text import bound_text, from_whole_character, join_ends, until_whole_character


@given(st.text(alphabet="ab\n", max_size=400), st.integers(1, 100))
def test_what_is_kept_and_what_is_dropped_add_up(text: str, chars_max: int) -> None:
    """The kept ends are the ends of the text, no more than allowed, and the marker counts the rest."""
    bounded = bound_text(text, chars_max, hint="see f")
    if len(text) <= chars_max:
        assert (text, 0) == (bounded.text, bounded.dropped_chars)
        return
    head, number, tail = re.split(r"\n?… \[truncated (\d+) characters; see f\] …\n", bounded.text, maxsplit=1)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert int(number) == bounded.dropped_chars
    assert len(text) - bounded.dropped_chars <= chars_max


def test_no_cap_keeps_everything() -> None:
    """A cap of 0 is none."""
    assert "x" * 100 == bound_text("x" * 100, 0).text


def test_cuts_fall_on_line_ends() -> None:
    """Where a line end is near, whole lines are kept."""
    text = "".join(f"line {number}\n" for number in range(1_000))
    bounded = bound_text(text, 1_000)
    head, _, tail = bounded.text.partition("… [truncated")
    assert text.startswith(head)
    assert head.endswith("\n")
    assert re.match(r" \d+ characters\] …\nline \d+\n", tail)


def test_ends_that_were_not_cut_are_joined() -> None:
    """With nothing dropped there is no marker."""
    assert ("ab", False) == ((bounded := join_ends("a", "b", 0)).text, bounded.is_truncated)


@given(st.text(alphabet="a\u00e9\u20ac\U0001f600", max_size=8), st.integers(0, 32))
def test_cut_characters_are_dropped_whole(text: str, at: int) -> None:
    """A cut in UTF-8 bytes leaves only whole characters on both sides."""
    data = text.encode()
    head, tail = until_whole_character(data[:at]), from_whole_character(data[at:])
    assert text.startswith(head.decode())
    assert text.endswith(tail.decode())
    assert len(data) - len(head) - len(tail) <= 4
