"""Where plait keeps what it must remember, and what lies where in a session's folder.

Floor: 2. Owns: the layout of the state folder; never: a file's content.

    sessions/<id>/journal.jsonl         what happened
    sessions/<id>/journal.jsonl.writer  who writes it, and how far it is safe
    sessions/<id>/messages.json         its conversation as chat messages: a cache, which may be old or gone
    sessions/<id>/events.jsonl          every request, answer and event, where that was asked for
    sessions/<id>/spool/  spill/        output of commands; results too long for a model
    sessions/<id>/before/               what files held before they were changed
    sessions/<id>/control.sock          where a running session is spoken to
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plait.core.values import dataclass
from plait.store.jsonl import JOURNAL

SNAPSHOT: Final = "messages.json"


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """A session's files, in the state folder or wherever its owner put them."""

    path: Path

    @property
    def journal(self) -> Path:
        """What happened."""
        return self.path / JOURNAL

    @property
    def events(self) -> Path:
        """Every request, answer and event."""
        return self.path / "events.jsonl"

    @property
    def spool(self) -> Path:
        """Output of commands that may outlive plait."""
        return self.path / "spool"

    @property
    def spill(self) -> Path:
        """Results that were too long for a model, whole."""
        return self.path / "spill"

    @property
    def before(self) -> Path:
        """What files held before they were changed."""
        return self.path / "before"

    @property
    def control(self) -> Path:
        """The socket of a running session."""
        return self.path / "control.sock"


def state_home(environ: Mapping[str, str]) -> Path:
    """Return the folder in which plait keeps what it must remember: $PLAIT_HOME, else the XDG state folder's."""
    if environ.get("PLAIT_HOME"):
        return Path(environ["PLAIT_HOME"])
    base = environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a relative path.
    if base.startswith("/"):
        return Path(base) / "plait"
    return Path(environ.get("HOME") or os.path.expanduser("~")) / ".local" / "state" / "plait"


def sessions_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that holds one folder a session."""
    return state_home(environ) / "sessions"
