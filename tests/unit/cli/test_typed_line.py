"""A line as it is typed: what its keys do and show, and when Enter was pressed by a hand."""

from __future__ import annotations

import pytest

from plait.cli.typed_line import TypedLine


def typed(*reads: bytes) -> tuple[TypedLine, str]:
    """Return a line after reads with a pause before each, and what was shown."""
    line = TypedLine()
    return line, "".join(line.take(read, is_after_pause=True) for read in reads)


@pytest.mark.parametrize(
    "reads, text, shown",
    [
        ([b"y", b"\n"], "y", "y\n"),
        ([b"ab", b"\x7f", b"c", b"\r"], "ac", "ab\b \bc\n"),
        ([b"\x7f", b"\x15", b"\n"], "", "\n"),
        ([b"no", b"\x15", b"y", b"\n"], "y", "no\b \b\b \by\n"),
        (["猫".encode(), b"\x08", b"\n"], "", "猫\b \b\b \b\n"),
        (["é".encode()[:1], "é".encode()[1:], b"\n"], "é", "é\n"),
        ([b"\xff", b"\n"], "\ufffd", "\ufffd\n"),
        ([b"y\x04", b"\n"], "y\x04", "y\\x04\n"),
        ([b"y\x1b[2J", b"\n"], "y\x1b[2J", "y\\x1b[2J\n"),
        ([b"x" * 5_000, b"\n"], "x" * 1_000, f"{'x' * 1_000}\n"),
    ],
)
def test_keys_of_a_line(reads: list[bytes], text: str, shown: str) -> None:
    """Characters stand, some keys take them back, and what cannot be seen is spelt out."""
    line, said = typed(*reads)

    assert (True, text, shown, True) == (line.is_over, line.text, said, line.is_by_hand)


def test_the_end_of_the_input() -> None:
    """Ctrl-D on an empty line is no line."""
    line, _ = typed(b"x", b"\x7f", b"\x04")

    assert (True, None) == (line.is_over, line.text)


@pytest.mark.parametrize("pauses, is_by_hand", [((True, True), True), ((True, False), False)])
def test_enter_right_behind_a_key_is_no_hands(pauses: tuple[bool, bool], is_by_hand: bool) -> None:
    """Only a pause before Enter shows a person."""
    line = TypedLine()
    for key, pause in zip((b"y", b"\n"), pauses, strict=True):
        line.take(key, is_after_pause=pause)

    assert is_by_hand == line.is_by_hand
