"""A workspace on disk beside a place that nothing may touch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import plait.core.errors
from plait.hands.workspace import Workspace, WorkspaceOptions


@dataclass(frozen=True)
class Ground:
    """A root that tools may touch and, beside it, a canary that they may not."""

    root: Path
    outside: Path

    def workspace(self, **options: object) -> Workspace:
        """Open the root anew."""
        return Workspace(self.root, WorkspaceOptions(**options))  # type: ignore[arg-type]

    def untouched(self) -> bool:
        """Say whether the outside holds its canary and nothing else."""
        return {"canary": "outside"} == {entry.name: entry.read_text() for entry in self.outside.iterdir()}


def python_environment() -> dict[str, str]:
    """The environment in which another Python finds this plait."""
    return {**os.environ, "PYTHONPATH": str(Path(plait.core.errors.__file__).parents[2])}
