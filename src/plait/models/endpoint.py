"""Where an API begins, in all the forms in which people write it.

Floor: 2. Owns: base URLs; never: a request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final
from urllib.parse import SplitResult, urlsplit

from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.models.http.routes import is_private
from plait.models.known_profiles import profile_named, profile_of
from plait.models.profiles import EndpointProfile

_PATHS: Final = ("/chat/completions", "/responses", "/messages", "/completions", "/models")
DEFAULT_ENDPOINT: Final = "https://openrouter.ai/api/v1"
SECRET_NAME: Final = re.compile(r"auth|key|token|secret|cookie|password|^code$|^sig", re.IGNORECASE)
"""Found in the names of headers and of a query's members whose values nobody should see."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_LOGIN: Final = re.compile(r"//[^/]*@")
_ADVICE: Final = "give a base URL such as http://127.0.0.1:8080/v1, or a provider's name such as openrouter"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL, cut where paths are put in."""

    base: str
    """Scheme, host and path, without a slash at the end."""
    query: str = field(default="", repr=False)
    """Kept at the end of every URL, without the question mark."""
    profile: EndpointProfile = field(default_factory=lambda: EndpointProfile(""))

    @property
    def host(self) -> str:
        """The host, without its port."""
        return urlsplit(self.base).hostname or ""

    def url(self, path: str) -> str:
        """Return the URL of a path below the base."""
        return f"{self.base}{path}?{self.query}" if self.query else f"{self.base}{path}"

    def __str__(self) -> str:
        return self.base

    def with_profile(self, profile: EndpointProfile) -> Endpoint:
        """Return the same address with other knowledge about it."""
        return replace(self, profile=profile)


def endpoint_of(address: str | None = None) -> Endpoint:
    """Read an endpoint: a provider's name, a host, a base URL, or the full URL of a call.

    Without a path the API's usual place is meant (`/v1`, or what the provider's own is). A path that is given is
    left as it is, a query is kept. A single word is a provider's name, never a host.

    Raises:
        ConfigError: it is no address, no provider has that name, or it holds a password.
    """
    address = (address or DEFAULT_ENDPOINT).strip()
    named = profile_named(address.lower())
    if named is not None and named.base_url:
        return Endpoint(named.base_url, "", named)
    if _WORD.fullmatch(address) and address.lower() != "localhost":
        raise _no_provider(address, named)
    parts = _parts_of(address)
    profile = profile_of(parts.hostname or "")
    path = parts.path.rstrip("/")
    for known in _PATHS:
        path = path.removesuffix(known)
    if not path and not parts.path.strip("/"):
        path = urlsplit(profile.base_url).path.rstrip("/") or profile.base_path
    if "/deployments/" in path:
        # Azure's dated API has one wire, and a deployment's name says nothing of its model.
        profile = replace(profile, models=())
    return Endpoint(f"{parts.scheme}://{parts.netloc}{path}", parts.query, profile)


def shown_address(address: str) -> str:
    """Return an address as it can be shown: without a name, a password, a query."""
    return _LOGIN.sub("//", address.partition("?")[0].partition("#")[0])


def kept_address(address: str) -> str:
    """Return an address as it may be kept: without those members of its query that are secret by their names."""
    base, mark, query = address.partition("?")
    if not mark:
        return address
    members = [member for member in query.split("&") if not SECRET_NAME.search(member.partition("=")[0])]
    return f"{base}?{'&'.join(members)}" if members else base


def default_endpoint(environ: Mapping[str, str]) -> str:
    """Return the endpoint that an environment speaks of: the one it names, or the one whose key it holds."""
    from plait.models.profile_table import PROFILES

    base = environ.get("OPENAI_BASE_URL", "").strip()
    if base:
        return base
    at_hand = [profile.base_url for profile in PROFILES if any(environ.get(name) for name in profile.key_env)]
    return at_hand[0] if len(at_hand) == 1 and at_hand[0] else DEFAULT_ENDPOINT


def _parts_of(address: str) -> SplitResult:
    try:
        parts = urlsplit(_with_scheme(address))
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{shown_address(address)!r} is not an endpoint: {error}", hint=_ADVICE) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{shown_address(address)!r} is not an endpoint", hint=_ADVICE)
    if parts.username is not None:
        raise ConfigError(
            f"the endpoint {shown_address(address)!r} was given with a name and a password",
            hint="take them out of the address; name the variable of a key with key_env, or send a header of your own",
        )
    return parts


def _no_provider(word: str, named: EndpointProfile | None) -> ConfigError:
    """Say that a word is no provider's name, with those that are near; hosts are seldom called by a word alone."""
    import difflib

    from plait.models.profile_table import LOCAL, PROFILES

    if named is not None:
        at = next((host for host in named.hosts if host.startswith(".")), "")
        return ConfigError(
            f"{named.name!r} has no address of its own",
            hint=f"give yours as the endpoint, such as https://RESOURCE{at}",
        )
    names = [profile.name for profile in (*PROFILES, LOCAL)]
    near = difflib.get_close_matches(word.lower(), names, 1)
    guess = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(names))}."
    return ConfigError(f"no provider is called {word!r}", hint=f"{guess} A host is written as http://{word}/v1")


def _with_scheme(address: str) -> str:
    if "://" in address:
        return address
    host = urlsplit(f"//{address}").hostname or ""
    return f"http://{address}" if is_private(host) else f"https://{address}"
