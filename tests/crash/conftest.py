"""What the campaigns share."""

from __future__ import annotations

import pytest

from plait.store import disk


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk, where only what a file holds is looked at, and not when it is safe."""
    for name in ("sync_data", "sync_file", "sync_folder"):
        monkeypatch.setattr(disk, name, lambda _: None)
