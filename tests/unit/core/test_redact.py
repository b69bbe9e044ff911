"""Secrets in text."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.core.redact import MASK, redact_secrets

# Put together here, so that no scanner takes this file for a leak.
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789ABCD"


@pytest.mark.parametrize(
    "before, secret, after",
    [
        ("key: ", "sk-" + "ant-api03-" + LETTERS[:24], " end"),
        ("", "sk-" + LETTERS[:24], ""),
        ("(", "sk-" + "proj-" + LETTERS[:24] + "_-x", ")"),
        ("", "gh" + "p_" + LETTERS[:36], ""),
        ("", "github" + "_pat_" + LETTERS[:22], ""),
        ("", "gl" + "pat-" + LETTERS[:20], ""),
        ("", "xo" + "xb-" + LETTERS[:12], ""),
        ("id ", "AK" + "IA" + "ABCDEFGHIJ012345", "."),
        ("", "AI" + "za" + LETTERS[:35], ""),
        ("", "h" + "f_" + LETTERS[:34], ""),
        ("", "sk" + "_live_" + LETTERS[:24], ""),
        ("jwt ", "eyJ" + LETTERS[:20] + ".eyJ" + LETTERS[:20] + "." + LETTERS[:20], ""),
        ("API_KEY=", LETTERS[:16], ""),
        ("AWS_SECRET_ACCESS_KEY=", LETTERS[:20] + "/+=", "\nNEXT=1"),
        ('{"api_key":"', LETTERS[:16], '"}'),
        ("client_secret=", LETTERS[:16], ""),
        ("secretKey: '", LETTERS[:16], "'"),
        ("clientSecret=", LETTERS[:16], ""),
        ('"authToken": "', LETTERS[:16], '"'),
        ("MY-ACCESS-KEY : ", LETTERS[:16], ""),
        ("private_key=", LETTERS[:16], ""),
        ("DB_PASSWORD='", LETTERS[:12], "'"),
        ("X-Api-Key: ", LETTERS[:16], ""),
        ("Authorization: Bearer ", LETTERS[:20] + "!#", ""),
        ("authorization: Basic ", LETTERS[:20], ""),
        ('"Authorization": "Bearer ', LETTERS[:20], '"'),
        ("postgres://u:", "p", "@h/db"),
        ("redis://:", "hunter2", "@localhost"),
        ("", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "\nafter"),
        ("cut: ", "-----BEGIN PRIVATE KEY-----\nMIIE and the rest of a file that was cut", ""),
    ],
)
def test_a_secret_is_masked_and_its_label_stays(before: str, secret: str, after: str) -> None:
    """Known shapes, labelled values, headers, logins in addresses and key blocks are masked, and only they are."""
    assert (before + MASK + after, 1) == redact_secrets(before + secret + after)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the password prompt is on line 3",
        "token of appreciation: something nice",
        "max_tokens=100000000000000",
        "tokens: 123456789012345",
        "password=short",
        "aaaaapi_key=abcdefghijklmnop",
        "see https://example.org/a:b@c",
        "git@github.com:owner/repo.git",
        "a task-force of risk-takers with long-dashed-words-in-it",
        "Authorization: none",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    """Prose about secrets, counters and addresses without a password are not touched."""
    assert (text, 0) == redact_secrets(text)


def test_every_secret_is_counted() -> None:
    """The count says how many were masked."""
    text = f"API_KEY={LETTERS[:16]}\ntoken: {LETTERS[:16]}\npostgres://u:p@h"

    assert (f"API_KEY={MASK}\ntoken: {MASK}\npostgres://u:{MASK}@h", 3) == redact_secrets(text)


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    """What was masked once is the same after it was masked again."""
    once, _ = redact_secrets(text)

    assert once == redact_secrets(once)[0]


@pytest.mark.parametrize(
    "unit",
    ["a-", "a.", "a_", "eyJ-", "sk- ", "a://b:", "authorization: ", "token =", "-----BEGIN A", "A", " ", "e:"],
)
def test_long_lines_take_no_longer_than_their_length(unit: str) -> None:
    """A line made to be hard is looked through once: 200 kB would otherwise take minutes."""
    text = unit * (200_000 // len(unit))

    assert (text, 0) == redact_secrets(text)
