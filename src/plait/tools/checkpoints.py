"""Checkpoints of files: what they held before plait's tools changed them, and the way back to it.

Floor: 3. Owns: which changes are pending, and taking them back; never: how one file is taken back (`tools.undo`).

What is pending is a fold: of the changes that tools make here, and of the facts of a session that is kept, so that a
resume and a rewind leave it as it is. A rollback is a change as well. One that dies in the middle is gone on with.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import field, replace
from typing import Final

from plait.core.errors import Refusal
from plait.core.events import Committed, Event
from plait.core.facts import Fact, ToolEnd
from plait.core.values import dataclass
from plait.hands.editing.atomic import is_temporary, temporary_name
from plait.hands.editing.change import Version, WriteIntent, read_version
from plait.hands.editing.locks import FileLocks
from plait.hands.editing.versions import MemoryVersions, Versions
from plait.hands.workspace import Workspace
from plait.kernel.tools import Recovery, ToolContext
from plait.tools.answer import Reply, answering
from plait.tools.changes import ROLLED_BACK, Change, Changes
from plait.tools.file_recovery import real_name, root_digest
from plait.tools.undo import Undo, Undone

NOTHING: Final = "Nothing to roll back: no file was changed by these tools since the last rollback."
_WHY: Final[Mapping[str, str]] = {
    "changed": "somebody else has changed it since, so it was left alone",
    "not_kept": "its earlier content was not kept",
    "elsewhere": "it was changed in another workspace",
}


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What became of one file."""

    change: Change
    outcome: Undone | str
    """`restored`, `already`, `changed` (by somebody else since), `not_kept`, `elsewhere`, or why it was refused."""

    @property
    def is_back(self) -> bool:
        """Say whether the file is as it was."""
        return self.outcome in ("restored", "already")


@dataclass
class _State:
    lock: threading.Lock = field(default_factory=threading.Lock)
    rolling: threading.Lock = field(default_factory=threading.Lock)
    changes: Changes = field(default_factory=Changes)
    taken: set[str] = field(default_factory=set)
    """Rollbacks that were made here: when they are recorded, they are known already."""


class Checkpointer:
    """The earlier contents of files that tools change, until they are rolled back. Safe in any thread.

    By itself it keeps them in memory, for one working directory; a session's own keeps them beside its journal.
    Links are followed as far as they stay beneath the directory.
    """

    def __init__(
        self,
        working_dir: str | os.PathLike[str] = ".",
        *,
        undo: Callable[[], Undo] | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        """Watch over the files of a directory; `undo` and `root` are for a toolbox, whose places and locks count."""
        if undo is None:
            workspace = Workspace(working_dir)
            own = Undo(workspace, FileLocks(), MemoryVersions())
            undo, root = own.itself, workspace.root
        self._undo: Callable[[], Undo] = undo
        self._root = root if root is not None else working_dir
        self._state = _State()

    def record(self, path: str) -> None:
        """Keep what a file holds now, unless an earlier content of it is kept: what a program calls before a change.

        A file that is not there is deleted by a rollback. Raises `Refusal` for one outside, or that cannot be read.
        """
        undo = self._undo()
        with undo.places.pin(path, "write") as target, undo.locks.hold(target):
            now, shown = read_version(target), real_name(self._root, target.shown)
        with self._state.lock:
            if self._state.changes.known(shown) is not None:
                return
            digest = self._kept(undo.versions, now)
            mode = None if now is None else now.status.st_mode & 0o7777
            self._state.changes.add(Change(shown, digest, None, root_digest(self._root), mode, is_open=True))

    @contextmanager
    def recording(self, changes: Sequence[tuple[WriteIntent, Version | None]]) -> Iterator[None]:
        """Have changes pending while they are made, and afterwards unless they are refused.

        Takes, for each, what is about to happen and what the file holds before. Does nothing where nothing is kept.
        """
        versions = self._undo().versions
        if versions is None:
            yield
            return
        with self._state.lock:
            made = [Change.of(intent, self._root) for intent, _ in changes]
            known = {change.path: self._state.changes.known(change.path) for change in made}
            for change, (_, before) in zip(made, changes, strict=True):
                self._kept(versions, before)
                self._state.changes.add(change)
        try:
            yield
        except Refusal:
            with self._state.lock:
                for path, earlier in known.items():
                    self._state.changes.restore(path, earlier)
            raise

    def follow(self, facts: Iterable[Fact]) -> None:
        """Take the facts of a session that goes on."""
        state = self._state
        with state.lock:
            for fact in facts:
                if isinstance(fact, ToolEnd) and fact.result.call_id in state.taken:
                    state.taken.discard(fact.result.call_id)
                    state.changes.ended(fact.result.call_id)
                else:
                    state.changes.take(fact)

    def __call__(self, event: Event) -> None:
        """Take what has been recorded, as an observer of a conversation."""
        if isinstance(event, Committed):
            self.follow((event.entry.fact,))

    def pending(self) -> tuple[str, ...]:
        """Return the paths of files that are not as they were, the latest change first."""
        with self._state.lock:
            return tuple(change.path for change in self._state.changes.net)

    def rollback(self) -> int:
        """Give files their earlier content back, delete new ones, and return how many are as they were.

        A file that somebody else has changed since is left alone, and stays pending. Nothing is raised for it.
        Durability: when it returns, the contents are on disk.
        """
        return sum(each.is_back for each in self.roll_back())

    def roll_back(self, temporaries: Mapping[str, object] | None = None) -> list[RolledBack]:
        """The same, and what became of each file; `temporaries` are names of files that are written first, by path."""
        with self._state.rolling:
            with self._state.lock:
                net = self._state.changes.net
            done = [RolledBack(change, self._back(change, temporaries or {})) for change in net]
            with self._state.lock:
                for each in done:
                    if each.is_back:
                        self._state.changes.forget(each.change.path)
            return done

    @answering
    def tool(self, call: ToolContext | None = None) -> Reply:
        """Answer a model's call of `rollback`."""
        temporaries = None if call is None or call.intent is None else call.intent.get("temporaries")
        done = self.roll_back(temporaries if isinstance(temporaries, Mapping) else None)
        if call is not None:
            with self._state.lock:
                self._state.taken.add(call.call_id)
        return _answer(done)

    @property
    def recovery(self) -> Recovery:
        """How a rollback whose end nobody saw is gone on with: what is done is found done."""
        return Recovery(self._intend, self._settle)

    def _intend(self, keywords: Mapping[str, object], context: ToolContext) -> Mapping[str, object]:
        return {"temporaries": {path: temporary_name() for path in self.pending()}}

    def _settle(self, keywords: Mapping[str, object], context: ToolContext) -> Reply:
        temporaries = (context.intent or {}).get("temporaries")
        names = temporaries if isinstance(temporaries, Mapping) else {}
        undo = self._undo()
        for path, name in names.items():
            with suppress(Refusal, OSError), undo.places.pin(str(path), "write") as target:
                if isinstance(name, str) and is_temporary(name) and not target.missing:
                    os.unlink(name, dir_fd=target.fd)
        return self.tool(replace(context, intent={"temporaries": names}))

    def _back(self, change: Change, temporaries: Mapping[str, object]) -> Undone | str:
        if change.root != root_digest(self._root):
            return "elsewhere"
        name = temporaries.get(change.path)
        try:
            return self._undo().change(change, name if isinstance(name, str) and is_temporary(name) else "")
        except Refusal as refused:
            return refused.message

    @staticmethod
    def _kept(versions: Versions | None, before: Version | None) -> str | None:
        if before is None:
            return None
        if versions is not None:
            versions.keep(before.data, before.sha256)
        return before.sha256


def recording(
    checkpoints: Checkpointer | None, *changes: tuple[WriteIntent, Version | None]
) -> AbstractContextManager[None]:
    """Have changes pending while they are made, where somebody keeps count."""
    return nullcontext() if checkpoints is None else checkpoints.recording(changes)


def _answer(done: Sequence[RolledBack]) -> Reply:
    back = [each for each in done if each.is_back]
    left = [each for each in done if not each.is_back]
    data: dict[str, object] = {
        "ok": bool(back) or not left,
        "restored": len(back),
        "files": [each.change.path for each in back],
        "left": {each.change.path: each.outcome for each in left},
        ROLLED_BACK: [each.change.reversed.to_dict() for each in back],
    }
    if not done:
        return NOTHING, data
    lines = [f"Rolled back {len(back)} file(s)"]
    lines += [f"- {each.change.path}: {'removed' if each.change.before is None else 'restored'}" for each in back]
    lines += [f"- {each.change.path}: not rolled back, {_WHY.get(each.outcome, each.outcome)}" for each in left]
    return "\n".join(lines), data
