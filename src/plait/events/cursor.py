"""How far a reader of a log has come: what lets a view be read again and then followed live.

Floor: 1. Owns: dropping what was seen and noticing what was missed; never: reading a log.
"""

from __future__ import annotations

from collections.abc import Iterable

from plait.core.errors import JournalError
from plait.core.facts import Entry


class Cursor:
    """Lets each entry through once, in order, from wherever it comes: a log that is read, or live events.

    Args:
        after: number of the last entry that was seen; 0 for none.
    """

    def __init__(self, after: int = 0) -> None:
        self.seq = after
        """Number of the last entry that was let through."""

    def take(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that are new.

        Raises:
            JournalError: one is missing; what came before it has been let through.
        """
        fresh: list[Entry] = []
        for entry in entries:
            if entry.seq <= self.seq:
                continue
            if entry.seq != self.seq + 1:
                raise JournalError(
                    f"the entries {self.seq + 1} to {entry.seq - 1} were missed",
                    seq=self.seq,
                    hint=f"read the log again from {self.seq} on",
                )
            self.seq = entry.seq
            fresh.append(entry)
        return fresh
