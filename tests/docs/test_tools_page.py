"""The page about tools shows what a model is shown."""

from __future__ import annotations

import re

from plait.tools.background_specs import BACKGROUND
from plait.tools.definitions import ASKING, BUILT_IN, LINES_MAX
from plait.tools.extra_specs import EXTRA
from plait.tools.renames import RENAMED
from tests.docs.examples import REPOSITORY

PAGE = (REPOSITORY / "docs/tools.md").read_text(encoding="utf-8")


def test_the_table_is_the_one_of_the_definitions() -> None:
    """Names, parameters and functions are those of the built-in tools, in their order."""
    rows = re.findall(r"^\| `(\w+)\(([^)]*)\)` \| `(\w+)` \|", PAGE, re.MULTILINE)

    expected = [
        (d.name, ", ".join(d.parameters["properties"]), d.function_name) for d in (*BUILT_IN, *EXTRA, *BACKGROUND)
    ]  # type: ignore[arg-type]
    assert expected == rows
    assert f"{LINES_MAX:,} lines" in PAGE


def test_every_other_name_is_on_the_page() -> None:
    """Aliases and the two questions are told."""
    assert [] == [name for name in (*RENAMED, *(d.name for d in ASKING)) if f"`{name}" not in PAGE]
