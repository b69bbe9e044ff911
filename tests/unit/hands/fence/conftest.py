"""What tests of real fences share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return an empty directory that any user may work in; the test is skipped where there is no bubblewrap."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder
