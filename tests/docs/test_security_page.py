"""The page about security names the tests of each attack, and every security test stands on it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_row_has_its_test_and_every_test_its_row() -> None:
    """A link leads to a test that has the row in it, and no module of security tests is left out."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (X\d\d) \|.*\| ([^|]*) \|$", page, re.MULTILINE)
    linked = {(row, path) for row, cell in rows for path in re.findall(r"\]\(([^)]*)\)", cell)}
    own = {f"tests/security/{path.name}" for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert [] == sorted(path for _, path in linked if not (ROOT / path).exists())
    assert [] == sorted(own - {path for _, path in linked})
    of_security = [(row, path) for row, path in linked if path in own]
    assert [] == [(row, path) for row, path in of_security if row not in (ROOT / path).read_text(encoding="utf-8")]
    assert sorted(row for row, _ in rows) == [row for row, _ in rows]
