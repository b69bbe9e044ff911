"""What files held before they were changed, given to a copy of a session as well.

Floor: 2. Owns: that a fork, and a copy for another model, can take back what the session it came from has changed;
never: which contents are wanted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from plait.store.layout import SessionFolder


def share_contents(source: Path, copy: Path) -> None:
    """Give the session in the folder `copy` the contents that the one in `source` keeps.

    They never change, so both have the same files where the file system can do that. What cannot be given costs the
    way back, and nothing else: no error is raised.
    """
    kept, own = SessionFolder(source).before, SessionFolder(copy).before
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(kept) if not name.startswith(".")]
        if names:
            own.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            _share(kept / name, own / name)


def _share(kept: Path, own: Path) -> None:
    try:
        os.link(kept, own)
    except FileExistsError:
        pass
    except OSError:
        with contextlib.suppress(OSError):
            shutil.copy2(kept, own)
