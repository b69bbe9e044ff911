"""A toolbox over a fresh workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plait.tools.toolbox import Toolbox, ToolboxOptions

MakeToolbox = Callable[..., Toolbox]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty workspace, beside which there is room for what is outside."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def make(root: Path) -> Iterator[MakeToolbox]:
    """Return a function that opens the workspace with some options; what it opened is closed when the test ends."""
    opened: list[Toolbox] = []

    def open_it(**options: object) -> Toolbox:
        opened.append(Toolbox(root, ToolboxOptions(**({"grace_s": 0.1} | options))))  # type: ignore[arg-type]
        return opened[-1]

    yield open_it
    for box in opened:
        box.close()


@pytest.fixture
def box(make: MakeToolbox) -> Toolbox:
    """Return a toolbox with the session face's rules."""
    return make(policy="read_outside")
