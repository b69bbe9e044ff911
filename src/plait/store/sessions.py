"""The sessions of a state folder: begin, find, list and delete them.

Floor: 2. Owns: one folder a session, and what may be called one; never: what is in a journal.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from plait.core.errors import ConfigError
from plait.core.ids import is_session_name, new_id
from plait.store import disk
from plait.store.glance import Glance, glance_at
from plait.store.jsonl import JOURNAL
from plait.store.layout import SessionFolder, sessions_folder
from plait.store.opening import Opened, busy, cannot_open, open_journal

_CHOICES_MAX: Final = 5


class Sessions:
    """The sessions in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Sessions:
        """Return the user's own."""
        return cls(sessions_folder(environ))

    def place_of(self, id: str) -> SessionFolder:
        """Return where the session of this name is, or would be.

        Raises:
            ConfigError: no session may be called this.
        """
        if not is_session_name(id) or id.startswith("."):
            raise ConfigError(
                f"{id!r} is no name for a session",
                hint="use letters, digits and . _ - only, at most 64 of them, and no dot in front",
            )
        return SessionFolder(self.folder / id)

    def open(
        self, id: str | None, now_ms: Callable[[], int], *, project: str = "", more: Mapping[str, object] | None = None
    ) -> Opened:
        """Open a session for writing; begun where there is none, under a new name where none is given.

        Args:
            project: the folder that a new session is about.
            more: what else the first line of a new journal says.

        Raises:
            ConfigError: no session may be called this. JournalError: as `open_journal` says.
        """
        name = id or new_id("s", now_ms=now_ms())
        header = {"project": project, **(more or {})} if project else dict(more or {})
        return open_journal(self.place_of(name).path, name, now_ms, header=header)

    def find(self, text: str) -> SessionFolder:
        """Return the session that a user means: by its name, the beginning of one, or the path of its folder.

        Raises:
            ConfigError: there is none, or several; the advice names those that come close.
        """
        if os.sep in text:
            path = Path(text)
            folder = path.parent if path.name == JOURNAL else path
            if not (folder / JOURNAL).is_file():
                raise ConfigError(f"there is no session at {text!r}", hint=f"name a folder with a {JOURNAL} in it")
            return SessionFolder(folder)
        names = sorted(self._names())
        if text in names:
            return SessionFolder(self.folder / text)
        meant = [place.path.name for place in self.beginning_with(text)]
        if len(meant) == 1:
            return SessionFolder(self.folder / meant[0])
        raise _not_found(text, meant or difflib.get_close_matches(text, names, _CHOICES_MAX), bool(meant))

    def beginning_with(self, text: str) -> list[SessionFolder]:
        """Return the sessions whose names begin with something."""
        return [SessionFolder(self.folder / name) for name in sorted(self._names()) if text and name.startswith(text)]

    def listed(self, project: str | None = None) -> list[Glance]:
        """Return the sessions, the latest first; those of one project, or all."""
        glances = (glance_at(self.folder / name) for name in self._names())
        wanted = [glance for glance in glances if project is None or glance.project == project]
        return sorted(wanted, key=lambda glance: (glance.active_ms, glance.id), reverse=True)

    def newest(self, project: str) -> Glance | None:
        """Return the session of a project in which something happened last."""
        return next((glance for glance in self.listed(project) if not glance.problem), None)

    def delete(self, place: SessionFolder) -> None:
        """Remove a session with everything in its folder; after any crash it is there whole, or not at all.

        Raises:
            SessionBusy: it is open. JournalError: it cannot be removed.
        """
        try:
            with self._held(place):
                hidden = place.path.with_name(f".deleted-{place.path.name}-{secrets.token_hex(4)}")
                disk.rename(place.path, hidden)
                disk.sync_folder(hidden.parent)
            self._sweep(hidden.parent)
        except OSError as error:
            raise cannot_open(place.journal, error, "removed") from error

    @contextlib.contextmanager
    def _held(self, place: SessionFolder) -> Iterator[None]:
        """Keep everybody from opening a session."""
        with contextlib.ExitStack() as files:
            # A folder whose journal was never made is nobody's.
            with contextlib.suppress(FileNotFoundError):
                if not disk.lock(files.enter_context(disk.opened(place.journal, os.O_RDWR))):
                    raise busy(place.journal)
            yield

    def _sweep(self, folder: Path) -> None:
        """Remove what deletions have hidden, those that were interrupted among it."""
        for hidden in folder.glob(".deleted-*"):
            shutil.rmtree(hidden)

    def _names(self) -> list[str]:
        try:
            return [entry.name for entry in os.scandir(self.folder) if is_session(entry)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise cannot_open(self.folder, error, "read") from error


def is_session(entry: os.DirEntry[str]) -> bool:
    """Say whether something in the sessions' folder is a session."""
    return is_session_name(entry.name) and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _not_found(text: str, names: list[str], are_many: bool) -> ConfigError:
    close = ", ".join(names[:_CHOICES_MAX]) + (", ..." if len(names) > _CHOICES_MAX else "")
    if are_many:
        return ConfigError(f"several sessions begin with {text!r}", hint=f"say more of its name: {close}")
    hint = f"did you mean {close}?" if names else "`plait sessions list --all` names those there are"
    return ConfigError(f"there is no session {text!r}", hint=hint)
