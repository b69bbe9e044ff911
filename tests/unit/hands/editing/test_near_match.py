"""A snippet that differs from the file in blanks or typography is taken for one place, or for none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.hands.editing.near_match import find_near
from plait.hands.editing.textfile import replace_spans


@pytest.mark.parametrize(
    "text, old, new, after, how",
    [
        ("\tfoo()\n", "    foo()", "    bar()", "\tbar()\n", "indentation"),
        ("  a\n  b\n", "a\nb", "c\n  d", "  c\n    d\n", "indentation"),
        ("a\nb\n", "    a\n    b", "    c", "c\n", "indentation"),
        ("\tif a:\n\t\tb\n", "if a:\n    b\n", "if a:\n    b\n\n    c\n", "\tif a:\n\t\tb\n\n\t\tc\n", None),
        ("\tif a:\n\t\tb\n", "    if a:\n        b\n", "    if a:\n        c\n", "\tif a:\n\t\tc\n", "indentation"),
        ("  if a:\n    b\n", "\tif a:\n\t\tb\n", "\tc\n", "  c\n", "indentation"),
        ("x\r\n  a\r\n  b\r\n", "a\nb\n", "c\nd\n", "x\r\n  c\r\n  d\r\n", "indentation"),
        ("a \t\nb\n", "a\nb", "c", "c\n", "blanks"),
        ("a\nb  ", "a \nb", "c", "c  ", "blanks"),
        ("foo()\n", "foo() ", "bar()", "bar()\n", "blanks"),
        ("a\n\n  \nb\n", "a\n\n\nb", "c", "c\n", "blanks"),
        ("  a\n    b\n", "a\nb", "c", None, None),
        ("  a\n", "    a\n", "b\n", None, None),
        ("a\n a\n", "  a", "b", None, None),
        ("  a", "a\n", "b\n", None, None),
        ("  a b\n", "    a", "c", None, None),
        ("\n\n", "  ", "x", None, None),
        ("\u201ca\u201d \u2013 b", '"a" - b', '"c"', '"c"', "characters"),
        ("\u1112\u1161\u11ab!", "\ud55c", "x", "x!", "characters"),
        ("a\u0301b", "ab", "x", None, None),
        ("\u2026x", ".x", "y", None, None),
        ("\u2018\r\nb", "'\nb", "c", "c", "characters"),
    ],
)
def test_what_is_near(*, text: str, old: str, new: str, after: str | None, how: str | None) -> None:
    """All lines shifted alike, blanks at their ends and folded characters are near; two places and parts are not."""
    found = find_near(text, old, new)
    if after is None or how is None:
        assert found is None
        return
    assert found is not None
    assert (after, how) == (replace_spans(text, [found.span], found.new), found.how)


@given(st.text(st.sampled_from("ab \t\n\u2019'e\u0301"), max_size=30), st.integers(0, 30), st.integers(1, 10))
def test_what_is_put_back_leaves_all_but_blanks_and_typography(text: str, start: int, length: int) -> None:
    """A near place that is given its own snippet holds the same words on the same lines as before."""
    old = text[start : start + length].replace("\u2019", "'")
    found = find_near(text, old, old)
    if found is None:
        return
    after = replace_spans(text, [found.span], found.new)

    def words(of: str) -> list[str]:
        return [line.strip().replace("\u2019", "'").replace("e\u0301", "\u00e9") for line in of.split("\n")]

    assert words(text) == words(after)
