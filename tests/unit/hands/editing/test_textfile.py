"""Bytes as text and back: encodings, byte order marks and newlines survive what is done to the rest."""

from __future__ import annotations

import codecs
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import Refusal
from plait.hands.editing.textfile import decode, find_spans, replace_spans, with_newlines

BYTES = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b"\xc3\xa9", b"\xff", b"\xe2\x82", b" "])).map(b"".join)
MIXED = st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=14)
SMALL = st.text(alphabet="ab\n", max_size=12)


@given(st.sampled_from([b"", codecs.BOM_UTF8]), BYTES)
def test_what_is_read_is_written_back(mark: bytes, body: bytes) -> None:
    """Any bytes without NUL come back as they were, broken UTF-8 included."""
    found = decode(mark + body, "f")
    assert mark + body == found.encode(found.text)


@given(st.sampled_from([("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE)]), st.text(max_size=20))
def test_utf16_with_its_mark_is_text(form: tuple[str, bytes], text: str) -> None:
    """UTF-16 that says so keeps its byte order and mark."""
    text = text.replace("\0", "")
    data = form[1] + text.encode(form[0])
    if data.startswith(codecs.BOM_UTF32_LE):
        return
    found = decode(data, "f")
    assert (text, data) == (found.text, found.encode(found.text))


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        codecs.BOM_UTF32_LE + "a".encode("utf-32-le"),
        codecs.BOM_UTF32_BE + "a".encode("utf-32-be"),
        codecs.BOM_UTF16_LE + b"a",
        codecs.BOM_UTF16_LE + b"\x00\xd8",
        codecs.BOM_UTF16_LE + b"\0\0",
        "no mark".encode("utf-16-le"),
    ],
)
def test_what_would_not_survive_is_refused(data: bytes) -> None:
    """Binary content, UTF-32 and broken UTF-16 are no text."""
    with pytest.raises(Refusal) as caught:
        decode(data, "f")
    assert "UNSUPPORTED_CONTENT" == caught.value.refusal


@pytest.mark.parametrize(
    "text, style", [("", ""), ("a", ""), ("a\n", "\n"), ("a\r\n", "\r\n"), ("a\r\nb\n", "mixed"), ("a\rb", "")]
)
def test_newline_styles(text: str, style: str) -> None:
    """CRLF beside LF is mixed; a lone CR is a character."""
    assert style == decode(text.encode(), "f").newline


@given(st.text(alphabet="ab\n\r", max_size=30), st.text(alphabet="ab\n\r", min_size=1, max_size=3), st.text(max_size=5))
def test_literal_replacement_is_str_replace(text: str, old: str, new: str) -> None:
    """In the literal mode characters are characters: the result is that of `str.replace`."""
    assert text.replace(old, new) == replace_spans(text, find_spans(text, old, "literal"), new)


@given(SMALL, st.text(alphabet="ab\n", min_size=1, max_size=3), SMALL)
def test_fitting_replacement_in_a_file_with_one_style(text: str, old: str, new: str) -> None:
    """In files of LF, and of CRLF, the result is `str.replace` on the LF view, written in the file's style."""
    expected = text.replace(old, new)
    assert expected == replace_spans(text, find_spans(text, old, "fit"), new)
    crlf = text.replace("\n", "\r\n")
    spans = find_spans(crlf, old, "fit")
    if "\n" in text:
        assert expected.replace("\n", "\r\n") == replace_spans(crlf, spans, new)
        assert expected.replace("\n", "\r\n") == replace_spans(crlf, spans, new.replace("\n", "\r\n"))


@given(
    st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=14), st.text(alphabet="ab\n", min_size=1, max_size=3)
)
def test_fitting_replacement_in_a_mixed_file_touches_only_its_spans(pieces: list[str], old: str) -> None:
    """Where newlines are mixed, all that is not replaced keeps its bytes, and the LF view is that of `str.replace`."""
    text = "".join(pieces)
    spans = find_spans(text, old, "fit")
    result = replace_spans(text, spans, "X")
    assert text.replace("\r\n", "\n").replace(old, "X") == result.replace("\r\n", "\n")
    kept = [text[one.end : other.start] for one, other in pairwise(spans)]
    assert result.split("X")[1:-1] == kept or not spans


def test_a_carriage_return_in_a_snippet_is_not_half_a_newline() -> None:
    """A lone CR in the snippet does not match the CR of a CRLF."""
    assert [] == find_spans("a\r\nb", "a\r", "fit")
    assert 1 == len(find_spans("a\r\nb\rc", "b\r", "fit"))


def test_newlines_are_given_one_style() -> None:
    """Both kinds become the one that was asked for; none asked for leaves them."""
    assert ["a\r\nb\r\n", "a\nb\n", "a\r\nb\n"] == [with_newlines("a\r\nb\n", style) for style in ("\r\n", "\n", "")]
