"""Azure's list of retail prices names meters; which of them are a model's, and what it costs by them."""

from __future__ import annotations

import json
import socket
from decimal import Decimal
from typing import Any

import pytest

from plait.models.azure_prices import Meter, azure_price, fetch_meters
from plait.models.http.sync_http import SyncTransport
from plait.models.prices import Price
from plait.testing import unused_url
from tests.unit.models.http.transports import raw_server

METERS = [
    Meter("gpt 4o mini Inp glbl Tokens", "0.15"),
    Meter("gpt-4o-mini-0718-Inp-glbl Tokens", "0.14"),
    Meter("gpt 4o mini Outp glbl Tokens", "0.6"),
    Meter("gpt 4o mini cchd Inp glbl Tokens", "0.075"),
    Meter("gpt 4o mini Inp DZone Tokens", "0.1"),
    Meter("gpt 4o mini Batch Inp glbl Tokens", "0.01"),
    Meter("gpt 4o mini audio Inp glbl Tokens", "9"),
    Meter("gpt 4o Inp regnl Tokens", "2.75"),
    Meter("gpt 4o Inp DZone Tokens", "2.5"),
    Meter("gpt 4.1 nano Outp glbl 1M Tokens", "0.4"),
]


@pytest.mark.parametrize(
    "model, expected",
    [
        ("gpt-4o-mini", Price(Decimal("0.14"), Decimal("0.6"), Decimal("0.075"))),
        ("GPT-4o-Mini", Price(Decimal("0.14"), Decimal("0.6"), Decimal("0.075"))),
        ("gpt-4o", Price(Decimal("2.75"), None, None)),
        ("gpt-4.1-nano", Price(None, Decimal("0.4"), None)),
        ("gpt-4.1", None),
        ("my-deployment", None),
        ("", None),
    ],
)
def test_a_model_s_own_meters_and_nobody_else_s(model: str, expected: Price | None) -> None:
    """Global before regional before a data zone, the lowest of equals; batch, audio and neighbours do not count."""
    assert expected == azure_price(METERS, model)


def item(name: str, price: object, unit: str = "1K", **more: object) -> dict[str, object]:
    """Return an entry of the list."""
    return {"meterName": name, "retailPrice": price, "unitOfMeasure": unit, "currencyCode": "USD", **more}


def test_the_list_is_read_page_by_page() -> None:
    """Prices are for a million tokens whatever their unit; what is no price is left out; no page of a stranger's."""
    asked: list[str] = []
    pages: list[dict[str, Any]] = [
        {
            "Items": [
                item("a Inp", 0.0025),
                item("b Inp", 3, "1M"),
                item("c", 0),
                item("d", "x"),
                item("e", 1, "1 Hour"),
            ]
        },
        {"Items": [item("f Inp", 1, currencyCode="EUR"), {}, 3, item("g Inp", 0.000001, "1")], "NextPageLink": None},
    ]

    def serve(connection: socket.socket) -> None:
        asked.append(connection.recv(65_536).split(b" ")[1].decode())
        body = json.dumps(pages[min(len(asked), len(pages)) - 1]).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)

    transport = SyncTransport()
    with raw_server(serve) as url:
        pages[0]["NextPageLink"] = f"{url}?$skip=2"
        found = [*fetch_meters(transport, url)]
        asked.clear()
        pages[0]["NextPageLink"] = f"{unused_url()}?$skip=2"
        strange = fetch_meters(transport, url)
    transport.close()

    assert [("a Inp", Decimal("2.5")), ("b Inp", 3), ("g Inp", 1)] == [(name, Decimal(price)) for name, price in found]
    assert () == strange
    assert "$filter=" in asked[0]


def test_a_list_that_cannot_be_had_is_none() -> None:
    """Nobody answers, or with something else: there is no price, and no error."""
    transport = SyncTransport()
    assert () == fetch_meters(transport, unused_url())
    transport.close()
