"""A secret that this process holds is not shown, however it is written and wherever its text is cut."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from plait.core.known_secrets import Redactor
from plait.core.redact import MASK

SECRET = "hunter2-and/more+words"
TOKEN = "gh" + "p_" + "abcdefghijklmnopqrstuvwxyz0123456789"
KEY = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n7Zx9\n-----END " + "RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        SECRET[::-1],
        quote(SECRET, safe=""),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        *(base64.b64encode(b"x" * n + SECRET.encode() + b"yz").decode() for n in range(6)),
        *(base64.urlsafe_b64encode(b"x" * n + SECRET.encode() + b"yz").decode() for n in range(3)),
    ],
)
def test_a_known_value_is_masked_in_every_disguise(shown: str) -> None:
    """As it is, backwards, percent-encoded, in hex, in base64 at any alignment."""
    text, count = Redactor([SECRET]).redact(f"it is {shown} indeed")
    assert 1 == count
    assert [True, False, False] == [each in text for each in (MASK, SECRET, shown)]


def test_a_short_value_is_left_alone() -> None:
    """A password of a few letters would take ordinary words with it."""
    assert ("a test is a test", 0) == Redactor(["test", ""]).redact("a test is a test")


@pytest.mark.parametrize("secret", [SECRET, TOKEN, KEY, "API_KEY=abcdefghijklmnop", "postgres://u:p4ss@h/db"])
def test_a_cut_at_any_place_hides_no_secret(secret: str) -> None:
    """Cut in two anywhere, the text comes out as when it is masked whole."""
    redactor = Redactor([SECRET])
    text = f"before\nx {secret} y\nafter"
    for cut in range(len(text) + 1):
        shown: list[str] = []
        stream = redactor.stream(shown.append)
        stream.write(text[:cut])
        stream.write(text[cut:])
        stream.close()
        stream.close()
        assert redactor(text) == "".join(shown)


@given(st.lists(st.sampled_from([SECRET, TOKEN, KEY, "\n", " ", "words", "-----BEGIN PRIVATE", "a" * 50]), max_size=12))
def test_pieces_come_out_as_the_whole_does(parts: list[str]) -> None:
    """For any text, piece by piece and letter by letter."""
    redactor, text = Redactor([SECRET]), "".join(parts)
    for pieces in (parts, list(text)):
        shown: list[str] = []
        stream = redactor.stream(shown.append)
        for piece in pieces:
            stream.write(piece)
        stream.close()
        assert redactor(text) == "".join(shown)


def test_a_line_without_end_is_shown_in_parts() -> None:
    """What is held back is bounded, and a secret across the border is still found."""
    shown: list[str] = []
    stream = Redactor([SECRET]).stream(shown.append)
    for _ in range(40):
        stream.write("some words " * 90 + SECRET + " ")
    assert len(shown) > 1
    stream.close()
    assert (40, False) == ("".join(shown).count(MASK), SECRET in "".join(shown))
