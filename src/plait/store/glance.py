"""What a session is about, from both ends of its journal.

Floor: 2. Owns: a summary that costs the same however long the session is; never: its history (`store.tail`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plait.core.asides import without_asides
from plait.core.errors import JournalError
from plait.core.facts import Fact, MessageAdded, Observation, Reset, TurnEnd, TurnStart
from plait.core.messages import Message
from plait.core.values import dataclass
from plait.store import disk
from plait.store.jsonl import JOURNAL
from plait.store.opening import cannot_open, is_begun
from plait.store.records import Chain, Journal, Told, read_end, read_journal

_HEAD_BYTES: Final = 1 << 14
"""As much of the beginning as nearly always holds the first question."""
_LONG_HEAD_BYTES: Final = 1 << 20
"""As much as is looked at for a long one."""
_TAIL_BYTES: Final = 1 << 13
_LONG_TAIL_BYTES: Final = 1 << 20
"""As much of the end as is looked at where the short one does not hold a turn's beginning or its end."""
_WORDS_CHARS: Final = 100
_NEVER_BEGUN: Final = "nothing was kept yet: its process ended before the first write was safe"


@dataclass(frozen=True, slots=True)
class Glance:
    """What is known of a session without reading it."""

    id: str
    folder: Path
    project: str = ""
    """The folder that it was begun in."""
    model: str = ""
    began_ms: int = 0
    active_ms: int = 0
    """When something was last recorded."""
    first_words: str = ""
    """The beginning of the first question, on one line."""
    size_bytes: int = 0
    """Of everything in its folder."""
    is_open: bool | None = None
    """A turn began and has not ended; None where that is not seen at a glance."""
    problem: str = ""
    """Why the rest is empty, where it is."""

    def to_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        return {
            "id": self.id,
            "folder": str(self.folder),
            "project": self.project,
            "model": self.model,
            "began_ms": self.began_ms,
            "active_ms": self.active_ms,
            "first_words": self.first_words,
            "size_bytes": self.size_bytes,
            "unfinished": self.is_open,
            "problem": self.problem,
        }


def glance_at(folder: Path) -> Glance:
    """Return what can be seen of a session; where its journal cannot be read, that and why."""
    size_bytes = sum(_sizes(folder))
    path = folder / JOURNAL
    try:
        with disk.opened(path, os.O_RDONLY) as fd:
            head, is_about = _beginning(fd, str(path))
            end = _end(fd)
            written_ms = disk.written_ms(fd)
    except (OSError, JournalError) as error:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        else:
            reason = error.message if is_begun(path) else _NEVER_BEGUN
        return Glance(folder.name, folder, _project_of(path), size_bytes=size_bytes, problem=reason)
    told = head.header
    return Glance(
        folder.name,
        folder,
        _text(told.get("project")) or _text(is_about.get("project")),
        _text(is_about.get("model")),
        head.told.times_ms[0] if head.told.times_ms else written_ms,
        end[1].at_ms if end else written_ms,
        _first_words(head.facts),
        size_bytes,
        _is_open(end[0].facts if end else head.facts),
    )


def said_at_start(path: Path) -> Mapping[str, object]:
    """Return what a session said about itself when it began; raise `JournalError` where its journal cannot be read."""
    try:
        with disk.opened(path, os.O_RDONLY) as fd:
            return _beginning(fd, str(path))[1]
    except OSError as error:
        raise cannot_open(path, error, "read") from error


def _project_of(path: Path) -> str:
    """The folder that a journal names in its first line, which damage further down leaves readable."""
    try:
        with disk.opened(path, os.O_RDONLY) as fd:
            data = disk.read_some(fd, _HEAD_BYTES)
        return _text(read_journal(data[: data.find(b"\n") + 1], str(path)).header.get("project"))
    except (OSError, JournalError):
        return ""


def _beginning(fd: int, path: str) -> tuple[Journal, Mapping[str, object]]:
    """As much of the beginning of a journal as it takes, and what its session said about itself."""
    journal = _head(fd, path, _HEAD_BYTES)
    is_about = _start(journal.facts)
    if not (is_about and _first_words(journal.facts)) and disk.size_of(fd) > _HEAD_BYTES:
        journal = _head(fd, path, _LONG_HEAD_BYTES)
        is_about = _start(journal.facts)
    return journal, is_about


def _end(fd: int) -> tuple[Told, Chain] | None:
    """As much of the end of a journal as it takes to see whether its last turn has ended."""
    size_bytes = disk.size_of(fd)
    end = read_end(disk.read_from(fd, max(0, size_bytes - _TAIL_BYTES)))
    if size_bytes > _TAIL_BYTES and (end is None or _is_open(end[0].facts) is None):
        return read_end(disk.read_from(fd, max(0, size_bytes - _LONG_TAIL_BYTES))) or end
    return end


def _start(facts: list[Fact]) -> Mapping[str, object]:
    starts = (fact.data for fact in facts if isinstance(fact, Observation) and fact.type == "session_start")
    return next(starts, {})


def _head(fd: int, path: str, size_bytes: int) -> Journal:
    data = disk.read_some(fd, size_bytes)
    # Without the last line, which may be cut here; damage further up is `verify`'s business.
    return read_journal(data[: data.rfind(b"\n") + 1], path)


def _first_words(facts: list[Fact]) -> str:
    for message in _messages(facts):
        words = " ".join(without_asides(message.content).split())
        if message.role == "user" and words:
            return words if len(words) <= _WORDS_CHARS else f"{words[: _WORDS_CHARS - 3]}..."
    return ""


def _messages(facts: list[Fact]) -> Iterator[Message]:
    for fact in facts:
        if isinstance(fact, MessageAdded):
            yield fact.message
        elif isinstance(fact, Reset):
            yield from fact.messages


def _is_open(facts: list[Fact]) -> bool | None:
    for fact in reversed(facts):
        if isinstance(fact, (TurnStart, TurnEnd)):
            return isinstance(fact, TurnStart)
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _sizes(folder: Path) -> Iterator[int]:
    """The sizes of all files below a folder, as far as they can be looked at."""
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(place, name))
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield status.st_size
