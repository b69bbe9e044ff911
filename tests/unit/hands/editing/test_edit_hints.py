"""The hint for a snippet that is not there names the likely mistake."""

from __future__ import annotations

import pytest

from plait.hands.editing.edit_hints import why_not_found


@pytest.mark.parametrize(
    "text, old, expected",
    [
        ("a\nfoo\n", "     3\tfoo", "line numbers"),
        ("a\nfoo\nbar\n", "2: foo\n3: bar", "line numbers"),
        ("\tfoo()\n", "    foo()", "line 1 has it with another indentation"),
        ("x\n\tfoo()\n\tbar()\n", "  foo()\n  bar()", "line 2 has it with another indentation"),
        ("a \nb\n", "a\nb", "line 1 has it with other blanks"),
        ("don\u2019t\n", "don't", "line 1 has it with other quotes"),
        ("caf\u0065\u0301\n", "caf\u00e9", "line 1 has it with other quotes"),
        ("a\nfirst\nother\n", "first\nsecond", "its first line is at line 2"),
        ("a\n", "zzz", "read the file again"),
        ("a\n", "\n\n", "read the file again"),
        ("a" * 3_000_000, "b", "copy it exactly"),
    ],
)
def test_hints(text: str, old: str, expected: str) -> None:
    """Pasted line numbers, blanks, indentation, lookalikes and stale snippets are told apart."""
    assert expected in why_not_found(text, old)
