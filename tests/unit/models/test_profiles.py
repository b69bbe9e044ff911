"""The table of known endpoints: whole, without contradictions, and right about single models."""

from __future__ import annotations

from dataclasses import fields

import pytest

from plait.models.chat_model import chat_model
from plait.models.endpoint import endpoint_of
from plait.models.known_profiles import profile_named, profile_of
from plait.models.prices import bundled_prices
from plait.models.profile_table import LOCAL, PROFILES, UNKNOWN
from plait.models.profiles import EndpointProfile, ModelTraits, with_wire
from plait.testing import Say, ScriptServer
from plait.wire.profile import WireProfile
from tests.unit.models.talking import talk_sync, text_of

EVERY = (*PROFILES, LOCAL, UNKNOWN)
OPENAI = "https://api.openai.com/v1"


def wire_of(provider: str, model: str) -> WireProfile:
    """Return how a model at a provider is talked to."""
    profile = profile_named(provider)
    assert profile is not None
    return profile.for_model(model).wire


def test_rows_do_not_contradict_each_other() -> None:
    """No host and no name belongs to two rows, each has a key to advise, and traits name fields that exist."""
    hosts = [host for profile in PROFILES for host in profile.hosts]
    names = {field.name for field in fields(WireProfile)}

    assert len(hosts) == len(set(hosts))
    assert len(EVERY) == len({profile.name for profile in EVERY})
    assert [] == [profile.name for profile in PROFILES if not profile.key_env]
    assert set() == {name for profile in EVERY for traits in profile.models for name in traits.wire} - names


@pytest.mark.parametrize("profile", [row for row in PROFILES if row.default_model], ids=lambda row: row.name)
def test_a_default_model_is_one_that_is_known(profile: EndpointProfile) -> None:
    """What is asked when nothing was said has a price, and a window of its own wherever the provider has several."""
    model = profile.default_model
    is_priced = profile.lists_prices or bundled_prices().price_of(profile.name, model) is not None

    assert is_priced or profile.name == "dashscope", model  # whose price depends on the length of the prompt
    assert (profile.for_model(model).context_window or 0) >= 128_000
    assert not profile.models or profile.name == "deepseek" or any(traits.match(model) for traits in profile.models)


@pytest.mark.parametrize(
    "model, wire, window",
    [
        ("gpt-4o", "chat", 128_000),
        ("gpt-4.1-mini", "chat", 1_047_576),
        ("gpt-5", "chat", 272_000),
        ("gpt-5.4", "responses", 922_000),
        ("gpt-5.4-mini-2026-03-17", "responses", 272_000),
        ("gpt-5.6-luna", "responses", 922_000),
        ("gpt-6.1-terra", "responses", 922_000),
    ],
)
def test_openai_models_are_asked_where_they_call_tools(model: str, wire: str, window: int) -> None:
    """Those that refuse tools in chat completions are asked on the Responses wire, and get their thoughts back."""
    profile = profile_of("api.openai.com").for_model(model)

    assert (wire, window) == (profile.wire.wire, profile.context_window)
    assert (wire == "responses") is (profile.wire.reasoning_echo == "always") is not profile.wire.temperature
    assert window == chat_model(model, OPENAI).context_window


@pytest.mark.parametrize(
    "model, thinking, temperature, window",
    [
        ("claude-3-7-sonnet-latest", "budget", True, 200_000),
        ("claude-sonnet-4-5-20250929", "budget", True, 200_000),
        ("claude-haiku-4-5", "budget", True, 200_000),
        ("claude-sonnet-4-6", "adaptive", True, 1_000_000),
        ("claude-opus-4-8", "adaptive", False, 1_000_000),
        ("claude-sonnet-5", "adaptive", False, 1_000_000),
        ("claude-sonnet-5-5", "always", False, 1_000_000),
        ("claude-haiku-5-5", "adaptive", False, 1_000_000),
        ("claude-someday-9", "adaptive", False, 200_000),
    ],
)
def test_claude_models_think_as_they_want(model: str, thinking: str, temperature: bool, window: int) -> None:
    """Older models take a budget and a temperature, later ones an effort; an unknown one is taken for later."""
    profile = profile_of("api.anthropic.com").for_model(model)

    assert (thinking, temperature, window) == (profile.wire.thinking, profile.wire.temperature, profile.context_window)


def test_a_wire_that_is_named_is_meant() -> None:
    """Whoever says chat is not sent to another wire by what is known of the model; the rest of it stays."""
    named = with_wire(profile_of("api.openai.com"), "chat").for_model("gpt-6.1-terra")

    assert ("chat", 922_000) == (named.wire.wire, named.context_window)
    with ScriptServer([Say("hi")]) as server:
        at = endpoint_of(server.url).with_profile(profile_of("api.openai.com"))
        (reply,) = talk_sync(chat_model("gpt-6.1-terra", at, api_key="k", wire="chat"), 1)
    assert "hi" == text_of(reply)
    assert server.requests[0].path.endswith("/chat/completions")


def test_the_longest_beginning_counts() -> None:
    """Of two traits the nearer one is taken, and a model that none knows has the endpoint's own."""
    profile = EndpointProfile(
        "p", context_window=1, models=(ModelTraits(("m",), 2), ModelTraits(("m-1", "n"), 3, {"images": False}))
    )

    assert [2, 3, 3, 1] == [profile.for_model(name).context_window for name in ("m-2", "m-10", "n", "o")]
    assert [True, False] == [profile.for_model(name).wire.images for name in ("m-2", "m-1")]


def test_azure_by_its_two_addresses() -> None:
    """The name of a deployment counts where the model is named in the body, not where it stands in the path."""
    new = endpoint_of("https://r.openai.azure.com")
    dated = endpoint_of(
        "https://r.openai.azure.com/openai/deployments/gpt-6-sol/chat/completions?api-version=2024-10-21"
    )

    assert "https://r.openai.azure.com/openai/v1/responses" == new.url("/responses")
    assert "responses" == new.profile.for_model("gpt-6-sol").wire.wire
    assert "chat" == dated.profile.for_model("gpt-6-sol").wire.wire
    assert "https://r.openai.azure.com/openai/deployments/gpt-6-sol/chat/completions?api-version=2024-10-21" == (
        dated.url("/chat/completions")
    )
    assert ["api-key"] * 2 == [at.profile.auth_header for at in (new, dated)]


def test_prices_of_azure_are_those_of_openai() -> None:
    """The list of one cloud does not contradict the other's."""
    table = bundled_prices().providers

    assert [] == [name for name, price in table["azure"].items() if table["openai"][name] != price]


def test_deepseek_sees_with_one_model() -> None:
    """Pictures go to the model that takes them."""
    assert [True, False] == [wire_of("deepseek", name).images for name in ("deepseek-flash", "deepseek-v4-pro")]
