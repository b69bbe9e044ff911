"""Which key goes to which host, and where it is found.

Floor: 2. Owns: sources of keys and the rule that a key goes only to its own host; never: a key in any text.

A provider's variable is read for that provider's hosts alone. Any other public host gets a key only when its user
names the source, or sets PLAIT_API_KEY. This machine and private networks need none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol

from plait.core.exchange import ProviderFailed
from plait.core.values import dataclass
from plait.models.endpoint import Endpoint
from plait.models.http.routes import is_private

GENERAL_KEY: Final = "PLAIT_API_KEY"


class KeySource(Protocol):
    """One place where keys may be."""

    @property
    def label(self) -> str:
        """What to call it in a sentence: the variable, the file, never what is in it."""
        ...

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys it holds, in order of preference; none is no error.

        Raises:
            ProviderFailed: it should hold one and cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """A key that the program passed in."""

    key: str = field(repr=False)
    label: str = "the api_key argument"

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return it."""
        return split_keys(self.key)


@dataclass(frozen=True, slots=True)
class FromEnv:
    """A variable with one key or several, and its numbered sisters: `NAME`, `NAME_1`, `NAME_2`, …"""

    variable: str

    @property
    def label(self) -> str:
        """The variable's name; a key that was given in its place is not repeated."""
        from plait.core.redact import redact_secrets  # many patterns, and nobody asks for a name unless it failed

        return redact_secrets(self.variable)[0]

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys of the variable, split at commas, and of its sisters up to the first that is missing."""
        keys = list(split_keys(environ.get(self.variable, "")))
        number = 1
        while more := split_keys(environ.get(f"{self.variable}_{number}", "")):
            keys += more
            number += 1
        return tuple(dict.fromkeys(keys))


@dataclass(frozen=True, slots=True)
class Credentials:
    """The sources for one endpoint, tried in order; a key is looked for when a request needs it.

    A source that cannot be read is passed over; only when no other has a key is that the failure.
    """

    sources: tuple[KeySource, ...]
    is_needed: bool = True
    host: str = ""
    is_named: bool = False
    """Whether the user named the source, so that nothing else may take its place."""
    is_exposed: bool = False
    """Whether a key would travel unprotected over a public network."""

    def find(self, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Return the keys of the first source that has any, `()` where none is needed.

        Raises:
            ProviderFailed: class `auth`; a key is needed and there is none, or it would be sent in clear.
        """
        environ = os.environ if environ is None else environ
        problem: ProviderFailed | None = None
        for source in self.sources:
            try:
                keys = source.find(environ)
            except ProviderFailed as unreadable:
                problem = problem or unreadable
                continue
            if keys and self.is_exposed and not self.is_named:
                raise self._exposed(source.label)
            if keys:
                return keys
        if self.is_needed or self.is_named:
            raise problem or self._missing()
        return ()

    @property
    def is_slow(self) -> bool:
        """True where looking may take a while, or wait for somebody: anything but variables and given keys."""
        return any(not isinstance(source, (Given, FromEnv)) for source in self.sources)

    @property
    def label(self) -> str:
        """Where the key should be, in words."""
        return " or ".join(source.label for source in self.sources)

    def _exposed(self, label: str) -> ProviderFailed:
        return ProviderFailed(
            "auth",
            f"the key in {label} would travel unprotected to {self.host}",
            retryable=False,
            phase="connect",
            detail="exposed_key",
            hint=f"write https:// in the endpoint, or name the key with --key-env {label} if you mean it",
        )

    def _missing(self) -> ProviderFailed:
        if self.is_named:
            message, hint = f"there is no key in {self.label}", f"set {self.label} to a key for {self.host}"
        else:
            message = f"there is no key for {self.host}"
            hint = f"set {self.label}, or name another variable with --key-env"
        return ProviderFailed("auth", message, retryable=False, phase="connect", detail="missing_key", hint=hint)


def credentials_for(
    endpoint: Endpoint,
    *,
    api_key: str | None = None,
    key_env: str | None = None,
    named: Sequence[KeySource] = (),
    environ: Mapping[str, str] | None = None,
) -> Credentials:
    """Say where the key for an endpoint is looked for.

    Args:
        endpoint: whose host decides what may be sent to it.
        api_key: the key itself; empty means that none is sent.
        key_env: the one variable to read.
        named: other sources that the user named, in order.
        environ: None is the process's own.
    """
    host = endpoint.host
    if api_key is not None:
        return Credentials((Given(api_key),), is_needed=False, host=host)
    if key_env:
        return Credentials((FromEnv(key_env),), host=host, is_named=True)
    if named:
        return Credentials(tuple(named), host=host, is_named=True)
    variables = [*endpoint.profile.key_env]
    if "OPENAI_API_KEY" not in variables and _is_openai_base(endpoint, os.environ if environ is None else environ):
        variables.append("OPENAI_API_KEY")
    sources = tuple(FromEnv(variable) for variable in (*variables, GENERAL_KEY))
    is_exposed = endpoint.base.startswith("http://") and not is_private(host)
    return Credentials(sources, is_needed=endpoint.profile.needs_key, host=host, is_exposed=is_exposed)


def split_keys(text: str) -> tuple[str, ...]:
    """Return the keys in a comma-separated text, without blanks and repetitions."""
    return tuple(dict.fromkeys(key for part in text.split(",") if (key := part.strip())))


def _is_openai_base(endpoint: Endpoint, environ: Mapping[str, str]) -> bool:
    """Say whether the user pointed OpenAI's own variable at this endpoint, and so means its key for it."""
    base = environ.get("OPENAI_BASE_URL", "").strip().rstrip("/")
    return bool(base) and base == endpoint.base
