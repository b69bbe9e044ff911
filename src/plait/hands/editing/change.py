"""A change to one file in two phases: first what would become of it, then the change itself.

Floor: 2. Owns: versions of a file, the intent to record and what became of it; never: the new content, who allows it.

A caller that changes a file holds its lock (`FileLocks.hold`) from the plan to the end of `apply`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Final, Literal, Self

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing import textfile
from plait.hands.editing.atomic import AtomicWrite, Before, Mode, is_temporary, is_unchanged, remove, temporary_name
from plait.hands.editing.diff import DiffSummary, summarise, unified
from plait.hands.editing.snippets import Replaced
from plait.hands.editing.textfile import EDITED_BYTES_MAX
from plait.hands.git_metadata import refuse_git_metadata
from plait.hands.refusals import refusal_from
from plait.hands.workspace import Pinned, refuse_unless_regular

_CHUNK_BYTES: Final = 1 << 20

Settled = Literal["applied", "not_applied", "changed"]
"""What became of an intent: done, never done, or somebody else changed the file since."""


@dataclass(frozen=True, slots=True)
class Version:
    """The content of a file at one moment."""

    data: bytes
    sha256: str
    status: os.stat_result

    @property
    def mode(self) -> int:
        """Its permissions."""
        return stat.S_IMODE(self.status.st_mode)

    def readable(self, shown: str) -> str:
        """Return its text for people, empty where it is none."""
        try:
            return textfile.decode(self.data, shown).readable
        except Refusal:
            return ""


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """What is about to happen to a file: enough to say later whether it did."""

    path: str
    before: str | None
    """sha256 of the content before, None when there was no file."""
    after: str | None
    """sha256 of the content afterwards, None when the file is removed."""
    temporary: str
    mode: int | None = None
    """The file's permissions before, where the change does not keep them."""
    directories: tuple[str, ...] = ()
    """Directories that are made for it, each after the one above it."""

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        data: dict[str, object] = {
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "temporary": self.temporary,
        }
        if self.mode is not None:
            data["mode"] = self.mode
        if self.directories:
            data["directories"] = list(self.directories)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Read back what `to_dict` gave."""
        before, after = data["before"], data["after"]
        mode, directories = data.get("mode"), data.get("directories")
        return cls(
            str(data["path"]),
            None if before is None else str(before),
            None if after is None else str(after),
            str(data.get("temporary", "")),
            mode if isinstance(mode, int) else None,
            tuple(map(str, directories)) if isinstance(directories, (list, tuple)) else (),
        )


@dataclass(frozen=True, slots=True)
class Written:
    """What `apply` did."""

    path: str
    sha256: str
    size_bytes: int
    is_new: bool
    created_directories: tuple[str, ...]
    summary: DiffSummary


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A change that is ready to be made: nothing on disk has been touched yet."""

    target: Pinned
    data: bytes
    before: Version | None
    intent: WriteIntent
    texts: tuple[str, str]
    """The text before and after; empty where there was none."""
    created_directories: tuple[str, ...]
    replaced: tuple[Replaced, ...] = ()
    mode: Mode | None = None
    """Gives the file its permissions, where they are to be others than before."""

    @property
    def is_new(self) -> bool:
        """True when there was no file."""
        return self.before is None

    @property
    def summary(self) -> DiffSummary:
        """What changes, counted; computed when it is asked for."""
        return summarise(self.target.shown, *self.texts)

    def under(self, temporary: str) -> Self:
        """Return the plan with another name for the file that is written first: the one that was recorded."""
        return replace(self, intent=replace(self.intent, temporary=temporary))

    @property
    def is_change(self) -> bool:
        """False when the file already holds exactly this, with these permissions."""
        if self.intent.before != self.intent.after or self.mode is None:
            return self.intent.before != self.intent.after
        mode = 0 if self.before is None else self.before.mode
        return self.mode(mode) != mode

    def diff(self, *, lines_max: int = 400) -> str:
        """Return the change as a bounded unified diff; empty when the old content is no text."""
        try:
            old = textfile.decode(self.before.data, self.target.shown).readable if self.before else ""
            new = textfile.decode(self.data, self.target.shown).readable
        except Refusal:
            return ""
        return unified(self.target.shown, old, new, lines_max=lines_max)

    def apply(self, *, before: Before | None = None) -> Written:
        """Make the change, whole or not at all. Raises `Refusal`; `CONFLICT` when the file is not what it was.

        Durability: when it returns, the new content is on disk under its name. `before` is for tests.
        """
        old = self.before.status if self.before else None
        write = AtomicWrite(self.target, self.data, old, self.intent.temporary, mode=self.mode, before=before)
        status = write.run()
        assert self.intent.after is not None, "a file that is written has a content"
        return Written(
            self.target.shown,
            self.intent.after,
            status.st_size,
            self.is_new,
            self.created_directories,
            self.summary,
        )


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of a file, ready to be made."""

    target: Pinned
    before: Version
    intent: WriteIntent

    is_change: ClassVar[bool] = True

    @classmethod
    def of(cls, target: Pinned, before: Version) -> Self:
        """Plan to remove a file."""
        return cls(target, before, WriteIntent(target.shown, before.sha256, None, "", before.mode))

    def apply(self, *, before: Before | None = None) -> None:
        """Remove the file if it is still what it was. Raises `Refusal`."""
        remove(self.target, self.before.status, before=before)

    @property
    def texts(self) -> tuple[str, str]:
        """Its text, and nothing."""
        return self.before.readable(self.target.shown), ""


def plan_data(
    target: Pinned, before: Version | None, data: bytes, texts: tuple[str, str], replaced: tuple[Replaced, ...] = ()
) -> WritePlan:
    """Plan to give a file these bytes; `texts` are what it holds before and after, for the diff."""
    above = target.shown.split("/")[: -1 - len(target.missing)]
    created = tuple("/".join((*above, *target.missing[: count + 1])) for count in range(len(target.missing)))
    held, left = before.sha256 if before else None, hashlib.sha256(data).hexdigest()
    intent = WriteIntent(target.shown, held, left, temporary_name(), directories=created)
    return WritePlan(target, data, before, intent, texts, created, replaced)


def settle(target: Pinned, intent: WriteIntent) -> Settled:
    """Say what became of an intent whose outcome was lost, and remove the temporary file it may have left.

    Reads the file as it is now; changes nothing else. Raises `Refusal` when it cannot be read.
    """
    if not target.missing and is_temporary(intent.temporary):
        with suppress(OSError):
            os.unlink(intent.temporary, dir_fd=target.fd)
    status = target.status()
    if status is not None and not stat.S_ISREG(status.st_mode):
        return "changed"
    now = _digest(target)
    if now == intent.after:
        return "applied"
    return "not_applied" if now == intent.before else "changed"


def existing_version(target: Pinned, expected_sha256: str | None = None) -> Version:
    """Read the whole file at a name that is to be changed. Raises `Refusal` where there is none, or another version."""
    refuse_git_metadata(target)
    before = read_version(target)
    if before is None:
        raise Refusal(
            "NOT_FOUND", f"not a file: {target.shown!r} does not exist", hint="list the directory, or write the file"
        )
    check_expected(target, before, expected_sha256)
    return before


def check_expected(target: Pinned, before: Version | None, expected_sha256: str | None) -> None:
    """Refuse a file that is not the version that the caller has seen."""
    now = before.sha256 if before else None
    if expected_sha256 is not None and expected_sha256.lower() != now:
        raise Refusal(
            "CONFLICT",
            f"{target.shown!r} is not the version that was expected",
            hint="read it again, then repeat the change",
            details={"path": target.shown, "expected_sha256": expected_sha256, "sha256": now},
        )


def read_version(target: Pinned) -> Version | None:
    """Read the whole file at a pinned name, or None when there is none; bounded by `textfile.EDITED_BYTES_MAX`."""
    status = target.status()
    if status is None:
        return None
    refuse_unless_regular(status, target.shown)
    with target.open_file() as opened:
        if opened.status.st_size > EDITED_BYTES_MAX:
            raise Refusal(
                "TOO_LARGE",
                f"{target.shown!r} has {opened.status.st_size} bytes",
                hint=f"files of up to {EDITED_BYTES_MAX} bytes are edited; use a shell command for this one",
            )
        try:
            data = _read_all(opened.fd, EDITED_BYTES_MAX)
            after = os.fstat(opened.fd)
        except OSError as error:
            raise refusal_from(error, target.shown, "read") from error
        if not is_unchanged(opened.status, after) or len(data) != after.st_size:
            raise Refusal("CONFLICT", f"{target.shown!r} is being changed by somebody else", hint="try again")
        return Version(data, hashlib.sha256(data).hexdigest(), after)


def _read_all(fd: int, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(fd, min(_CHUNK_BYTES, bytes_max + 1 - size)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _digest(target: Pinned) -> str | None:
    if target.status() is None:
        return None
    with target.open_file() as opened:
        digest = hashlib.sha256()
        while piece := os.read(opened.fd, _CHUNK_BYTES):
            digest.update(piece)
        return digest.hexdigest()
