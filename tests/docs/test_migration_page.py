"""The page about moving over is true of this version: what it offers is there, what it puts off is not."""

from __future__ import annotations

import re

import plait
from plait.cli.group import _LATER
from tests.docs.examples import REPOSITORY

PAGE = (REPOSITORY / "docs/migration.md").read_text(encoding="utf-8")
TABLES = [table.split("\n\n")[0] for table in PAGE.split("| names | in plait |\n")[1:]]
ROWS = [re.findall(r"^\| (.*?) \|", row)[0] for table in TABLES for row in table.splitlines()[1:]]


def names_of(rows: list[str]) -> set[str]:
    """Return the names in the first column of some rows."""
    return {name for row in rows for name in re.findall(r"`([A-Za-z_]+)`", row)}


def test_names_that_stay_are_public_and_those_of_later_are_not() -> None:
    """Each row of names is what it says."""
    here = names_of([row for row in ROWS if not row.startswith(("later:", "modules"))])
    later = names_of([row for row in ROWS if row.startswith("later:")])

    assert {"run_task", "Agent", "Usage"} <= here
    assert [] == sorted(here - set(plait.__all__))
    assert [] == sorted(later & set(plait.__all__))


def test_commands_of_later_are_known_by_name() -> None:
    """A verb of the older systems is answered by name when it is typed."""
    (verbs,) = re.findall(r"^\| (`repl` `tui` .*?) \|", PAGE, re.MULTILINE)

    assert [] == sorted(set(re.findall(r"`(\w+)`", verbs)) - _LATER)
