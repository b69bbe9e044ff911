"""Text of a model, a tool or a server cannot act on a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from plait.cli.escapes import literal, one_line, visible

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\rwritten"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("\x7f\x9b2J", "\\x7f\\x9b2J"),
        ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
        ("\udce9", "\\udce9"),
        ("größe 猫 👍", "größe 猫 👍"),
    ],
)
def test_controls_are_shown_and_words_are_left_alone(text: str, shown: str) -> None:
    """What would move, hide or rename something is spelt out; everything else stays as it is."""
    assert shown == visible(text)


@given(st.text(), st.integers(0, 50))
def test_no_text_keeps_a_control_however_it_is_cut(text: str, at: int) -> None:
    """The result holds no control character, whole or in two pieces."""
    assert CONTROL.search(visible(text)) is None
    assert CONTROL.search(visible(text[:at]) + visible(text[at:])) is None


@given(st.text())
def test_what_is_judged_letter_by_letter_hides_nothing(text: str) -> None:
    """Each line of a command is printable, and there are as many as the text has."""
    lines = literal(text)

    assert text.count("\n") + 1 == len(lines)
    assert all(line.isprintable() for line in lines)


def test_a_command_is_shown_with_its_hidden_characters() -> None:
    """A tab, an escape and a joiner without width are written as their codes."""
    assert ["ls\\t-l\\x1b[2K", "rm\\u200d x"] == literal("ls\t-l\x1b[2K\nrm\u200d x")


def test_one_line_is_one_line() -> None:
    """Line ends and runs of blanks become one blank, and what is too long is cut visibly."""
    assert "a b c" == one_line(" a\n b\t\tc ", 10)
    assert "abcdefg..." == one_line("abcdefghijklm", 10)
