"""The profile of an endpoint, found by its host or by its provider's name.

Floor: 2. Owns: how a host is looked up; never: what a profile says (`profiles`, `profile_table`).
"""

from __future__ import annotations

from plait.models.http.routes import is_private
from plait.models.profile_table import LOCAL, PROFILES, UNKNOWN
from plait.models.profiles import EndpointProfile


def profile_of(host: str) -> EndpointProfile:
    """Return the profile for a host: from the table, else that of local servers, else the careful one."""
    host = host.lower().rstrip(".")
    for profile in PROFILES:
        if any(_matches(host, pattern) for pattern in profile.hosts):
            return profile
    return LOCAL if is_private(host) else UNKNOWN


def profile_named(name: str) -> EndpointProfile | None:
    """Return the profile of a provider by its name (`openai`, `local`, …), None for a name nobody has."""
    return next((profile for profile in (*PROFILES, LOCAL) if profile.name == name), None)


def _matches(host: str, pattern: str) -> bool:
    return host.endswith(pattern) if pattern.startswith(".") else host == pattern
