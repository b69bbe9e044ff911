"""What a command sees of the environment."""

from __future__ import annotations

import pytest

from plait.hands.environment import child_environment, is_credential


@pytest.mark.parametrize(
    "name",
    """ANTHROPIC_API_KEY OPENAI_API_KEY PLAIT_API_KEY GH_TOKEN GITHUB_TOKEN GH_PAT AWS_ACCESS_KEY_ID
    AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN DATABASE_URL SSH_AUTH_SOCK DB_PASSWORD PGPASSWORD MYSQL_PWD
    client_secret DJANGO_SECRET_KEY
    GOOGLE_APPLICATION_CREDENTIALS AZURE_CLIENT_ID NPM_AUTH DOCKER_AUTH_CONFIG SENTRY_DSN GPG_PASSPHRASE
    STRIPE_KEY SIGNING_KEYS VAULT_ADDR""".split(),
)
def test_credentials_are_dropped(name: str) -> None:
    """Names that look like a credential do not reach a command."""
    assert is_credential(name)
    assert name not in child_environment({name: "x", "HARMLESS_VAR": "y"})


@pytest.mark.parametrize(
    "name",
    """HARMLESS_VAR PATH HOME PWD OLDPWD LANG TERM SHELL VIRTUAL_ENV AWS_REGION TOKENIZERS_PARALLELISM KEYBOARD
    XAUTHORITY SSH_ASKPASS MONKEY""".split(),
)
def test_other_names_pass(name: str) -> None:
    """What programs need, and what only looks like a credential from afar, passes."""
    assert "x" == child_environment({name: "x"})[name]


def test_passwords_in_urls_are_dropped() -> None:
    """A URL with a password is a credential whatever its name; a proxy keeps its own."""
    url = "postgres://me:secret@host/db"
    found = child_environment({"SERVICE": url, "HTTPS_PROXY": "http://me:secret@proxy", "SITE": "https://host/a@b:c"})
    assert ("SERVICE" in found, "HTTPS_PROXY" in found, "SITE" in found) == (False, True, True)


def test_names_can_be_kept() -> None:
    """A name that is asked for passes."""
    assert "x" == child_environment({"GH_TOKEN": "x"}, keep={"GH_TOKEN"})["GH_TOKEN"]


def test_nothing_waits_for_a_person() -> None:
    """Pagers and editors are set to what ends by itself, shells run nothing of their own first, extras win."""
    found = child_environment({"PAGER": "less", "BASH_ENV": "f", "GIT_EDITOR": "vi"}, GIT_PAGER="more")
    assert ("cat", "true", "0", "more", False) == (
        found["PAGER"],
        found["GIT_EDITOR"],
        found["GIT_TERMINAL_PROMPT"],
        found["GIT_PAGER"],
        "BASH_ENV" in found,
    )
