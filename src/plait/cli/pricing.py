"""The price of a spec's model, told to a person.

Floor: 7. Owns: `check_and_display_pricing`; never: finding the price.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from plait.session.clients import create_client
from plait.session.pricing import PriceCheck, check_price


def check_and_display_pricing(schema: Mapping[str, Any]) -> PriceCheck:
    """Tell on stderr what the model of a spec costs, and refuse one that is dearer than the spec allows.

    OpenRouter's own list is asked, and Azure's public one, without a key; nothing is sent for any other endpoint.

    Raises:
        PricingLimitExceededError: the price is above a limit of the spec.
        ConfigError: the spec, or the user's own table of prices, cannot be used.
    """
    with create_client(schema) as client:
        found = check_price(schema, client)
    print(found, file=sys.stderr)
    return found
