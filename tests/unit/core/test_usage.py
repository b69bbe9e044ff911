"""Adding tokens and money up honestly."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from hypothesis import example, given

from plait.core.usage import TOKEN_FIELDS, Amount, Usage
from tests.helpers.strategies import usages

_NOTHING_USED = Usage(0, 0, 0, 0, 0, Decimal(0))


@given(usages, usages, usages)
@example(_NOTHING_USED, _NOTHING_USED, Usage(input=1))
def test_the_grouping_does_not_matter(one: Usage, two: Usage, three: Usage) -> None:
    """Adding is associative, reported zeros included."""
    assert (one + two) + three == one + (two + three)


@given(usages, usages)
def test_the_order_does_not_matter(one: Usage, two: Usage) -> None:
    """Adding is commutative."""
    assert one + two == two + one


@given(usages)
def test_zero_changes_nothing(usage: Usage) -> None:
    """ZERO is the identity on both sides."""
    assert usage == usage + Usage.ZERO == Usage.ZERO + usage


@given(usages, usages)
def test_a_count_is_a_lower_bound(one: Usage, two: Usage) -> None:
    """A side that reported nothing adds nothing; two reported counts add up."""
    if Usage.ZERO in (one, two):
        return  # the start of a sum reports nothing either way
    both = one + two
    for name in TOKEN_FIELDS:
        counts = [count for count in (getattr(one, name), getattr(two, name)) if count is not None]
        assert (sum(counts) if counts else None) == getattr(both, name)


@given(usages, usages)
def test_an_unknown_cost_is_absorbing(one: Usage, two: Usage) -> None:
    """One step whose cost nobody knows makes the sum unknown for good."""
    unknown = one + Usage(input=1)

    assert unknown.cost is None
    assert (unknown + two).cost is None
    assert (two + unknown).cost is None


def test_currencies_are_not_converted() -> None:
    """Dollars and euros do not add; nothing that follows makes them."""
    dollars, euros = Usage(cost=Decimal(1)), Usage(cost=Decimal(1), currency="EUR")

    assert (None, "USD") == ((dollars + euros).cost, (dollars + euros).currency)
    assert (dollars + euros + dollars).cost is None
    assert (Decimal(2), "EUR") == ((euros + euros).cost, (euros + euros).currency)


def test_unavailable_is_not_zero() -> None:
    """Nothing reported and nothing used are different things."""
    assert Usage.ZERO != Usage.UNAVAILABLE
    assert Amount(None, "unavailable") == Usage.UNAVAILABLE.amount("input")
    assert Amount(0, "computed") == Usage.ZERO.amount("input")
    assert (Usage.UNAVAILABLE + Usage(input=3)).input == 3


def test_provenance_is_told() -> None:
    """A provider's number is reported, a sum is computed, a guess is estimated."""
    reported = Usage(10, 5, cost=Decimal("0.1"), estimated=frozenset({"output"}))

    assert Amount(10, "reported") == reported.amount("input")
    assert Amount(5, "estimated") == reported.amount("output")
    assert Amount(15, "computed") == reported.amount("total")
    assert Amount(Decimal("0.1"), "reported", "USD") == reported.amount("cost")
    assert Amount(None, "unavailable") == reported.amount("reasoning")
    assert Amount(20, "computed") == (reported + reported).amount("input")
    assert Amount(10, "estimated") == (reported + reported).amount("output")


def test_money_is_exact_whatever_the_program_set() -> None:
    """A program's own decimal context neither rounds our sums nor makes them raise."""
    with decimal.localcontext(decimal.Context(prec=3, traps=[decimal.Inexact])):
        total = Usage(cost=Decimal("0.0001234567")) + Usage(cost=Decimal("12345.6"))

    assert Decimal("12345.6001234567") == total.cost


@pytest.mark.parametrize("name", ["input", "output", "cache_read", "cache_write"])
def test_counts_without_a_report_read_as_zero(name: str) -> None:
    """The plain token properties are numbers even where nothing was reported."""
    assert 0 == getattr(Usage.UNAVAILABLE, f"{name}_tokens")
    assert 7 == getattr(Usage(**{name: 7}), f"{name}_tokens")


def test_a_total_counts_what_is_known() -> None:
    """The total of a half-reported usage is the half."""
    assert [None, 3, 4, 7] == [Usage().total, Usage(input=3).total, Usage(output=4).total, Usage(3, 4).total]
