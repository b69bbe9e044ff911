"""A working directory of its own for every test, and the process-wide defaults put back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.session import defaults


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, and keep sessions in another one, `state` beside it."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture(autouse=True)
def _untouched_defaults() -> Iterator[None]:
    functions = dict(defaults.TOOL_LIBRARY)
    yield
    defaults.TOOL_LIBRARY.clear()
    defaults.TOOL_LIBRARY.update(functions)
    defaults.set_tool_output_stream(None)
    defaults.set_ask_user_handler(None)
