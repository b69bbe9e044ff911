"""Which repositories their user trusts, and with what in them.

Floor: 2. Owns: the list, its file, what has changed since; never: asking anybody, or using what is trusted.

Trust is for a repository's real path and the digest of its parts (`repository_parts`): whatever changes asks again. It
does not spread to repositories inside of it, which have paths of their own.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from plait.config.places import project_root
from plait.config.repository_parts import Part, Parts, parts_of
from plait.core.errors import ConfigError
from plait.core.values import dataclass

FILE_NAME: Final = "trust.json"
_VERSION: Final = 1
_LINES_MAX: Final = 200
"""Lines of a difference that are shown of one file."""


@dataclass(frozen=True, slots=True)
class Change:
    """What has become of one part since it was trusted."""

    path: str
    kind: Literal["new", "gone", "changed", "mode"]
    diff: str = ""
    """Unified; empty where the content is not kept or is no text."""


@dataclass(frozen=True)
class Standing:
    """How a repository stands."""

    now: Parts
    before: Parts | None
    """What was trusted; None for a repository that never was."""

    @property
    def is_trusted(self) -> bool:
        """True when its parts are, byte for byte, what its user has said yes to."""
        return self.before is not None and not self.now.faults and self.before.digest == self.now.digest

    @property
    def is_needed(self) -> bool:
        """True when something of it is not used because nobody vouches for it."""
        return bool(self.now) and not self.is_trusted

    def changes(self) -> tuple[Change, ...]:
        """Return what is not as it was trusted; everything, where nothing was."""
        old = {part.path: part for part in (self.before.parts if self.before else ())}
        new = {part.path: part for part in self.now.parts}
        names = sorted(old.keys() | new.keys())
        return tuple(change for name in names if (change := _change(name, old.get(name), new.get(name))))


class TrustStore:
    """The list of trusted repositories, in one file that only its user can read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def look(self, folder: str | os.PathLike[str]) -> Standing:
        """Say how the repository around a folder stands; nothing is started, and nothing in it is believed.

        Raises:
            ConfigError: the list cannot be read.
        """
        now = parts_of(project_root(os.path.realpath(folder)))
        entry = self._read().get(str(now.root))
        return Standing(now, None if entry is None else _parts(now.root, entry, self.path))

    def trust(self, parts: Parts) -> None:
        """Trust a repository with the parts that were looked at.

        Durability: on return the list is on disk, whole.

        Raises:
            ConfigError: something in it cannot be trusted, or the list cannot be read or written.
        """
        if parts.faults:
            raise ConfigError(
                f"{str(parts.root)!r} cannot be trusted: {'; '.join(parts.faults)}", hint="mend that, and look again"
            )
        with self._changing() as entries:
            entries[str(parts.root)] = {
                "digest": parts.digest,
                "parts": [
                    {"path": p.path, "sha256": p.sha256, "is_executable": p.is_executable, "text": p.text}
                    for p in parts.parts
                ],
            }

    def revoke(self, folder: str | os.PathLike[str]) -> bool:
        """Trust a repository no longer; False where it never was. Raises `ConfigError` as `trust` does."""
        root = str(Path(os.path.realpath(project_root(os.path.realpath(folder)))))
        with self._changing() as entries:
            return entries.pop(root, None) is not None

    def roots(self) -> tuple[str, ...]:
        """Return the trusted repositories. Raises `ConfigError` where the list cannot be read."""
        return tuple(sorted(self._read()))

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, "rb") as file:
                told = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unreadable(str(error)) from error
        if not isinstance(told, dict) or told.get("version") != _VERSION or not isinstance(told.get("trusted"), dict):
            raise self._unreadable(f"it is no list of version {_VERSION}")
        return dict(told["trusted"])

    def _unreadable(self, why: str) -> ConfigError:
        return ConfigError(
            f"the list of trusted repositories {str(self.path)!r} cannot be read: {why}",
            hint="move it away; then nothing is trusted until you say so again",
        )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Give the list to be changed, one process at a time, and put it in place as a whole."""
        try:
            for folder in (*reversed(self.path.parent.parents), self.path.parent):
                with contextlib.suppress(FileExistsError):
                    folder.mkdir(0o700)
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        with open(lock, "rb"):
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = self._read()
            yield entries
            try:
                self._put({"version": _VERSION, "trusted": entries})
            except OSError as error:
                raise self._unwritable(error) from error

    def _put(self, told: Mapping[str, object]) -> None:
        # The lock is held: the name is nobody else's.
        temporary = self.path.with_suffix(".new")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"the list of trusted repositories {str(self.path)!r} cannot be written: {error.strerror}",
            hint="make its folder writable, or set PLAIT_HOME to one that is",
        )


def _parts(root: Path, entry: object, path: Path) -> Parts:
    """Read what was trusted; what was tampered with or cut off trusts nothing."""
    try:
        told = entry["parts"] if isinstance(entry, Mapping) else []
        parts = tuple(Part(str(p["path"]), str(p["sha256"]), bool(p["is_executable"]), p.get("text")) for p in told)
        if isinstance(entry, Mapping) and Parts(root, parts).digest == entry["digest"]:
            return Parts(root, parts)
    except (KeyError, TypeError, AttributeError):
        pass
    raise ConfigError(
        f"what {str(path)!r} says of {str(root)!r} is damaged",
        hint=f"plait trust --revoke {root}, then look at it again",
    )


def _change(path: str, old: Part | None, new: Part | None) -> Change | None:
    if old is None or new is None:
        kind: Literal["new", "gone"] = "new" if old is None else "gone"
        return Change(path, kind, _diff(path, old, new))
    if old.sha256 != new.sha256:
        return Change(path, "changed", _diff(path, old, new))
    return None if old.is_executable == new.is_executable else Change(path, "mode")


def _diff(path: str, old: Part | None, new: Part | None) -> str:
    texts = [part.text if part else "" for part in (old, new)]
    if any(text is None for text in texts):
        return ""
    one, other = (str(text).splitlines() for text in texts)
    lines = [*difflib.unified_diff(one, other, f"trusted/{path}", f"now/{path}", lineterm="")]
    left_out = len(lines) - _LINES_MAX
    return "\n".join(lines if left_out <= 0 else [*lines[:_LINES_MAX], f"… {left_out} more lines"])
