"""Search patterns: the shared syntax is read as everybody means it, the rest refused with a way out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import Refusal
from plait.hands.searching.patterns import compile_pattern


def column(pattern: str, line: str, **options: bool) -> int | None:
    """Where the Python spelling of a pattern first matches in a line."""
    found = re.search(compile_pattern(pattern, **options).python, line, re.MULTILINE)
    return found.start() if found else None


@pytest.mark.parametrize(
    "pattern, line, expected",
    [
        ("a|b", "xb", 1),
        (r"\d+", "ab12", 2),
        (r"\w", "\u00e9a", 1),
        (r"\bfoo\b", "a foo.", 2),
        ("^a", "ba", None),
        ("a$", "ba", 1),
        ("a$", "ba\r", 1),
        (".", "\r", None),
        ("[^a]", "a\r", None),
        (r"\s", "a\tb", 1),
        (r"\S+", "  a", 2),
        ("a{2}", "baa", 1),
        ("a{2,}", "baaa", 1),
        ("a{,2}", "a{,2}", 0),
        ("foo{", "foo{", 0),
        ("x}]", "x}]", 0),
        ("[]a]", "]", 0),
        ("[a-]", "-", 0),
        ("[[:alpha:]_]+", "1_a", 1),
        ("[^[:digit:]]", "1a", 1),
        ("(?:a)(b)(?P<n>c)", "abc", 0),
        ("(?i)ABC", "abc", 0),
        (r"\x41\x{42}\u0043\t", "ABC\t", 0),
        (r"\.\*\(\[\\", ".*([\\", 0),
        ("a*?b", "aab", 0),
        ("()", "x", 0),
        (r"[\w.]+@", "a.b@", 0),
        ("^import", "\ufeffimport", 0),
        ("\u00e9", "caf\u00e9", 3),
        ("-", "a-b", 1),
    ],
)
def test_the_shared_syntax(pattern: str, line: str, expected: int | None) -> None:
    """Alternation, sets, repeats, anchors, escapes and groups find what they say, and never a line end."""
    assert expected == column(pattern, line)


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "(", ")", "a)", "[", "[a", "*a", "a|*", "+", "\\", "a**", "a++", "a{2}{3}", "^*", r"\b+", "(?=a)"),
        *("(?<!a)", "(?s)a", "a(?i)b", r"(a)\1", r"\p{L}", r"\Aa", r"\B", r"\n", "a\nb", r"\r", "[b-a]", "[[:nope:]]"),
        *("[a&&b]", "a{3,2}", "a{1001}", "(a{1000}){1000}", r"\x{110000}", r"\ud800", "\ud800", r"[^\w\W]"),
        *("(" * 100 + ")" * 100, "x" * 3_000, "(?>a)", "a{2}+", "[a--b]", r"\xZZ", "$^", "a$b", "$HOME"),
    ],
)
def test_everything_else_is_refused(pattern: str) -> None:
    """What one of the engines does not have, or means otherwise, is refused, with a hint."""
    with pytest.raises(Refusal) as caught:
        compile_pattern(pattern)
    assert caught.value.refusal in {"INVALID_INPUT", "TOO_LARGE"}
    assert caught.value.hint


@given(st.text(min_size=1, max_size=10), st.text(max_size=10), st.text(max_size=10))
def test_a_literal_finds_itself(text: str, before: str, after: str) -> None:
    """As a literal, any text without line ends finds its first occurrence, whatever characters it has."""
    whole = before + text + after
    if any(c in "\r\n" or "\ud800" <= c <= "\udfff" for c in whole):
        return
    assert whole.index(text) == column(text, whole, is_literal=True)
    assert compile_pattern(text, is_literal=True).is_plain


@pytest.mark.parametrize(
    "pattern, line, expected",
    [("abc", "xABC", 1), ("[a-c]+", "xABC", 1), ("\u00e9", "\u00c9", 0), ("[^a]", "A", None), (r"\x41", "a", 0)],
)
def test_case_can_be_ignored(pattern: str, line: str, expected: int | None) -> None:
    """Letters match their other case, in sets and out of them."""
    assert expected == column(pattern, line, ignores_case=True)


def test_only_repetition_is_not_plain() -> None:
    """A pattern is plain as long as it repeats nothing."""
    plain = {pattern: compile_pattern(pattern).is_plain for pattern in ("a|b?", "[ab].c", "a*", "a{2}", "(a+)?")}
    assert {"a|b?": True, "[ab].c": True, "a*": False, "a{2}": False, "(a+)?": False} == plain
