"""What models can do and cost, known before they are asked."""

from __future__ import annotations

import json
import socket
from decimal import Decimal
from pathlib import Path

import pytest

from plait.core.errors import ConfigError, ModelNotFound, PricingLimitExceededError, UnsupportedFeature
from plait.core.usage import Usage
from plait.models.http.sync_http import SyncTransport
from plait.models.prices import Price, bundled_prices, check_limits, openrouter_price, read_prices, with_cost
from plait.models.registry import Descriptor, ModelRegistry, Needs, Provider
from plait.testing import unused_url
from tests.unit.models.http.transports import raw_server

BIG = Descriptor(
    "here", "big-1", 200_000, 8_000, frozenset({"tools", "vision"}), aliases=("best",), fallbacks=("thinker",)
)
SMALL = Descriptor("here", "small-1", 8_192, None, frozenset({"tools"}), fallbacks=("big",))
THINKER = Descriptor("there", "o-1", None, None, frozenset({"tools", "reasoning"}))
PROVIDERS = [Provider("here", "http://127.0.0.1:9/v1"), Provider("there", "openai")]


def registry() -> ModelRegistry:
    """Three models at two endpoints."""
    return ModelRegistry(PROVIDERS, {"big": BIG, "small": SMALL, "thinker": THINKER})


def test_a_model_is_found_by_key_and_alias() -> None:
    """Both lead to one descriptor, and the model that is asked has its name, its endpoint and its window."""
    models = registry()
    assert BIG is models.describe("best") is models.preflight("big", Needs.of("vision"))
    model = models.resolve("best")
    assert ("big-1", 200_000, True) == (model.name, model.context_window, model.supports_images)
    assert "https://api.openai.com/v1" == getattr(models.resolve("thinker"), "endpoint", "")


def test_an_unknown_model_lists_near_names() -> None:
    """A typing mistake is answered with what it may have meant."""
    with pytest.raises(ModelNotFound) as unknown:
        registry().describe("smal")
    assert "small" in unknown.value.hint


@pytest.mark.parametrize(
    "needs, words",
    [
        (Needs.of("vision"), "look at pictures"),
        (Needs(context_tokens=10_000), "hold 10,000 tokens (its window is 8,192)"),
        (Needs.of("structured_output", "cache"), "answer in a given schema and report what its cache held"),
    ],
)
def test_a_model_that_cannot_is_refused_by_name(needs: Needs, words: str) -> None:
    """The refusal says what is missing, and who can."""
    with pytest.raises(UnsupportedFeature) as refused:
        registry().preflight("small", needs)
    assert words in str(refused.value)
    assert refused.value.hint


def test_a_fallback_is_taken_only_where_it_is_needed_and_able() -> None:
    """Fallbacks are tried in their order; a need that nobody meets is refused for the model that was asked for."""
    models = registry()
    assert "small" == models.choose("small")
    assert "big" == models.choose("small", Needs.of("vision"))
    assert "thinker" == models.choose("big", Needs.of("reasoning"))
    with pytest.raises(UnsupportedFeature, match="small"):
        models.choose("small", Needs.of("cache"))


def test_a_number_that_is_not_known_is_not_held_against_a_model() -> None:
    """A model without a stated window may be asked with any size."""
    assert THINKER is registry().preflight("thinker", Needs(context_tokens=10**7, output_tokens=10**6))


@pytest.mark.parametrize(
    "models, words",
    [
        ({"a": BIG, "best": SMALL}, "two models"),
        ({"big": Descriptor("nowhere", "x")}, "no provider"),
        ({"big": Descriptor("here", "x", fallbacks=("smal",))}, "falls back"),
        ({"big": Descriptor("here", "x", capabilities=frozenset({"flying"}))}, "flying"),  # type: ignore[arg-type]
    ],
)
def test_a_registry_that_contradicts_itself_is_refused(models: dict[str, Descriptor], words: str) -> None:
    """What would fail at the first request fails when the registry is made."""
    with pytest.raises(ConfigError, match=words):
        ModelRegistry(PROVIDERS, models)


def test_a_price_is_that_of_the_model_and_not_of_its_neighbour() -> None:
    """Dated versions have their model's price; a longer name, another provider's model and an unknown one have none."""
    prices = bundled_prices()
    assert Decimal("2.5") == getattr(prices.price_of("openai", "gpt-4o-2024-08-06"), "input", None)
    assert Decimal("0.15") == getattr(prices.price_of("openai", "gpt-4o-mini"), "input", None)
    assert prices.price_of("anthropic", "claude-haiku-4-5-20251001") is prices.price_of("anthropic", "claude-haiku-4-5")
    assert prices.price_of("openai", "gpt-4o-audio") is None
    assert prices.price_of("local", "gpt-4o") is None
    assert prices.as_of


def test_cached_tokens_are_paid_once() -> None:
    """A million tokens that all came from a cache cost the cache's price and nothing more."""
    price = Price(Decimal("2.5"), Decimal(10), Decimal("1.25"))
    usage = with_cost(Usage(input=1_000_000, output=0, cache_read=1_000_000), price)
    assert (Decimal("1.25"), frozenset()) == (usage.cost, usage.estimated)


def test_cost_counts_every_kind_of_token() -> None:
    """Fresh, read, written and answered tokens have each their price."""
    price = Price(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75"))
    usage = with_cost(Usage(input=1_000, output=100, cache_read=600, cache_write=300), price)
    assert Decimal("0.003105") == usage.cost


def test_a_cost_that_is_not_known_stays_unknown() -> None:
    """Without a price or a count there is no cost, and one that the provider reported is not replaced."""
    price = Price(Decimal(1), Decimal(1), Decimal("0.1"))
    assert with_cost(Usage(input=1, output=1), None).cost is None
    assert with_cost(Usage(input=1), price).cost is None
    assert Decimal(7) == with_cost(Usage(input=1, output=1, cost=Decimal(7)), price).cost
    assert "cost" in with_cost(Usage(input=1, output=1), price).estimated


def test_a_model_that_is_too_dear_is_refused() -> None:
    """Each direction has its limit; a price that could not be found out refuses nothing, half a price does."""
    price = Price(Decimal(3), Decimal(15))
    check_limits("m", price, {"input": 3, "output": 15.0})
    check_limits("m", None, {"input": 0})
    with pytest.raises(PricingLimitExceededError) as dear:
        check_limits("m", price, {"input": 3, "output": 10})
    assert ("m", "output", Decimal(15), 10) == (
        dear.value.model,
        dear.value.direction,
        dear.value.current_price,
        dear.value.limit,
    )
    with pytest.raises(PricingLimitExceededError):
        check_limits("m", Price(input=Decimal(3)), {"output": 10})


def test_openrouter_is_asked_what_a_model_costs() -> None:
    """Its list states money a token; a model that is not in it, and a list that cannot be had, have no price."""
    listing = {"data": [{"id": "a/b", "pricing": {"prompt": "0.000003", "completion": "0.000015"}}]}
    body = json.dumps(listing).encode()
    transport = SyncTransport()

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with raw_server(serve) as url:
        assert Price(Decimal(3), Decimal(15)) == openrouter_price(transport, "a/b", url)
        assert openrouter_price(transport, "a/c", url) is None
    assert openrouter_price(transport, "a/b", unused_url()) is None
    transport.close()


def test_a_users_own_table_wins(tmp_path: Path) -> None:
    """It may be in another currency and for another number of tokens; a damaged one is refused by its path."""
    path = tmp_path / "prices.json"
    path.write_text('{"currency": "EUR", "per_tokens": 1000, "providers": {"openai": {"gpt-4o": ["0.001", 0.01]}}}')
    prices = bundled_prices().with_prices(read_prices(path))
    assert Price(Decimal(1), Decimal(10), currency="EUR") == prices.price_of("openai", "gpt-4o")
    assert prices.price_of("openai", "gpt-4o-mini") is not None
    for damaged in ("{", "[]", '{"providers": {"a": {"b": 3}}}'):
        path.write_text(damaged)
        with pytest.raises(ConfigError):
            read_prices(path)
