"""Folders that nobody else may change: what plait remembers is read again, and believed.

Floor: 2. Owns: whose folder is good enough; never: a folder's making (`disk`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from plait.core.errors import ConfigError
from plait.store import disk

_SESSIONS: Final = "sessions"


def refuse_shared(folder: Path) -> None:
    """Refuse a folder of plait's state that somebody else could write in; one that is not there is nobody's.

    Of a session's folder in a state folder those above it count too.

    Raises:
        ConfigError: it belongs to another user, or everybody may write in it.
    """
    above = (folder.parent, folder.parent.parent) if folder.parent.name == _SESSIONS else ()
    for place in (*reversed(above), folder):
        with contextlib.suppress(FileNotFoundError):
            _refuse(place)


def _refuse(place: Path) -> None:
    owner, is_open = disk.owner_of(place)
    if owner is not None:
        raise ConfigError(
            f"the folder {str(place)!r} of plait's state belongs to another user (uid {owner})",
            hint="set PLAIT_HOME to a folder of your own, or make it yours: chown",
        )
    if is_open:
        raise ConfigError(
            f"everybody may write in the folder {str(place)!r} of plait's state",
            hint=f"chmod go-w {place}, and look whether what is in it is yours; or set PLAIT_HOME to another folder",
        )
