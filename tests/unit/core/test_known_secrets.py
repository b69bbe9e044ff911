"""A secret that this process holds is not shown, however it is written and wherever its text is cut."""

from __future__ import annotations

import base64
from collections.abc import Callable
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


@pytest.mark.parametrize("width", [24, 60, 64, 76, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "encoded",
    [base64.b64encode, base64.urlsafe_b64encode, lambda raw: raw.hex().encode()],
    ids=["base64", "url", "hex"],
)
def test_a_value_in_wrapped_lines_is_masked(width: int, end: str, encoded: Callable[[bytes], bytes]) -> None:
    """As `base64` and `xxd -p` write it, wherever its lines end, whole and in pieces; the rest stays."""
    value = "Zq-secret/Value_4711-abcdefgh"
    redactor = Redactor([value])
    for before in range(0, 90, 7):
        text = encoded(b"." * before + value.encode() + b"," * 40).decode()
        lines = end.join(text[at : at + width] for at in range(0, len(text), width))
        written = f"$ env | base64\n{lines}{end}done\n"
        shown: list[str] = []
        stream = redactor.stream(shown.append)
        for at in range(0, len(written), 17):
            stream.write(written[at : at + 17])
        stream.close()

        masked, count = redactor.redact(written)
        assert (1, masked) == (count, "".join(shown))
        assert masked.startswith("$ env | base64\n")
        assert masked.endswith("done\n")


def test_wide_lines_that_hold_nothing_stay() -> None:
    """Other base64, paths and rules of a table are shown as they are, and not held back without end."""
    redactor = Redactor(["Zq-secret/Value_4711-abcdefgh"])
    text = (
        "".join(f"{letter * 76}\n" for letter in "ABCDEF") * 200
        + "/usr/lib/python3/dist-packages\n" * 3
        + "-" * 40
        + "\n"
    )
    shown: list[str] = []
    stream = redactor.stream(shown.append)
    for line in text.splitlines(keepends=True):
        stream.write(line)

    assert (text, 0) == redactor.redact(text)
    assert len("".join(shown)) > len(text) - 70_000
    stream.close()
    assert text == "".join(shown)
