"""What Azure's public list of retail prices says of a model.

Floor: 2. Owns: reading that list, and which of its meters are a model's; never: a file it is kept in.

From general knowledge of the list, not from a check of it. It names meters in words (`gpt 4o mini Inp glbl Tokens`),
not models. A meter is a model's only when nothing is left of its name but words that are known: a neighbour's price
would be worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlsplit

from plait.models.prices import MILLION, Price, public_document
from plait.models.transport import Transport

AZURE_PRICES: Final = "https://prices.azure.com/api/retail/prices"
KEPT_FOR_S: Final = 7 * 86_400.0
"""How long the list may be used without asking again."""
_FILTER: Final = "serviceName eq 'Foundry Models' and priceType eq 'Consumption'"
_PAGES_MAX: Final = 200

Kind = Literal["input", "output", "cache_read"]
_DIRECTIONS: Final[Mapping[str, Literal["input", "output"]]] = {
    **dict.fromkeys(("inp", "inpt", "input", "in"), "input"),
    **dict.fromkeys(("outp", "outpt", "output", "out", "opt"), "output"),
}
_SCOPES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("glbl", "gl", "global"), 0),
    **dict.fromkeys(("regnl", "rgnl", "regional"), 1),
    **dict.fromkeys(("dz", "dzone", "dtzn", "datazone"), 2),
}
_CACHED: Final = frozenset({"cchd", "cached", "cache", "cchdinp"})
_UNITS: Final[Mapping[str, Decimal]] = {"1K": Decimal(1_000), "1M": MILLION, "1": Decimal(1)}
_IDLE_WORDS: Final = frozenset({"tokens", "token", "1k", "1m", "azure", "openai"})
_VERSION: Final = re.compile(r"\d{4}|\d{8}")
_WORDS: Final = re.compile(r"[a-z0-9.]+")


class Meter(NamedTuple):
    """One price of the list: what it is called, and money for a million."""

    name: str
    price: str


def fetch_meters(transport: Transport, url: str = AZURE_PRICES) -> tuple[Meter, ...]:
    """Read the whole list, page by page; `()` where it cannot be had. No key is sent."""
    meters: list[Meter] = []
    page: str | None = f"{url}?$filter={quote(_FILTER)}"
    for _ in range(_PAGES_MAX):
        document = public_document(transport, page) if page else None
        if not isinstance(document, Mapping):
            return ()
        items = document.get("Items")
        meters += _meters(items if isinstance(items, list) else ())
        following = document.get("NextPageLink")
        if not following:
            return tuple(meters)
        # The next page is the same list's: nobody else is asked.
        page = following if isinstance(following, str) and urlsplit(following).netloc == urlsplit(url).netloc else None
    return ()


def azure_price(meters: Iterable[Sequence[str]], model: str) -> Price | None:
    """Return what a model costs by the meters that are its own, None where there is none.

    A global deployment's price counts before a region's, that before a data zone's; of several, the lowest.
    """
    best: dict[Kind, tuple[int, Decimal]] = {}
    wanted = _WORDS.findall(model.lower())
    for name, price in meters:
        found = _reading(_WORDS.findall(name.lower()), wanted)
        if found is not None:
            kind, scope = found
            offer = (scope, Decimal(price))
            best[kind] = min(best.get(kind, offer), offer)
    if not best:
        return None
    amounts = {kind: amount for kind, (_, amount) in best.items()}
    return Price(amounts.get("input"), amounts.get("output"), amounts.get("cache_read"))


def _reading(words: Sequence[str], model: Sequence[str]) -> tuple[Kind, int] | None:
    """Return what a meter counts and where, None when it is not this model's."""
    words = [word for word in words if word not in _IDLE_WORDS]
    if not model or tuple(words[: len(model)]) != tuple(model):
        return None
    direction: Literal["input", "output"] | None = None
    scope, is_cached = 1, False
    for word in words[len(model) :]:
        if word in _DIRECTIONS:
            direction = _DIRECTIONS[word]
        elif word in _SCOPES:
            scope = _SCOPES[word]
        elif word in _CACHED:
            is_cached = True
        elif not _VERSION.fullmatch(word):
            return None
    if is_cached:
        return None if direction == "output" else ("cache_read", scope)
    return None if direction is None else (direction, scope)


def _meters(items: Iterable[Any]) -> Iterator[Meter]:
    for item in items:
        if not isinstance(item, Mapping) or item.get("currencyCode", "USD") != "USD":
            continue
        name, unit = item.get("meterName"), _UNITS.get(str(item.get("unitOfMeasure")))
        try:
            price = Decimal(str(item.get("retailPrice")))
        except InvalidOperation:
            continue
        # A price of nothing is a placeholder of the list, and no gift.
        if isinstance(name, str) and unit is not None and price.is_finite() and price > 0:
            yield Meter(name, str(price * MILLION / unit))
