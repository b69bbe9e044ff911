"""The environment inside a fence: a few names that every program needs, and what the policy adds.

Floor: 2. Owns: which names pass; never: what commands outside a fence see (`hands.environment`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plait.hands.environment import UNATTENDED, is_credential
from plait.hands.process_tree import MARK

_NAMES: Final = frozenset(
    {
        *("PATH", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "COLUMNS", "LINES"),
        *("NO_COLOR", "FORCE_COLOR", "CI", "DEBIAN_FRONTEND", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("PLAIT_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "PLAIT_TOOL_KEY"),
    }
)
"""None of them makes a program load or run something."""
_STARTS: Final = ("LC_",)
_LOADERS: Final = ("LD_", "DYLD_", "GLIBC_", "MALLOC_", "GCONV_", "LOCPATH", "NLSPATH", "BASH_")
"""What would change the programs that build the fence, and not only those inside."""


def fenced_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment passes into a fence; `policy.environment` comes on top of it, inside."""
    return {
        name: value
        for name, value in environment.items()
        if name in (MARK, *UNATTENDED)
        or ((name in _NAMES or name.startswith(_STARTS)) and not is_credential(name, value))
    }


def loaders_in(environment: Mapping[str, str]) -> list[str]:
    """Return the names that no policy may set: they, or what they begin, would work outside the fence too."""
    return sorted(name for name in environment if name.upper().startswith(_LOADERS) or not name or "=" in name)


def without_loaders(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that programs on the way into a fence can be given."""
    wrong = set(loaders_in(environment))
    return {name: value for name, value in environment.items() if name not in wrong}
