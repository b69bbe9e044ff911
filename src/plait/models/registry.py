"""Models by key, with what each can do, so that a wrong choice is refused before the first request.

Floor: 2. Owns: descriptors, aliases, fallbacks and refusals; never: a request.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, get_args

from plait.core.errors import ConfigError, ModelNotFound, UnsupportedFeature
from plait.core.values import dataclass
from plait.models.backend import Backend, BackendOptions
from plait.models.chat_model import ChatModel
from plait.models.credentials import KeySource, credentials_for
from plait.models.endpoint import Endpoint, endpoint_of
from plait.models.prices import Price, PriceTable, known_prices
from plait.models.profiles import EndpointProfile
from plait.models.transport import Network, Timeouts

Capability = Literal["tools", "parallel_tools", "vision", "structured_output", "reasoning", "cache"]
CAPABILITIES: Final = frozenset(get_args(Capability))
_WORDS: Final[Mapping[Capability, str]] = {
    "tools": "call tools",
    "parallel_tools": "call several tools at once",
    "vision": "look at pictures",
    "structured_output": "answer in a given schema",
    "reasoning": "take a reasoning effort",
    "cache": "report what its cache held",
}


@dataclass(frozen=True, slots=True)
class Provider:
    """An endpoint that models are asked at."""

    name: str
    endpoint: str | None = None
    """None: the one that the provider's name stands for."""
    api_key: str | None = field(default=None, repr=False)
    key_env: str | None = None
    keys: Sequence[KeySource] = ()
    """Other places where its key may be, in order."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, object] = field(default_factory=dict)
    """Members of every request's body."""
    max_rpm: int | None = None
    """Requests a minute, of all its models together."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    network: Network = field(default_factory=Network)
    profile: EndpointProfile | None = None

    def at(self) -> Endpoint:
        """Return the endpoint."""
        at = endpoint_of(self.endpoint or self.name)
        return at if self.profile is None else at.with_profile(self.profile)

    def backend(self, prices: PriceTable) -> Backend:
        """Return what all its models share: connections, keys, the limit of requests."""
        at = self.at()
        credentials = credentials_for(at, api_key=self.api_key, key_env=self.key_env, named=self.keys)
        options = BackendOptions(self.timeouts, self.network, self.headers, self.body, self.max_rpm, prices)
        return Backend(at, credentials, options)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One model, and what it can do."""

    provider: str
    """Name of its provider in the registry."""
    model_id: str
    """The name that requests ask for."""
    context_window: int | None = None
    max_output: int | None = None
    capabilities: frozenset[Capability] = frozenset({"tools"})
    prices: Price | None = None
    """None: what the price table says."""
    aliases: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    """Keys of the models to take, in order, where this one cannot do what is needed."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a task asks of a model."""

    capabilities: frozenset[Capability] = frozenset()
    context_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def of(cls, *capabilities: Capability) -> Needs:
        """Need these and no numbers."""
        return cls(frozenset(capabilities))


class ModelRegistry:
    """Models by key; built once, then only read, by any thread. Models of one provider share its connections.

    Args:
        providers: endpoints, each with a name of its own.
        models: descriptors by the key that programs use.
        prices: what models cost; plait's table with the user's own in it unless given.

    Raises:
        ConfigError: a key or an alias is used twice, a provider or a fallback is not there, a capability is unknown.
    """

    def __init__(
        self,
        providers: Iterable[Provider] | Mapping[str, Provider],
        models: Mapping[str, Descriptor],
        *,
        prices: PriceTable | None = None,
    ) -> None:
        items = providers.values() if isinstance(providers, Mapping) else providers
        self._providers = _by_name(items)
        self._models = dict(models)
        self._keys = self._all_names()
        self._prices = prices
        self._backends: dict[str, Backend] = {}
        self._lock = threading.Lock()
        self._check()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, aliases left out."""
        return tuple(self._models)

    def describe(self, key: str) -> Descriptor:
        """Return the descriptor of a key or an alias.

        Raises:
            ModelNotFound: there is none; near names are listed.
        """
        name = self._keys.get(key)
        if name is None:
            raise ModelNotFound(f"no model is called {key!r}", hint=_near(key, self._keys))
        return self._models[name]

    def price_of(self, key: str) -> Price | None:
        """Return what a model costs, None where it is not known.

        Raises:
            ModelNotFound: there is no such model. ConfigError: the user's table of prices cannot be read.
        """
        model = self.describe(key)
        if model.prices is not None:
            return model.prices
        provider = self._providers[model.provider].at().profile.name
        return self.prices.price_of(model.provider, model.model_id) or self.prices.price_of(provider, model.model_id)

    @property
    def prices(self) -> PriceTable:
        """The table of prices; the one on disk is read when it is first wanted."""
        if self._prices is None:
            self._prices = known_prices()
        return self._prices

    def preflight(self, key: str, needs: Needs | None = None) -> Descriptor:
        """Return the descriptor of a model that can do what is needed.

        Raises:
            ModelNotFound: there is no such model. UnsupportedFeature: it cannot; the message names what is missing.
        """
        model = self.describe(key)
        missing = missing_of(model, needs or Needs())
        if missing:
            able = [name for name in self._models if not missing_of(self._models[name], needs or Needs())]
            raise UnsupportedFeature(
                f"the model {key!r} cannot {' and '.join(missing)}",
                hint=f"these can: {', '.join(able)}" if able else "no model of this registry can",
                context={"model": key, "missing": list(missing)},
            )
        return model

    def choose(self, key: str, needs: Needs | None = None) -> str:
        """Return the key, or the first of its fallbacks that can do what is needed.

        Raises:
            ModelNotFound: there is no such model. UnsupportedFeature: neither it nor a fallback can.
        """
        wanted = needs or Needs()
        model = self.describe(key)
        for name in (key, *model.fallbacks):
            if not missing_of(self.describe(name), wanted):
                return name
        self.preflight(key, wanted)
        return key

    def resolve(self, key: str, needs: Needs | None = None) -> ChatModel:
        """Return the model to ask; nothing is sent.

        Raises:
            ModelNotFound: there is no such model. UnsupportedFeature: neither it nor a fallback can do what is needed.
            ConfigError: the provider's endpoint is no address, or the user's table of prices cannot be read.
        """
        chosen = self.choose(key, needs)
        descriptor = self.describe(chosen)
        return ChatModel(
            descriptor.model_id,
            self._backend(descriptor.provider),
            context_window=descriptor.context_window,
            supports_images="vision" in descriptor.capabilities,
            price=self.price_of(chosen),
        )

    def close(self) -> None:
        """Close the idle connections of its providers; the models can be used again."""
        with self._lock:
            backends = list(self._backends.values())
        for backend in backends:
            backend.close()

    def _backend(self, name: str) -> Backend:
        with self._lock:
            if name not in self._backends:
                self._backends[name] = self._providers[name].backend(self.prices)
            return self._backends[name]

    def _all_names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for key, model in self._models.items():
            for name in (key, *model.aliases):
                if name in names:
                    raise ConfigError(f"two models are called {name!r}", hint="give each its own key and aliases")
                names[name] = key
        return names

    def _check(self) -> None:
        for provider in self._providers.values():
            provider.at()
        for key, model in self._models.items():
            if model.provider not in self._providers:
                known = ", ".join(sorted(self._providers)) or "none"
                raise ConfigError(f"the model {key!r} has no provider {model.provider!r}", hint=f"there are: {known}")
            for name in model.fallbacks:
                if name not in self._keys:
                    raise ConfigError(
                        f"the model {key!r} falls back on {name!r}, which is not there", hint=_near(name, self._keys)
                    )
            unknown = model.capabilities - CAPABILITIES
            if unknown:
                raise ConfigError(
                    f"the model {key!r} has an unknown capability {sorted(unknown)[0]!r}",
                    hint=f"there are: {', '.join(sorted(CAPABILITIES))}",
                )


def _by_name(providers: Iterable[Provider]) -> dict[str, Provider]:
    named: dict[str, Provider] = {}
    for provider in providers:
        if provider.name in named:
            raise ConfigError(f"two providers are called {provider.name!r}", hint="give each a name of its own")
        named[provider.name] = provider
    return named


def missing_of(model: Descriptor, needs: Needs) -> tuple[str, ...]:
    """Return what a model lacks, each as what it cannot do; a number that is not known is not held against it."""
    missing = [_WORDS[name] for name in get_args(Capability) if name in needs.capabilities - model.capabilities]
    window, output = model.context_window, model.max_output
    if needs.context_tokens is not None and window is not None and window < needs.context_tokens:
        missing.append(f"hold {needs.context_tokens:,} tokens (its window is {window:,})")
    if needs.output_tokens is not None and output is not None and output < needs.output_tokens:
        missing.append(f"write {needs.output_tokens:,} tokens (its limit is {output:,})")
    return tuple(missing)


def _near(name: str, names: Iterable[str]) -> str:
    import difflib

    known = list(names)
    near = difflib.get_close_matches(name, known, 3)
    return f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(known) or 'none'}"
