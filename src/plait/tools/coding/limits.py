"""The bounds of the strict coding tools, and the programs that they may run.

Floor: 3. Owns: numbers and aliases; never: enforcing them.
"""

from __future__ import annotations

import os

from plait.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingLimits:
    """How much one call may read, write, find, print and take. Every number is finite."""

    read_bytes: int = 64 * 1024
    read_lines: int = 2_000
    write_bytes: int = 4 * 1024 * 1024
    results: int = 200
    """Matches of a search, or paths of a glob."""
    entries: int = 2_000
    """Entries of a listing."""
    search_s: float = 10.0
    arguments: int = 64
    argument_bytes: int = 32 * 1024
    """All arguments of a command together."""
    output_bytes: int = 64 * 1024
    """What is shown of a command's output; without kept outputs, a command that prints more is stopped."""
    kept_bytes: int = 16 * 1024 * 1024
    """What is kept of an output that is too long to show; a command that prints more is stopped."""
    shell_timeout_s: float = 120.0
    termination_grace_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Command:
    """A program that a model may run under an alias, with what is always put before its arguments."""

    executable: str
    """Absolute path."""
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not os.path.isabs(self.executable):
            raise ValueError(f"the executable of a command is an absolute path, not {self.executable!r}")
