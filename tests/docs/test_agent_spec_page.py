"""The page about agent specs describes every field, each with what it holds, and no others."""

from __future__ import annotations

import re

from plait.engine.spec_fields import FIELDS, Kind
from tests.docs.examples import REPOSITORY

PAGE = (REPOSITORY / "docs/agent-spec.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
HELD: dict[Kind, str] = {
    "any": "anything",
    "text": "text",
    "variable": "name of a variable",
    "header": "name of a header",
    "headers": "object",
    "variables": "object",
    "command": "text or list of texts",
    "yes_no": "true or false",
    "count": "number from 1",
    "number": "number",
    "seconds": "seconds",
    "object": "object",
    "list": "list of objects",
    "texts": "list of texts",
    "servers": "object, or list of objects",
}


def test_every_field_is_on_the_page_once_and_no_other() -> None:
    """Each field has one row, in whatever table it belongs to."""
    assert sorted(FIELDS) == sorted(name for name, _, _ in ROWS)


def test_what_a_field_holds_is_what_is_checked() -> None:
    """The page says of each field what a spec is held to."""
    assert {name: HELD[kind] for name, kind in FIELDS.items()} == {name: held for name, held, _ in ROWS}
