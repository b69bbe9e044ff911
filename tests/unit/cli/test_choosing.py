"""Which model and endpoint a run gets, and what is said when that is not clear."""

from __future__ import annotations

import pytest

from plait.cli.choosing import choose, keys_in
from plait.core.errors import ConfigError


def test_the_flags_win() -> None:
    """What was typed is taken, whatever keys there are."""
    choice = choose("qwen3", "http://127.0.0.1:8080/v1", "MY_KEY", {"OPENAI_API_KEY": "k"})

    assert ("qwen3", "http://127.0.0.1:8080/v1", "MY_KEY") == (choice.model, choice.endpoint, choice.key_env)


def test_one_key_chooses_its_provider_and_the_default_model() -> None:
    """The endpoint, the model and the reason come from the profile of the key's owner."""
    choice = choose(None, None, None, {"OPENROUTER_API_KEY": "k"})

    assert "https://openrouter.ai/api/v1" == choice.endpoint
    assert choice.model
    assert "OPENROUTER_API_KEY is set" == choice.reason


def test_a_model_alone_goes_to_the_one_provider_there_is_a_key_for() -> None:
    """-m replaces the default model, and reaches providers that have none."""
    assert "o9" == choose("o9", None, None, {"OPENAI_API_KEY": "k", "HF_TOKEN": "t"}).model
    assert "huggingface" in choose("x/y", None, None, {"HF_TOKEN": "t"}).endpoint


def test_a_provider_by_name_brings_its_default_model() -> None:
    """`--endpoint openai` alone is enough."""
    assert choose(None, "openai", None, {}).model


def test_a_named_key_names_its_provider() -> None:
    """--key-env with a provider's own variable settles which of several is meant."""
    environ = {"OPENAI_API_KEY": "a", "OPENROUTER_API_KEY": "b"}

    assert "https://api.openai.com/v1" == choose(None, None, "OPENAI_API_KEY", environ).endpoint


def test_an_explicit_base_url_is_the_endpoint() -> None:
    """OPENAI_BASE_URL is where its user wants requests to go; its model must be named."""
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENROUTER_API_KEY": "k"}

    assert "http://127.0.0.1:9/v1" == choose("m", None, None, environ).endpoint
    with pytest.raises(ConfigError, match="no model was chosen"):
        choose(None, None, None, environ)


@pytest.mark.parametrize(
    "flags, environ, sentence, hint",
    [
        ((None, None, None), {}, "no model was chosen", "plait demo"),
        ((None, None, None), {"OPENAI_API_KEY": " "}, "no model was chosen", "--endpoint"),
        (("gpt", None, None), {}, "no endpoint was chosen for the model 'gpt'", "OPENROUTER_API_KEY"),
        ((None, None, "MY_KEY"), {"MY_KEY": "k"}, "MY_KEY is not the key of a known provider", "--endpoint"),
        ((None, "http://127.0.0.1:1/v1", None), {}, "no model was chosen for http://127.0.0.1:1/v1", "-m"),
        ((None, None, None), {"OPENAI_API_KEY": "a", "XAI_API_KEY": "b"}, "several providers", "--endpoint xai"),
        ((None, None, None), {"HF_TOKEN": "t"}, "no model was chosen", "plait demo"),
    ],
)
def test_what_is_not_clear_is_told_with_the_ways_out(
    flags: tuple[str | None, str | None, str | None], environ: dict[str, str], sentence: str, hint: str
) -> None:
    """Nothing is guessed: the error says what is missing, the advice how to say it."""
    with pytest.raises(ConfigError) as caught:
        choose(*flags, environ)

    assert sentence in caught.value.message
    assert hint in caught.value.hint


def test_only_names_of_keys_are_told() -> None:
    """The list holds the variables that are set, and nothing of what is in them."""
    assert ["OPENAI_API_KEY", "PLAIT_API_KEY"] == keys_in(
        {"OPENAI_API_KEY": "sk-1", "PLAIT_API_KEY": "x", "MISTRAL_API_KEY": "", "PATH": "/bin"}
    )
