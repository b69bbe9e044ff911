"""A think block at the start is reasoning, wherever its tags are cut; anything else is the answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.wire.profile import ThinkMode
from plait.wire.think import ThinkSplitter

TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>", "<", "</th", "a", "b c", "\n", "  "]),
    max_size=8,
).map("".join)


def split(mode: ThinkMode, *pieces: str) -> tuple[str, str]:
    splitter = ThinkSplitter(mode)
    segments = [segment for piece in pieces for segment in splitter.feed(piece)] + splitter.finish()
    joined = {"content": "", "reasoning": ""}
    for kind, text in segments:
        joined[kind] += text
    return joined["reasoning"], joined["content"]


@given(TEXTS, st.sampled_from(["inline", "prefilled", "off"]))
def test_cuts_do_not_matter(text: str, mode: ThinkMode) -> None:
    """Text split into single characters gives the same reasoning and answer as the whole."""
    assert split(mode, text) == split(mode, *text)


@given(TEXTS)
def test_off_is_all_answer(text: str) -> None:
    """Without the mode, everything is answer."""
    assert ("", text) == split("off", text)


@pytest.mark.parametrize(
    "mode, text, expected",
    [
        ("inline", "<think>a</think>b", ("a", "b")),
        ("inline", "\n<think>\na\n</think>\n\nb ", ("a", "b ")),
        ("inline", "<think>\n\n</think>\n\nb", ("", "b")),
        ("inline", "<thinking>a</think>b</thinking>c", ("a</think>b", "c")),
        ("inline", "say <think>a</think>", ("", "say <think>a</think>")),
        ("inline", "<think>a</think>b<think>c</think>", ("a", "b<think>c</think>")),
        ("inline", "<think>a", ("a", "")),
        ("inline", "<thin", ("", "<thin")),
        ("inline", "<thinner>", ("", "<thinner>")),
        ("prefilled", "a</think>b", ("a", "b")),
        ("prefilled", "<think>a</think>b", ("a", "b")),
        ("prefilled", "a < b</think>c", ("a < b", "c")),
    ],
)
def test_where_a_block_counts(mode: ThinkMode, text: str, expected: tuple[str, str]) -> None:
    """Only a block at the very start is reasoning, without the blanks around it."""
    assert expected == split(mode, text)


def test_blanks_without_end_are_passed_on() -> None:
    """Blanks beyond a bound are not held back, so that a stream of them costs linear time."""
    splitter = ThinkSplitter("prefilled")
    splitter.feed("a")
    shown = sum(len(text) for _ in range(100) for _, text in splitter.feed(" " * 100))
    assert shown > 8000


def test_separated_reasoning_ends_the_search() -> None:
    """Once the server separates reasoning itself, a tag in the answer is text."""
    splitter = ThinkSplitter("prefilled")
    assert [] == splitter.stop()
    assert [("content", "x</think>y")] == splitter.feed("x</think>y")
