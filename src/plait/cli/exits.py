"""The exit codes, and which one an outcome comes to.

Floor: 7. Owns: the numbers of docs/cli.md; never: the sentence beside them.
"""

from __future__ import annotations

from enum import IntEnum

from plait.core.errors import CacheProofError, ConfigError, ModelError, PlaitError


class Exit(IntEnum):
    """What the command's caller is told; a signal N gives 128 + N."""

    COMPLETED = 0
    FAILED = 1
    """The agent failed, was stopped by a limit, or was denied a call because nobody could be asked."""
    USAGE = 2
    """Wrong options, configuration or trust: nothing was started."""
    MODEL = 3
    """The model or its credentials."""
    CACHE_PROOF = 4
    WAITING = 5
    """The turn waits for an approval."""
    INTERRUPTED = 130
    """128 + SIGINT."""


def exit_of_error(error: PlaitError) -> Exit:
    """Return the exit code of an error that ended a command or a turn."""
    if isinstance(error, ConfigError):
        return Exit.USAGE
    if isinstance(error, CacheProofError):
        return Exit.CACHE_PROOF
    return Exit.MODEL if isinstance(error, ModelError) else Exit.FAILED
