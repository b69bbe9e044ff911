"""Token counts mean the same whatever a server calls them, and a missing one is not a zero."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from plait.core.usage import Usage
from plait.wire.usage import latest, read_usage

PLAIN = {"prompt_tokens": 100, "completion_tokens": 5}


@pytest.mark.parametrize(
    "shape, expected",
    [
        ({}, (None, None)),
        ({"prompt_tokens_details": {"cached_tokens": 60}}, (60, None)),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, (0, None)),
        ({"prompt_tokens_details": {"cached_tokens": None}}, (None, None)),
        ({"prompt_tokens_details": None}, (None, None)),
        ({"prompt_tokens_details": {"cache_read_tokens": 60, "cache_write_tokens": 9}}, (60, 9)),
        ({"prompt_tokens_details": {"cache_read_input_tokens": 60, "cache_creation_input_tokens": 9}}, (60, 9)),
        ({"prompt_tokens_details": {"cached_tokens": 60, "cache_creation_tokens": 9}}, (60, 9)),
        ({"cache_read_input_tokens": 60, "cache_creation_input_tokens": 9}, (60, 9)),
        ({"cache_read_tokens": 60, "cache_write_tokens": 9}, (60, 9)),
        ({"cached_tokens": 60}, (60, None)),
        ({"cached_tokens": "60"}, (60, None)),
        ({"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}, (60, None)),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5}}, (None, 9)),
    ],
)
def test_every_name_of_cached_tokens(shape: Mapping[str, object], expected: tuple[int | None, int | None]) -> None:
    """Read and written tokens are found under every name that servers use."""
    usage = read_usage({**PLAIN, **shape})
    assert usage is not None
    assert (100, 5, *expected) == (usage.input, usage.output, usage.cache_read, usage.cache_write)


def test_input_counts_cached_tokens_in() -> None:
    """Where the input leaves cached tokens out, they are added: by the wire's rule, or because it shows."""
    shape = {"input_tokens": 20, "output_tokens": 1, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 3}
    assert 33 == (read_usage(shape, excludes_cached=True) or Usage()).input
    assert 20 == (read_usage(shape) or Usage()).input
    assert 1020 == (read_usage({"prompt_tokens": 20, "cache_read_input_tokens": 1000}) or Usage()).input


def test_reasoning_and_cost() -> None:
    """Thought tokens are part of the output; a cost is exact money, never a float."""
    shape = {**PLAIN, "completion_tokens_details": {"reasoning_tokens": 3}, "cost": 0.0012}
    usage = read_usage(shape)
    assert usage is not None
    assert (3, Decimal("0.0012")) == (usage.reasoning, usage.cost)


@pytest.mark.parametrize("value", [None, {}, [], "x", {"prompt_tokens": None}, {"prompt_tokens": -1, "cost": "NaN"}])
def test_nothing_reported_is_nothing(value: object) -> None:
    """A usage without a count is no usage."""
    assert None is read_usage(value)


@pytest.mark.parametrize("tokens", [1e308, 10**32, -5, True, 1.5, "1" * 99])
def test_a_number_that_cannot_be_a_count_is_not_reported(tokens: object) -> None:
    """A count that no answer can have is no report, so that nothing is computed from it."""
    usage = read_usage({"prompt_tokens": tokens, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}})
    assert Usage(input=None, output=5, cache_read=0, cache_write=None) == usage


@pytest.mark.parametrize("cost", ["1e9999999", "1e-9999999", 1e308, -3, "NaN", "Infinity", "0." + "1" * 99])
def test_a_number_that_cannot_be_a_cost_is_not_reported(cost: object) -> None:
    """A cost that is no sum of money, or that would be written out without end, is unknown."""
    usage = read_usage({**PLAIN, "cost": cost})
    assert usage is not None
    assert usage.cost is None


@pytest.mark.parametrize("cost", [0, "0", "0.000", 0.0023, 1.5e-07, "12.5"])
def test_an_ordinary_cost_is_kept_as_it_is(cost: float | str) -> None:
    """Small and round sums stay what the provider said."""
    usage = read_usage({**PLAIN, "cost": cost})
    assert usage is not None
    assert Decimal(str(cost)) == usage.cost


def test_later_reports_replace_earlier_ones() -> None:
    """Of the reports in a stream the last one counts, field by field; they are never added."""
    first, last = Usage(input=9, output=1, cache_read=4), Usage(input=9, output=2)
    assert Usage(input=9, output=2, cache_read=4) == latest(latest(None, first), last)


COUNTS = st.none() | st.integers(-5, 10**6) | st.floats() | st.booleans() | st.text(max_size=3)
NAMES = st.sampled_from(["prompt_tokens", "input_tokens", "cached_tokens", "cache_creation", "cost", "output_tokens"])


@given(st.dictionaries(NAMES, COUNTS | st.dictionaries(NAMES, COUNTS, max_size=2)), st.booleans())
def test_any_object_is_read(shape: dict[str, object], excludes_cached: bool) -> None:
    """Counts of any kind give a usage without negative numbers, or none."""
    usage = read_usage(shape, excludes_cached=excludes_cached) or Usage()
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    assert all(count is None or count >= 0 for count in counts)
