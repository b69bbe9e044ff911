"""Names and ids fit every endpoint, stay different, and lead back."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from plait.wire.names import original_names, wire_id, wire_name

LONG = "x" * 70


@given(st.text(max_size=80), st.text(max_size=80))
def test_names_fit_and_stay_different(one: str, other: str) -> None:
    """Any name becomes letters, digits and `_-`, at most 64, and two names never become one."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire_name(one))
    assert (one == other) == (wire_name(one) == wire_name(other))


def test_long_names_that_differ_at_the_end() -> None:
    """Names that are equal in their first 64 letters are still told apart."""
    assert wire_name(LONG + "a") != wire_name(LONG + "b")


def test_way_back() -> None:
    """Only names that change have a way back, and it leads to them."""
    assert {wire_name("a.b/c"): "a.b/c"} == original_names(["a.b/c", "plain"])


@given(st.text(min_size=1, max_size=40))
def test_ids_fit(call_id: str) -> None:
    """An id fits the endpoint's alphabet, and one that fits already is kept."""
    assert re.fullmatch(r"[A-Za-z0-9]{9}", wire_id(call_id, "nine"))
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire_id(call_id, "word"))
    assert call_id == wire_id(call_id, "any")
    assert wire_id(call_id, "nine") == wire_id(wire_id(call_id, "nine"), "nine")
