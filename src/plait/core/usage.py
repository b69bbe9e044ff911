"""Tokens and money, with where each number comes from.

Floor: 0. Owns: adding usages up honestly; never: a price.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import ClassVar, Final, Literal

from plait.core.values import dataclass

Provenance = Literal["reported", "computed", "estimated", "unavailable"]

_MONEY_DIGITS: Final = 50
TOKEN_FIELDS: Final = ("input", "output", "cache_read", "cache_write", "reasoning")


@dataclass(frozen=True, slots=True)
class Amount:
    """One number with its provenance; `currency` only for money."""

    value: int | Decimal | None
    provenance: Provenance
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request, or a sum of requests, used. None is "not reported", 0 is a reported zero.

    `input` counts tokens that were read from or written to a cache in; `reasoning` is part of `output`.
    """

    ZERO: ClassVar[Usage]
    UNAVAILABLE: ClassVar[Usage]

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost: Decimal | None = None
    currency: str = "USD"
    """ISO code of `cost`."""
    computed: bool = False
    """True for a sum or a calculation, False for one provider's own numbers."""
    estimated: frozenset[str] = frozenset()
    """Names of fields that are guesses."""
    priced: bool = False
    """True where one provider's own numbers were given their cost by a table of prices."""

    def __add__(self, other: Usage) -> Usage:
        """Add field by field: a missing count makes the sum a lower bound, a missing cost makes it unknown."""
        if self.input == 0 and self == Usage.ZERO:
            return other
        if other.input == 0 and other == Usage.ZERO:
            return self
        cost, currency = (None, "USD") if other.cost is None or self.cost is None else _add_cost(self, other)
        read, said, cached, kept, thought = self.input, self.output, self.cache_read, self.cache_write, self.reasoning
        # Every step adds one, and every answer of a journal that is opened: so this is spelled out.
        return Usage(
            other.input if read is None else read if other.input is None else read + other.input,
            other.output if said is None else said if other.output is None else said + other.output,
            other.cache_read if cached is None else cached if other.cache_read is None else cached + other.cache_read,
            other.cache_write if kept is None else kept if other.cache_write is None else kept + other.cache_write,
            other.reasoning if thought is None else thought if other.reasoning is None else thought + other.reasoning,
            cost,
            currency,
            True,
            self.estimated | other.estimated,
        )

    @property
    def total(self) -> int | None:
        """Input and output together, as far as they were reported."""
        return _add(self.input, self.output)

    def amount(self, name: str) -> Amount:
        """Return the field `name` (one of `TOKEN_FIELDS`, `total`, `cost`) with its provenance."""
        value: int | Decimal | None = getattr(self, name)
        currency = self.currency if name == "cost" else None
        if value is None:
            return Amount(None, "unavailable", currency)
        if name in self.estimated:
            return Amount(value, "estimated", currency)
        if self.computed or name == "total" or (name == "cost" and self.priced) or self == Usage.ZERO:
            return Amount(value, "computed", currency)
        return Amount(value, "reported", currency)

    @property
    def input_tokens(self) -> int:
        """Tokens of the request, 0 where nothing was reported."""
        return self.input or 0

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer, 0 where nothing was reported."""
        return self.output or 0

    @property
    def cache_read_tokens(self) -> int:
        """Tokens of the request that a cache held, 0 where nothing was reported."""
        return self.cache_read or 0

    @property
    def cache_write_tokens(self) -> int:
        """Tokens of the request that went into a cache, 0 where nothing was reported."""
        return self.cache_write or 0


# Not marked as computed, which every sum is: so no sum passes for it, and adding stays associative.
Usage.ZERO = Usage(0, 0, 0, 0, 0, Decimal(0))
Usage.UNAVAILABLE = Usage()


def _add(left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    return left if right is None else left + right


def _add_cost(left: Usage, right: Usage) -> tuple[Decimal | None, str]:
    # A currency says something only beside a number, so two unknown costs must not differ by it.
    if left.cost is None or right.cost is None or left.currency != right.currency:
        return None, "USD"
    # Exact whatever the program around us did to its own decimal context.
    return Context(prec=_MONEY_DIGITS, traps=[]).add(left.cost, right.cost), left.currency
