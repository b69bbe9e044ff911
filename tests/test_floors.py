"""The floors: bad trees are named edge by edge. That the real tree has no bad edge `make lint` says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_floors


def offences_of(root: Path, place: str, code: str, *, floor: int = 1) -> list[str]:
    """Write one module (its docstring on line 1 and 2) and return what the checker says about the tree."""
    path = root / "src" / "plait" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'"""A sample.\nFloor: {floor}."""\n{code}\n')
    return check_floors.offences(root)


@pytest.mark.parametrize(
    "code",
    [
        "import plait.store.jsonl",
        "from plait.store import jsonl",
        "from plait.store.jsonl import Journal",
        "from ..store.jsonl import Journal",
        "from plait import store",
        "def later():\n    from plait.store import jsonl",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from plait.store import jsonl",
        "import importlib\nstore = importlib.import_module('plait.store.jsonl')",
    ],
)
def test_an_import_that_goes_up_is_named(tmp_path: Path, code: str) -> None:
    """However it is written, an import of a higher floor is printed with both floors and its line."""
    (offence,) = offences_of(tmp_path, "kernel/loop.py", code)

    line = 3 + code.count("\n")
    assert offence.startswith(f"src/plait/kernel/loop.py:{line}: plait.kernel.loop (floor 1) imports plait.store")
    assert offence.endswith("(floor 2)")


def test_rooms_of_one_floor_do_not_know_each_other(tmp_path: Path) -> None:
    """A room may import itself and lower floors, never its neighbour."""
    assert [] == offences_of(
        tmp_path, "kernel/loop.py", "from plait.kernel.state import State\nimport plait.core.facts"
    )
    assert ["src/plait/wire/chat.py:3: plait.wire.chat (floor 1) imports plait.kernel.loop (floor 1)"] == offences_of(
        tmp_path, "wire/chat.py", "from plait.kernel.loop import turn"
    )


def test_the_lowest_floors_use_the_standard_library_only(tmp_path: Path) -> None:
    """A third-party import on floor 0 or 1 is an offence; on floor 2 it is none."""
    assert [] == offences_of(tmp_path, "models/http.py", "import aiohttp", floor=2)
    assert [
        "src/plait/wire/sse.py:3: plait.wire.sse (floor 1) imports orjson; floors 0 and 1 use the standard library only"
    ] == offences_of(tmp_path, "wire/sse.py", "import orjson, json")


def test_nothing_imports_the_doubles_but_the_demo(tmp_path: Path) -> None:
    """Public test doubles see floors up to 5 and are seen by no floor; the demo is the one named exception."""
    assert [] == offences_of(tmp_path, "testing/server.py", "import plait.session.open")
    assert [] == offences_of(tmp_path, "cli/demo.py", "import plait.testing.server", floor=7)
    assert [
        "src/plait/serve/web.py:3: plait.serve.web (floor 6) imports plait.testing.server (doubles, on no floor)"
    ] == offences_of(tmp_path, "serve/web.py", "import plait.testing.server", floor=6)


def test_nothing_inside_imports_the_public_face(tmp_path: Path) -> None:
    """`from plait import Name` inside plait would make the lazy face part of every floor."""
    found = offences_of(tmp_path, "cli/run.py", "from plait import Agent", floor=7)

    face = "plait.Agent, the public face; import the name from its home"
    assert [f"src/plait/cli/run.py:3: plait.cli.run (floor 7) imports {face}"] == found


def test_a_module_says_the_floor_it_is_on(tmp_path: Path) -> None:
    """A docstring with another floor, or a room without one, is an offence."""
    assert ["src/plait/wire/sse.py:1: plait.wire.sse is on floor 1, its docstring says 2"] == offences_of(
        tmp_path, "wire/sse.py", "", floor=2
    )
    assert "src/plait/attic/box.py:1: plait.attic.box has no floor; give its room one in tools/check_floors.py" in (
        offences_of(tmp_path, "attic/box.py", "")
    )


def test_the_command_fails_and_counts(tmp_path: Path) -> None:
    """The command prints each offence and ends with exit code 1; on a clean tree with 0."""
    offences_of(tmp_path, "core/ids.py", "import plait.cli", floor=0)

    bad = subprocess.run([sys.executable, check_floors.__file__, tmp_path], capture_output=True, text=True)
    (tmp_path / "src/plait/core/ids.py").unlink()
    good = subprocess.run([sys.executable, check_floors.__file__, tmp_path], capture_output=True, text=True)

    edge = "src/plait/core/ids.py:3: plait.core.ids (floor 0) imports plait.cli (floor 7)"
    assert (1, f"{edge}\nfloors: 1 offences\n") == (bad.returncode, bad.stdout)
    assert (0, "floors: 0 offences\n") == (good.returncode, good.stdout)
