"""What is known of an endpoint before the first request: its wire, its key, what it takes and reports.

Floor: 2. Owns: the shape of an endpoint's profile; never: which there are, a price, a branch on a name.

The table itself is data and stands in `profile_table`; `known_profiles` looks up in it. A host that is not in it gets
the most careful profile there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final, cast

from plait.core.values import dataclass
from plait.wire.profile import WireName, WireProfile

ANTHROPIC_VERSION: Final = "2023-06-01"
"""Every request on the anthropic wire names a version of its API. This one is kept as it is, and known to every server
that imitates it; the one after it (2026-10-21) takes no temperature, and changes nothing else that plait sends."""
ANTHROPIC_KEY_HEADER: Final = "x-api-key"
"""Where Anthropic's own API, and servers that imitate its older clients, want the key."""


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What some models of an endpoint do otherwise than its profile says."""

    names: tuple[str, ...]
    """How the names of these models begin."""
    context_window: int | None = None
    """Tokens."""
    wire: Mapping[str, object] = field(default_factory=dict)
    """Fields of the wire profile, by name."""

    def match(self, model: str) -> int:
        """Return how many characters of a model's name it knows."""
        return max((len(start) for start in self.names if model.startswith(start)), default=0)


@dataclass(frozen=True, slots=True)
class EndpointProfile:
    """One provider's endpoint, as data."""

    name: str
    hosts: tuple[str, ...] = ()
    """Hosts it is reached at; a name with a leading dot stands for all below it."""
    base_url: str = ""
    """Where its API begins, for a user who names only the provider or only the host."""
    key_env: tuple[str, ...] = ()
    """Environment variables that hold a key for these hosts and no others; the first is the one to advise."""
    base_path: str = "/v1"
    """Where its API begins on a host of which only the name is given; what `base_url` says wins."""
    needs_key: bool = True
    auth_header: str = "Authorization"
    """Header that carries the key; in `Authorization` it follows the word Bearer."""
    wire: WireProfile = field(default_factory=WireProfile)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of every request."""
    body: Mapping[str, object] = field(default_factory=dict)
    """Body members of every request."""
    context_window: int | None = None
    """Tokens, where all the endpoint's models have at least that many."""
    default_model: str = ""
    """What `plait run` uses when this provider's key is all it was given."""
    streams: bool = True
    takes_effort: bool = False
    """Whether a reasoning effort may be sent."""
    takes_cache_key: bool = False
    """Whether `prompt_cache_key` may be sent."""
    reports_input: bool = True
    """False where the prompt tokens of its usage mean nothing."""
    reports_cache: bool = False
    """Whether usage always says how many tokens a cache held."""
    min_cacheable_tokens: int = 0
    """Shorter prompts are never cached."""
    pins_provider: bool = False
    """Whether the endpoint routes to several providers, and requests can stay with the first that answered."""
    lists_prices: bool = False
    """Whether its list of models says what each costs."""
    is_azure_priced: bool = False
    """Whether Azure's public list of retail prices says what its models cost."""
    models: tuple[ModelTraits, ...] = ()
    """What is known of models by name; of several that fit, the longest beginning counts."""

    def window_of(self, model: str) -> int | None:
        """Return the window of this very model; None where only that of the endpoint's models in general is known."""
        traits = max(self.models, key=lambda known: known.match(model), default=None)
        return traits.context_window if traits is not None and traits.match(model) else None

    def for_model(self, model: str) -> EndpointProfile:
        """Return the profile with what is known of one model in it."""
        traits = max(self.models, key=lambda known: known.match(model), default=None)
        if traits is None or not traits.match(model):
            return self
        spoken = replace(self.wire, **cast("dict[str, Any]", dict(traits.wire)))
        return replace(self, wire=spoken, context_window=traits.context_window or self.context_window, models=())


def with_wire(profile: EndpointProfile, wire: WireName) -> EndpointProfile:
    """Return the profile of the same endpoint for a wire that it also speaks.

    On the anthropic wire requests name the API's version, and thoughts go back with their signatures. The key stays in
    the endpoint's own header: Anthropic's clients of today send it in the usual one. That an endpoint holds answers to
    a schema is known of the wire in its profile, and of OpenAI's two alike: a local server ignores one it cannot read.
    """
    keeps = wire == profile.wire.wire or (wire != "anthropic" and profile.wire.structured_output == "always")
    schemas = profile.wire.structured_output if keeps else "never"
    spoken = replace(profile.wire, wire=wire, structured_output=schemas)
    # Whoever names a wire means it for every model.
    models = tuple(
        replace(traits, wire={name: value for name, value in traits.wire.items() if name != "wire"})
        for traits in profile.models
    )
    if wire == profile.wire.wire or wire != "anthropic":
        return replace(profile, wire=spoken, models=models)
    headers = {"anthropic-version": ANTHROPIC_VERSION, **profile.headers}
    return replace(profile, wire=replace(spoken, reasoning_echo="always"), headers=headers, models=models)
