"""What the model of a spec costs, against what its user allows.

Floor: 5. Owns: where the price of a spec's model is looked for; never: the arithmetic (`models.prices`), or printing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from plait.core.values import dataclass
from plait.engine.agent_spec import model_of
from plait.models.azure_prices import AZURE_PRICES, KEPT_FOR_S, azure_price, fetch_meters
from plait.models.openai_client import OpenAI
from plait.models.prices import Price, PriceTable, check_limits, known_prices, openrouter_price
from plait.models.transport import Transport
from plait.session.spec_terms import PRICE_LIMITS
from plait.store.disk import make_private_folder, replace_file
from plait.store.layout import state_home


@dataclass(frozen=True, slots=True)
class PriceCheck:
    """The price of a model, and where it stands."""

    model: str
    price: Price | None
    """None where it is not known."""
    source: str
    """Where the price stands, or why there is none."""

    def __str__(self) -> str:
        if self.price is None:
            return f"the price of {self.model} is not known: {self.source}"
        read, said = _shown(self.price.input), _shown(self.price.output)
        return f"{self.model} costs {read} in, {said} out ({self.price.currency} a million tokens, {self.source})"


def check_price(schema: Mapping[str, Any], client: object, *, prices: PriceTable | None = None) -> PriceCheck:
    """Find out what a spec's model costs at a client's endpoint, and refuse one that is too dear.

    OpenRouter's own list is asked, and Azure's public one, which is kept for a week in the state folder; both without
    a key. For other providers the table of prices says. A price that cannot be found out refuses nothing.

    Args:
        client: what `create_client` returned for the spec.
        prices: the table; plait's with the user's own in it unless given.

    Raises:
        PricingLimitExceededError: a direction is dearer than its limit, or has one and only the other's price is known.
        ConfigError: the user's own table cannot be read.
    """
    model = model_of(schema)
    price, source = _price(model, client, prices)
    check_limits(model, price, {direction: schema.get(name) for direction, name in PRICE_LIMITS.items()})
    return PriceCheck(model, price, source)


def _price(model: str, client: object, prices: PriceTable | None) -> tuple[Price | None, str]:
    if not isinstance(client, OpenAI):
        return None, "a program or a client of your own answers"
    at = client.backend.endpoint
    if at.profile.lists_prices:
        price = openrouter_price(client.backend.transport, model, at.url("/models"))
        if price is not None:
            return price, f"the list of {at.host}"
    if not at.profile.name:
        return None, f"{at.host} is in no table of prices"
    table = prices or known_prices()
    price = table.price_of(at.profile.name, model)
    if price is None and at.profile.is_azure_priced:
        price = azure_price(kept_meters(client.backend.transport, state_home(os.environ)), model)
        if price is not None:
            return price, "Azure's list of retail prices"
    if price is None:
        return None, f"the table of prices has no such model of {at.profile.name}"
    return price, f"the table of {price.as_of or table.as_of}"


def kept_meters(transport: Transport, home: Path, url: str = AZURE_PRICES) -> Sequence[Sequence[str]]:
    """Return Azure's list: the one that is kept, unless it is too old; a new one is kept where that is possible."""
    path = home / "prices" / "azure.json"
    try:
        kept = json.loads(path.read_bytes())
        if 0 <= time.time() - kept["at"] < KEPT_FOR_S:
            return [(str(name), str(Decimal(price))) for name, price in kept["meters"]]
    except (OSError, ValueError, TypeError, KeyError, InvalidOperation):
        pass  # not there, or not ours: the list is read again
    meters = fetch_meters(transport, url)
    if meters:
        # Nothing is lost when it cannot be kept: the next one reads the list again.
        with suppress(OSError):
            make_private_folder(path.parent)
            replace_file(path, json.dumps({"at": time.time(), "meters": meters}).encode())
    return meters


def _shown(amount: Decimal | None) -> str:
    return "an unknown price" if amount is None else f"{amount.normalize():f}"
