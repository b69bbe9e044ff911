"""Which model at which endpoint: the flags, else the one provider whose key is in the environment.

Floor: 7. Owns: the choice and the words when there is none; never: a key's value, a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.models.endpoint import endpoint_of, shown_address
from plait.models.profiles import EndpointProfile

RUN: Final = "run://"
_THREE_WAYS: Final = """any one of these will do:
  plait run --endpoint http://127.0.0.1:8080/v1 -m MODEL "..."   a server of your own, or any chat-completions endpoint
  export OPENROUTER_API_KEY=...                                  a provider's key (OPENAI_API_KEY, ...) with its default
  plait demo                                                     first see it work, without a key"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What will be asked, and where."""

    model: str
    endpoint: str
    key_env: str | None = None
    """The variable that the user named for the key."""
    reason: str = ""
    """Why this one, when the user did not say so."""


def choose(model: str | None, endpoint: str | None, key_env: str | None, environ: Mapping[str, str]) -> Choice:
    """Choose from the flags and the environment.

    Raises:
        ConfigError: nothing, or more than one thing, was meant; the hint says how to choose.
    """
    if endpoint and endpoint.startswith(RUN):
        if not endpoint.removeprefix(RUN).strip():
            raise ConfigError(f"{endpoint!r} names no program", hint="write run:// and the program's path")
        return Choice(model or PurePath(endpoint.removeprefix(RUN)).name, endpoint, key_env)
    if endpoint:
        return Choice(model or _default_model(endpoint), endpoint, key_env)
    base = environ.get("OPENAI_BASE_URL", "").strip()
    if base:
        return Choice(model or _default_model(base), base, key_env, "OPENAI_BASE_URL is set")
    found = _providers(model, key_env, environ)
    if not found:
        raise ConfigError(_nothing(model, key_env), hint=_THREE_WAYS)
    if len(found) > 1:
        variables = ", ".join(variable for _, variable in found)
        names = " or ".join(f"--endpoint {profile.name}" for profile, _ in found)
        raise ConfigError(f"keys of several providers are set: {variables}", hint=f"say which: {names}")
    profile, variable = found[0]
    return Choice(model or profile.default_model, profile.base_url, key_env, f"{variable} is set")


def keys_in(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that hold a key plait would use; never a value."""
    from plait.models.credentials import GENERAL_KEY
    from plait.models.profile_table import PROFILES

    names = [variable for profile in PROFILES for variable in profile.key_env]
    return [name for name in (*names, GENERAL_KEY) if environ.get(name, "").strip()]


def _providers(
    model: str | None, key_env: str | None, environ: Mapping[str, str]
) -> Sequence[tuple[EndpointProfile, str]]:
    """Return the providers that the environment has a key for, each with the variable that says so."""
    from plait.models.profile_table import PROFILES

    found: list[tuple[EndpointProfile, str]] = []
    for profile in PROFILES:
        variables = [name for name in profile.key_env if environ.get(name, "").strip() and key_env in (None, name)]
        if variables and profile.base_url:
            found.append((profile, variables[0]))
    # A token that also serves other ends is no choice of a model, unless there is no other.
    with_default = [entry for entry in found if entry[0].default_model]
    return with_default or (found if model else [])


def _default_model(endpoint: str) -> str:
    profile = endpoint_of(endpoint).profile
    if profile.default_model:
        return profile.default_model
    raise ConfigError(
        f"no model was chosen for {shown_address(endpoint)}", hint="name it with -m; the server's /models lists its own"
    )


def _nothing(model: str | None, key_env: str | None) -> str:
    if key_env:
        return f"no endpoint was chosen, and {key_env} is not the key of a known provider"
    return f"no endpoint was chosen for the model {model!r}" if model else "no model was chosen"
