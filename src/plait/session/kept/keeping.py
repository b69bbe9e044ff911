"""Which session is opened, where it is kept, and what it holds already.

Floor: 5. Owns: what `session_id`, `resumed_from`, `session_dir` and `durable` mean; never: a turn.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plait.core.clock import SystemClock
from plait.core.errors import ConfigError, JournalCorrupt, SessionBusy
from plait.core.facts import Fact
from plait.core.ids import new_id
from plait.core.values import dataclass
from plait.engine.agent_spec import model_of
from plait.kernel.state import FoldError, State, fold
from plait.session.kept.recorded import Bound, RecordedTerms, Schema, bind, port
from plait.session.kept.session_log import SessionLog
from plait.store.importing import import_session, is_journal
from plait.store.jsonl import JsonlLog
from plait.store.layout import SessionFolder
from plait.store.opening import is_begun, load_journal, open_journal
from plait.store.sessions import Sessions

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """The session that is meant, before it is opened."""

    id: str
    """Empty for a new one without a name."""
    place: SessionFolder | None
    """Where it is kept, or will be; None is nowhere."""
    exists: bool
    schema: Schema
    """The agent spec, on the session's own terms where it goes on."""
    notice: str = ""
    source_model: str = ""
    """Of the session that this one is a copy of, made for another model."""
    is_resume: bool = False
    """It was named, and so is expected to go on."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A session's log, and what it held."""

    id: str
    log: SessionLog
    state: State | None = None
    """None for a new one."""
    facts: Sequence[Fact] = ()
    times_ms: Sequence[int] = ()
    """When each fact was recorded."""
    began_ms: int = 0
    torn_bytes: int = 0
    """Of an unfinished write that was cut off."""
    place: SessionFolder | None = None
    """Where it is kept, or will be when its first turn begins; None keeps nothing."""


def target_of(schema: Schema, given: Given) -> Target:
    """Find the session that is meant and bind the spec to it; nothing is opened.

    A session that was begun with another model is copied for the one of the spec, once.

    Raises:
        ConfigError: a name that no session may have, or names that contradict each other. JournalError: it cannot be
            read.
    """
    name, meant = given.get("session_id"), given.get("resumed_from")
    if name and meant and name != meant:
        raise ConfigError(f"session_id={name!r} and resumed_from={meant!r} are two sessions", hint="give one of them")
    if given.get("session_dir") is not None:
        place = SessionFolder(Path(os.path.abspath(os.path.expanduser(given["session_dir"]))))
        return Target(name or meant or "", place, _exists(place), schema, is_resume=bool(name or meant))
    if not name and not meant:
        return Target("", None, False, schema)
    place = _named(name) if name else _meant(str(meant))
    if not _exists(place):
        return Target(place.path.name, place, False, schema, is_resume=True)
    recorded = RecordedTerms.of(place)
    source_model = ""
    if recorded.model and recorded.model != model_of(schema):
        source_model = recorded.model
        place = port(place, place.path.name, schema)
        recorded = RecordedTerms.of(place)
    bound: Bound = bind(schema, recorded)
    notice = bound.notice
    if source_model:
        notice = f"the session was begun with {source_model}; {place.path.name} is its copy for {recorded.model}"
    return Target(place.path.name, place, True, bound.schema, notice, source_model, is_resume=True)


def is_durable(schema: Schema, given: Given) -> bool:
    """Say whether a journal is to be kept: unless the caller or the spec says no; a folder for it says yes."""
    asked = given.get("durable")
    if given.get("session_dir") is not None:
        return True
    return bool(asked) if asked is not None else schema.get("durable") is not False


def keep(target: Target, given: Given, earlier_id: str = "") -> Kept:
    """Open the session: its lock is taken where it exists, and otherwise nothing is made yet.

    Args:
        target: as `target_of` found it.
        earlier_id: id of the session whose dict is restored.

    Raises:
        SessionBusy: another process, or another session of this one, has it open. JournalError: it cannot be read.
    """
    durable, sink, now_ms = is_durable(target.schema, given), given.get("durable_sink"), SystemClock().now_ms
    name, place, exists = target.id or earlier_id, target.place, target.exists
    if place is None and name and durable:
        place = _named(name)
        exists = _exists(place)
    if not durable:
        kept = Kept(name or new_id("s"), SessionLog(now_ms, sink=sink))
        return _read(kept, place) if exists and place is not None else kept
    if exists and place is not None:
        return _opened(name, place, sink)
    name = name or new_id("s", now_ms=now_ms())
    project = os.path.abspath(given.get("workspace") or os.getcwd())
    place = place or _named(name)
    return Kept(name, SessionLog(now_ms, open=_Beginning(place, name, project), sink=sink), place=place)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Makes the journal of a new session."""

    place: SessionFolder
    id: str
    project: str

    def __call__(self) -> JsonlLog:
        opened = open_journal(self.place.path, self.id, SystemClock().now_ms, header={"project": self.project})
        if opened.journal.seq:
            opened.log.close()
            raise SessionBusy(
                f"the session {self.id!r} was begun by somebody else meanwhile",
                path=str(self.place.journal),
                hint="open it again to go on with it, or take another name",
            )
        return opened.log


def _opened(id: str, place: SessionFolder, sink: Any) -> Kept:
    opened = open_journal(place.path, id, SystemClock().now_ms)
    journal = opened.journal
    try:
        if id and id != journal.conversation and id != place.path.name:
            raise ConfigError(
                f"{str(place.path)!r} holds the session {journal.conversation!r}, not {id!r}",
                hint="give its own session_id, or another session_dir",
            )
        log = SessionLog(SystemClock().now_ms, log=opened.log, sink=sink)
        began_ms = journal.told.times_ms[0] if journal.seq else 0
        torn_bytes = journal.torn.size_bytes if journal.torn is not None else 0
        times_ms = journal.told.times_ms
        return Kept(journal.conversation, log, opened.state, journal.facts, times_ms, began_ms, torn_bytes, place)
    except BaseException:
        opened.log.close()
        raise


def _read(kept: Kept, place: SessionFolder) -> Kept:
    """Take over what a session holds without going on in its journal."""
    journal = load_journal(place.journal)
    try:
        state = fold(journal.facts)
    except FoldError as error:
        raise JournalCorrupt(
            f"the journal {str(place.journal)!r} is damaged: {error}", path=str(place.journal)
        ) from error
    times_ms = journal.told.times_ms
    began_ms = times_ms[0] if journal.seq else 0
    return replace(kept, state=state, facts=journal.facts, times_ms=times_ms, began_ms=began_ms)


def _named(id: str) -> SessionFolder:
    return Sessions.of(os.environ).place_of(id)


def kept_at(text: str) -> SessionFolder | None:
    """Return the session at a path: its folder, or what became of the older program's files; None for no path.

    Raises `ConfigError` where there is nothing of the kind.
    """
    if os.sep not in text and Path(text).suffix not in (".json", ".jsonl"):
        return None
    return _at(Path(os.path.abspath(os.path.expanduser(text))), Sessions.of(os.environ))


def _meant(text: str) -> SessionFolder:
    """Return the session that `resumed_from` means: a name, its beginning, a folder, or the older program's files."""
    if (kept := kept_at(text)) is not None:
        return kept
    own = Sessions.of(os.environ)
    place = own.place_of(text)
    if not _exists(place):
        meant = own.beginning_with(text)
        return meant[0] if len(meant) == 1 else place
    return place


def _at(path: Path, own: Sessions) -> SessionFolder:
    folder = path if path.is_dir() else path.parent
    if is_journal(folder) and (path.is_dir() or path.name == SessionFolder(folder).journal.name):
        return SessionFolder(folder)
    # The same name for the same files, so that a second resume goes on where the first one ended.
    place = own.place_of(f"import-{hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:12]}")
    if not _exists(place):
        import_session(path, place.path, place.path.name)
    return place


def _exists(place: SessionFolder) -> bool:
    return is_begun(place.journal)
