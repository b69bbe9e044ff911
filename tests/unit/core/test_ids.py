"""Identifiers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from plait.core.ids import is_session_name, new_id


def test_ids_are_distinct_and_of_one_shape() -> None:
    """A prefix, and twenty letters without the ones that are easily misread."""
    ids = {new_id("s") for _ in range(2_000)}

    assert 2_000 == len(ids)
    assert all(re.fullmatch(r"s_[0-9a-hjkmnp-z]{20}", made) for made in ids)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1))
def test_ids_happen_to_sort_by_time(one_ms: int, other_ms: int) -> None:
    """Of two ids made at different milliseconds, the later one is the greater text."""
    if one_ms != other_ms:
        assert (one_ms < other_ms) == (new_id("r", now_ms=one_ms) < new_id("r", now_ms=other_ms))


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "x" * 64, ".hidden", "-", "s_06h2mfn19zhpkage0xyx"])
def test_names_a_user_may_give(name: str) -> None:
    """Letters, digits, dots, dashes and underscores make a session's name."""
    assert is_session_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "...", "a/b", "a b", "x" * 65, "ü", "a\n", "\x00", "a\\b"])
def test_names_that_could_be_a_path(name: str) -> None:
    """Nothing that could leave a folder, hide in a terminal or end a line is a session's name."""
    assert not is_session_name(name)
