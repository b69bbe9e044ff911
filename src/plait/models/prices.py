"""What tokens cost: a dated table, the price an endpoint states itself, and what a request came to.

Floor: 2. Owns: prices and the arithmetic of cost; never: a limit on a turn (that is the engine's).

Money is Decimal. A price that is not known stays unknown: it is never taken for zero.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Context, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from plait.core.errors import ConfigError, PricingLimitExceededError
from plait.core.exchange import ProviderFailed
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.models.bodies import whole_body
from plait.models.transport import HttpRequest, Timeouts, Transport

if TYPE_CHECKING:
    from pathlib import Path

MILLION: Final = Decimal(1_000_000)
_MONEY_DIGITS: Final = 50
OPENROUTER_MODELS: Final = "https://openrouter.ai/api/v1/models"
_LISTING_BYTES_MAX: Final = 32 * 1024 * 1024
_VERSION: Final = re.compile(r"(?:-(?:\d{4}-?\d{2}-?\d{2}|\d{8}|latest))+$")
_QUICK: Final = Timeouts(connect_s=5.0, first_byte_s=10.0, idle_s=10.0, total_s=20.0)

Direction = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens; None is not known."""

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    """None: as much as fresh input."""
    cache_write: Decimal | None = None
    """None: as much as fresh input."""
    currency: str = "USD"
    as_of: str = ""
    """Date of the table it stands in; empty for a price that the endpoint states now."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by provider and model."""

    providers: Mapping[str, Mapping[str, Price]]
    as_of: str = ""

    def price_of(self, provider: str, model: str) -> Price | None:
        """Return the price of a model at a provider, None where it is not known.

        A dated or `latest` version has the price of the model it is a version of; a name that merely begins alike
        has not.
        """
        models = self.providers.get(provider)
        if not models:
            return None
        return models.get(model) or models.get(_VERSION.sub("", model))

    def with_prices(self, other: PriceTable) -> PriceTable:
        """Return this table with the other's prices in it, which win."""
        names = {*self.providers, *other.providers}
        merged = {name: {**self.providers.get(name, {}), **other.providers.get(name, {})} for name in names}
        return PriceTable(merged, other.as_of or self.as_of)


def bundled_prices(provider: str = "") -> PriceTable:
    """Read the table that comes with plait; with `provider`, its rows alone."""
    path = os.path.join(os.path.dirname(__file__), "prices.json")
    with open(path, encoding="utf-8") as file:
        return _table(json.load(file), "prices.json", provider)


@lru_cache(maxsize=8)
def _bundled(provider: str) -> PriceTable:
    """The same, read once a process: every endpoint that is made asks for it. Nobody changes what it holds."""
    return bundled_prices(provider)


def read_prices(path: str | os.PathLike[str]) -> PriceTable:
    """Read a user's own table, in the form of the bundled one.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return _table(json.load(file), str(path))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the prices in {str(path)!r} cannot be read: {error}", hint="compare it with prices.json"
        ) from error


def user_prices_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return where a user's own table is: `prices.json` in plait's configuration folder."""
    from pathlib import Path  # an answer is priced without

    return Path(_user_prices(environ))


def known_prices(provider: str = "", environ: Mapping[str, str] | None = None) -> PriceTable:
    """Return plait's table with the user's own in it, which wins.

    With `provider` its prices are wanted and no others, and a damaged table of the user's is passed over: it is read
    for the cost of an answer that is there already, and a cost that is not known is better than an answer that is
    lost. `plait doctor` names the damage.

    Raises:
        ConfigError: the user's table cannot be read, and no provider is given.
    """
    path = _user_prices(environ)
    table = _bundled(provider)
    if not os.path.isfile(path):
        return table
    try:
        return table.with_prices(read_prices(path))
    except ConfigError:
        if not provider:
            raise
        return PriceTable({}, table.as_of)


def _user_prices(environ: Mapping[str, str] | None) -> str:
    base = (os.environ if environ is None else environ).get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "plait", "prices.json")


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """Return the usage with what it costs, marked as `priced`; a cost that the provider reported is left alone.

    Where the provider did not say how much of the input came from a cache, all of it is counted as fresh, and the
    cost is marked as an estimate.
    """
    if usage.cost is not None or price is None or price.input is None or price.output is None:
        return usage
    if usage.input is None or usage.output is None:
        return usage
    read, write = usage.cache_read or 0, usage.cache_write or 0
    fresh = max(0, usage.input - read - write)
    # Exact whatever the program around us did to its own decimal context.
    with localcontext(Context(prec=_MONEY_DIGITS)):
        cost = (
            fresh * price.input
            + read * _or(price.cache_read, price.input)
            + write * _or(price.cache_write, price.input)
            + usage.output * price.output
        ) / MILLION
    is_guess = usage.cache_read is None and price.cache_read is not None
    return replace(
        usage,
        cost=cost,
        currency=price.currency,
        priced=True,
        estimated=usage.estimated | {"cost"} if is_guess else usage.estimated,
    )


def check_limits(model: str, price: Price | None, limits: Mapping[Direction, Decimal | float | int | None]) -> None:
    """Refuse a model that is dearer than its user allows.

    Args:
        price: None where it could not be found out: then nothing is refused.
        limits: money a million tokens may cost, by direction; None is no limit.

    Raises:
        PricingLimitExceededError: a direction is dearer, or its price is unknown while the other's is known.
    """
    if price is None:
        return
    for direction, limit in limits.items():
        if limit is None:
            continue
        current = price.input if direction == "input" else price.output
        if current is None or current > Decimal(str(limit)):
            raise PricingLimitExceededError(model, direction=direction, current_price=current, limit=limit)


def openrouter_price(transport: Transport, model: str, url: str = OPENROUTER_MODELS) -> Price | None:
    """Ask OpenRouter what a model costs now; None where it does not say, or cannot be asked.

    The list is public: no key is sent.
    """
    return _listed(public_document(transport, url), model)


def public_document(transport: Transport, url: str) -> object:
    """Return a JSON document that anybody may read, None where it cannot be had; no key is sent."""
    try:
        return _document(transport, url)
    except ProviderFailed as failure:
        if failure.kind != "unavailable":
            return None
    # A connection that was kept may have been closed by its server in the meantime; a new one says whether it is there.
    with suppress(ProviderFailed):
        return _document(transport, url)
    return None


def _document(transport: Transport, url: str) -> object:
    stream = transport.open(HttpRequest("GET", url, {"Accept": "application/json"}), _QUICK)
    body = whole_body(stream, _LISTING_BYTES_MAX)
    try:
        return json.loads(body) if body is not None and stream.status == 200 else None
    except (ValueError, RecursionError):
        return None


def _listed(document: Any, model: str) -> Price | None:
    items = document.get("data") if isinstance(document, Mapping) else None
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and item.get("id") == model and isinstance(item.get("pricing"), Mapping):
            pricing = item["pricing"]
            names = ("prompt", "completion", "input_cache_read", "input_cache_write")
            return _price([pricing.get(name) for name in names], MILLION)
    return None


def _table(document: Any, where: str, provider: str = "") -> PriceTable:
    if not isinstance(document, Mapping) or not isinstance(document.get("providers"), Mapping):
        raise ConfigError(f"{where!r} is no table of prices", hint="it has `providers`, with models in them")
    as_of, currency = str(document.get("as_of", "")), str(document.get("currency", "USD"))
    scale = MILLION / Decimal(str(document.get("per_tokens", MILLION)))

    def price(row: Any) -> Price:
        if not isinstance(row, list) or not 2 <= len(row) <= 4:
            raise ConfigError(f"a price in {where!r} is no list of two to four numbers", hint="input, output, cache …")
        return replace(_price(row, scale), currency=currency, as_of=as_of)

    providers = {
        str(name): {str(model): price(row) for model, row in models.items()}
        for name, models in document["providers"].items()
        if isinstance(models, Mapping) and provider in ("", name)
    }
    return PriceTable(providers, as_of)


def _price(values: Sequence[object], factor: Decimal) -> Price:
    """Make a price of input, output, cache read and cache write; what is left out is not known."""
    amounts = [None if (money := _money(value)) is None else money * factor for value in values]
    read_in, out, read, write = (*amounts, None, None)[:4]
    return Price(read_in, out, read, write)


def _money(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        money = Decimal(str(value))
    except InvalidOperation:
        return None
    return money if money.is_finite() and money >= 0 else None


def _or(value: Decimal | None, other: Decimal) -> Decimal:
    return other if value is None else value
