"""The environment that a command is given: the user's own without credentials, and nothing that waits for a person.

Floor: 2. Owns: which names are dropped and which are set; never: reading or changing this process's environment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

_SECRET_PARTS: Final = (
    "API_KEY",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "PRIVATE_KEY",
    "ACCESS_KEY",
    "AUTH_CONFIG",
    "COOKIE",
    "CONNECTION_STRING",
)
_SECRET_ENDS: Final = ("_KEY", "_KEYS", "_PAT", "_PWD", "_PASS", "_DSN", "_AUTH", "_SIGNATURE")
_SECRET_STARTS: Final = ("AWS_", "AZURE_", "GOOGLE_APPLICATION_", "VAULT_")
_SECRET_NAMES: Final = frozenset(
    {"DATABASE_URL", "REDIS_URL", "MONGO_URL", "MONGODB_URI", "AMQP_URL", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "NETRC"}
)
_HARMLESS: Final = frozenset({"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PAGER", "TOKENIZERS_PARALLELISM"})
_URL_WITH_PASSWORD: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
_RUN_AT_START: Final = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND"})
"""What a shell would run before the command itself."""

UNATTENDED: Final[Mapping[str, str]] = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
"""What keeps programs from waiting for somebody who is not there."""


def is_credential(name: str, value: str = "") -> bool:
    """Say whether a variable looks like a credential, by its name or by a password inside a URL."""
    upper = name.upper()
    if upper in _HARMLESS:
        return False
    return (
        upper in _SECRET_NAMES
        or upper.startswith(_SECRET_STARTS)
        or upper.endswith(_SECRET_ENDS)
        or any(part in upper for part in _SECRET_PARTS)
        or (not upper.endswith("_PROXY") and _URL_WITH_PASSWORD.search(value) is not None)
    )


def child_environment(base: Mapping[str, str], *, keep: Collection[str] = (), **extra: str) -> dict[str, str]:
    """Return `base` as a command may see it.

    Credentials are dropped, except the names in `keep`; so is what shells run at their start. `UNATTENDED` and then
    `extra` are set on top.
    """
    kept = {
        name: value
        for name, value in base.items()
        if name in keep or not (is_credential(name, value) or name in _RUN_AT_START)
    }
    return {**kept, **UNATTENDED, **extra}
