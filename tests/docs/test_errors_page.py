"""The page about errors is the one that the classes give, and an application can rely on the codes."""

from __future__ import annotations

from tools import make_errors_page


def test_the_page_is_what_the_classes_say() -> None:
    """`python tools/make_errors_page.py` would change nothing."""
    assert make_errors_page.page() == make_errors_page.PAGE.read_text(encoding="utf-8")


def test_each_class_has_a_code_of_its_own() -> None:
    """A program can tell every error by its code."""
    codes = [kind.code for kind, _ in make_errors_page.tree(make_errors_page.PlaitError)]

    assert len(codes) == len(set(codes))
