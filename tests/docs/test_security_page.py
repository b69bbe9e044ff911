"""The page about security names the tests of each attack, and every security test stands on it."""

from __future__ import annotations

import pytest

from tests.security.rows import ROOT, ROWS, Row, nodes, rows_of, table

WANTED = (
    *(f"X{number:02}" for number in range(1, 18)),
    *(f"X{number}" for number in (*range(30, 40), *range(50, 55), *range(70, 73), *range(80, 85), 90, 91, 92)),
)


def test_every_row_has_its_test_and_every_test_its_row() -> None:
    """No attack is left out, nor a module of security tests, which name their rows; what waits says for what."""
    own = {f"security/{path.name}" for path in (ROOT / "tests/security").glob("test_*.py")}
    files = {(name, test.partition("::")[0]) for name, row in ROWS.items() for test in row.tests}

    assert [*WANTED] == [*ROWS]
    assert ["X38", "X39", "X83"] == [name for name, row in ROWS.items() if not row.tests and row.later]
    assert [] == sorted(own - {file for _, file in files})
    texts = {file: (ROOT / "tests" / file).read_text(encoding="utf-8") for file in own}
    assert [] == sorted((name, file) for name, file in files if file in own and name not in texts[file])


def test_every_name_of_a_test_finds_one() -> None:
    """A test that was renamed is missed at once, and every test knows its rows."""
    found = nodes()

    assert len(found) == len({*found})
    # Some rows have a test with some of its parameters only.
    assert len(found) - 2 <= len([node for node in found if [*rows_of(node)]])


def test_a_test_belongs_to_the_rows_that_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its folder, its file, the beginning of its name, and of its parameters."""
    monkeypatch.setitem(ROWS, "X01", Row("", ("security", "unit/a.py::test_b", "unit/c.py::test_d[e-")))

    def belongs(node: str) -> bool:
        return "X01" in rows_of(f"tests/{node}")

    assert [True] * 3 == [
        belongs(node) for node in ("security/x.py::test_y", "unit/a.py::test_bc", "unit/c.py::test_d[e-f]")
    ]
    assert [False] * 3 == [
        belongs(node) for node in ("unit/a.py::test_c", "unit/a.pyx::test_b", "unit/c.py::test_d[f]")
    ]


def test_the_page_shows_them() -> None:
    """`SECURITY.md` has the table as `tests/security/rows.py` has it: print it with `table()`."""
    assert table() in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
