"""What a model may cost is checked before it is asked, and what it did cost is told with where the number is from."""

from __future__ import annotations

import json
import socket
import time
from decimal import Decimal
from pathlib import Path

import pytest

import plait
from plait.cli.pricing import check_and_display_pricing
from plait.core.errors import ConfigError, PricingLimitExceededError
from plait.engine.spec import default_specification
from plait.models.azure_prices import azure_price
from plait.models.http.sync_http import SyncTransport
from plait.models.known_profiles import profile_named
from plait.models.openai_client import OpenAI
from plait.models.prices import Price, PriceTable, user_prices_path
from plait.models.registry import Descriptor, ModelRegistry, Provider
from plait.session.clients import create_client
from plait.session.pricing import check_price, kept_meters
from plait.session.tasks import run_task
from plait.testing import Say, ScriptServer
from tests.unit.models.http.transports import raw_server

TABLE = PriceTable({"openai": {"gpt-9": Price(Decimal(3), Decimal(15))}}, "2026-01-02")
IN, OUT = "max_input_token_price_per_million", "max_output_token_price_per_million"
USED = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, "prompt_tokens_details": {"cached_tokens": 0}}


def spec(endpoint: str = "openai", **limits: float) -> dict[str, object]:
    """Return a spec with limits on its price."""
    return {**default_specification("gpt-9", endpoint), **limits}


def serve_prices(connection: socket.socket) -> None:
    """Answer as OpenRouter's list of models does."""
    asked = connection.recv(65_536)
    assert asked.startswith(b"GET /v1/models ")
    assert b"authorization" not in asked.lower()
    listing = {"data": [{"id": "gpt-9", "pricing": {"prompt": "0.000003", "completion": "0.000015"}}]}
    body = json.dumps(listing).encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize("direction, limits, price", [("input", {IN: 2.5}, 3), ("output", {IN: 3, OUT: 14}, 15)])
def test_e50_a_model_that_is_too_dear(direction: str, limits: dict[str, float], price: int) -> None:
    """E50: the error has the model, the direction, the price and the limit."""
    wanted = spec(**limits)
    with pytest.raises(PricingLimitExceededError) as caught:
        check_price(wanted, create_client(wanted), prices=TABLE)

    error = caught.value
    assert ("gpt-9", direction, Decimal(price)) == (error.model, error.direction, error.current_price)
    assert limits[IN if direction == "input" else OUT] == error.limit


def test_e50_a_router_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """E50: where the endpoint lists its prices that list counts, and no key goes with the question."""
    monkeypatch.setenv("OPENROUTER_API_KEY", "k-1")
    with (
        raw_server(serve_prices) as url,
        OpenAI(base_url=url, profile=profile_named("openrouter"), api_key="k-1") as client,
    ):
        found = check_price(spec("openrouter"), client, prices=TABLE)
        assert (Decimal(3), Decimal(15)) == (found.price.input, found.price.output)  # type: ignore[union-attr]
        assert "gpt-9 costs 3 in, 15 out (USD a million tokens, the list of localhost)" == str(found)
        with pytest.raises(PricingLimitExceededError):
            check_price(spec("openrouter", **{OUT: 1}), client)


@pytest.mark.parametrize("endpoint", ["run://./program", "http://127.0.0.1:1/v1", "https://host.example/v1", "openai"])
def test_e50_a_price_that_nobody_knows_refuses_nothing(endpoint: str) -> None:
    """E50: programs, servers of one's own, unknown hosts and models that no table has are asked, and that is said."""
    wanted = {**spec(endpoint, **{IN: 0}), "model": "who"}
    found = check_price(wanted, create_client(wanted), prices=TABLE)

    assert found.price is None
    assert str(found).startswith("the price of who is not known: ")


def test_a_task_is_refused_before_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run_task` raises; with a client of the program's own nobody looks."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    user_prices_path().parent.mkdir()
    user_prices_path().write_text('{"providers": {"openai": {"gpt-9": ["3", "15"]}}}')

    with pytest.raises(PricingLimitExceededError, match="3"):
        run_task(spec(**{IN: 1}), "x")
    with ScriptServer(["done"]) as server:
        assert "done" == run_task(spec(**{IN: 1}), "x", client=OpenAI(base_url=server.url)).final_reply


def test_a_price_is_displayed(capsys: pytest.CaptureFixture[str]) -> None:
    """`check_and_display_pricing` tells the price, or why there is none, on stderr."""
    assert plait.check_and_display_pricing is check_and_display_pricing
    check_and_display_pricing({**spec(), "model": "gpt-4o"})

    shown = capsys.readouterr()
    assert ("", "gpt-4o costs 2.5 in, 10 out (USD a million tokens, the table of ") == (shown.out, shown.err[:-12])


def test_what_an_answer_cost_is_computed_from_the_table() -> None:
    """An endpoint that reports tokens and no money has its cost computed, and marked so; the tokens stay reported."""
    with ScriptServer([Say("done", usage=USED)]) as server:
        models = ModelRegistry([Provider("openai", server.url)], {"main": Descriptor("openai", "gpt-9")}, prices=TABLE)
        usage = run_task(default_specification("gpt-9", server.url), "x", client=models.resolve("main")).turn_usage

    assert Decimal("4.5") == usage.cost
    assert ("computed", "reported") == (usage.amount("cost").provenance, usage.amount("input").provenance)
    assert "USD" == usage.amount("cost").currency


def test_a_cost_that_the_endpoint_reports_is_left_alone() -> None:
    """Reported money wins over a table, and is marked as reported."""
    with ScriptServer([Say("done", usage={**USED, "cost": 0.25})]) as server:
        models = ModelRegistry([Provider("o", server.url)], {"m": Descriptor("o", "m", prices=Price(Decimal(1)))})
        usage = run_task(default_specification("m", server.url), "x", client=models.resolve("m")).turn_usage

    assert (Decimal("0.25"), "reported") == (usage.cost, usage.amount("cost").provenance)


def test_a_damaged_table_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named where a price is asked for; an answer that is there already is told without its cost."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    user_prices_path().parent.mkdir()
    user_prices_path().write_text("{")

    with pytest.raises(ConfigError, match=r"prices\.json"):
        check_price(spec(), create_client(spec()))
    with ScriptServer([Say("done", usage=USED)]) as server:
        result = run_task(default_specification("m", server.url), "x")
    assert ("completed", None) == (result.status, result.turn_usage.cost)


def test_azures_list_is_kept_for_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once, and again when what is kept is old or damaged; a folder that takes nothing costs a request."""
    asked: list[bytes] = []
    items = [{"meterName": "gpt 9 Inp glbl Tokens", "retailPrice": 0.003, "unitOfMeasure": "1K"}]
    body = json.dumps({"Items": items}).encode()

    def serve(connection: socket.socket) -> None:
        asked.append(connection.recv(65_536))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)

    transport, kept = SyncTransport(), tmp_path / "prices/azure.json"
    with raw_server(serve) as url:
        for damage in (None, None, '{"at": 1, "meters": []}', "[", '{"at": 9e99, "meters": []}', '{"at": NaN}'):
            if damage is not None:
                kept.write_text(damage)
            assert Price(Decimal(3)) == azure_price(kept_meters(transport, tmp_path, url), "gpt-9")
        (tmp_path / "file").write_text("")
        assert kept_meters(transport, tmp_path / "file", url)
    transport.close()

    assert 6 == len(asked)


def test_a_price_of_azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of an Azure endpoint is looked up in the kept list; a deployment of another name has no price."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path))
    (tmp_path / "prices").mkdir()
    meters = [["gpt 9 Inp glbl Tokens", "3"], ["gpt 9 Outp glbl Tokens", "15"]]
    (tmp_path / "prices/azure.json").write_text(json.dumps({"at": time.time(), "meters": meters}))
    wanted = spec("https://res.openai.azure.com", **{OUT: 14})

    with pytest.raises(PricingLimitExceededError, match="15"):
        check_price(wanted, create_client(wanted), prices=TABLE)
    assert check_price({**wanted, "model": "mine"}, create_client(wanted), prices=TABLE).price is None
