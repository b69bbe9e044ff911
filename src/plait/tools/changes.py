"""Which files a session's tools have changed, as its facts tell it: what each held before, what was left in it.

Floor: 3. Owns: reading changes out of facts, and what several changes of a file come to; never: a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from plait.core.facts import Fact, Observation, ToolEnd, ToolStart
from plait.core.side_calls import as_own_call
from plait.core.values import dataclass
from plait.hands.editing.change import WriteIntent
from plait.tools.file_recovery import real_name, root_digest

REWOUND: Final = "rewound"
"""Type of the observation that tells what a rewind has taken back."""
ROLLED_BACK: Final = "rolled_back"
"""Where the data of a result tell the same of a rollback."""
LOOKED_AT: Final = frozenset({"ok", "unknown"})
"""How a call ended that may have changed its files."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a file, by digests; None is no file."""

    path: str
    before: str | None
    after: str | None
    root: str = ""
    """Digest of the workspace in which the path begins."""
    mode: int | None = None
    """Permissions before, where the change may not have kept them."""
    directories: tuple[str, ...] = ()
    """Directories that were made for it, each after the one above it."""
    is_open: bool = False
    """True when what is left in the file is not known: somebody else makes the change."""

    @classmethod
    def of(cls, intent: WriteIntent, root: str | os.PathLike[str]) -> Change:
        """Return what is about to happen to a file in a workspace."""
        name = real_name(root, intent.path)
        return cls(name, intent.before, intent.after, root_digest(root), intent.mode, intent.directories)

    @classmethod
    def told(cls, data: Mapping[str, object], root: str = "") -> Change:
        """Read what `to_dict` or a recorded intent told."""
        intent = WriteIntent.from_dict({"path": "", "before": None, "after": None, **data})
        real = data.get("real")
        name = real if isinstance(real, str) else intent.path
        kept = data.get("root")
        root = kept if isinstance(kept, str) else root
        return cls(name, intent.before, intent.after, root, intent.mode, intent.directories)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        return {"path": self.path, "before": self.before, "after": self.after, "root": self.root}

    @property
    def reversed(self) -> Change:
        """The change that takes this one back."""
        return Change(self.path, self.after, self.before, self.root)


def changes_of(start: ToolStart | None, end: ToolEnd) -> list[Change]:
    """Return the changes of files that a call has made, or may have made; none for one that changes no file."""
    if end.result.status not in LOOKED_AT:
        return []
    told = (end.result.data or {}).get(ROLLED_BACK)
    if isinstance(told, (list, tuple)):
        return _told(told)
    intent = start.intent if start is not None and start.intent is not None else {}
    if "after" in intent:
        return [Change.told(intent)]
    root = intent.get("root")
    return _told(intent.get("files"), root if isinstance(root, str) else "")


def changes_told(fact: Observation) -> list[Change]:
    """Return what a rewind has taken back, as changes of their own."""
    return _told(fact.data.get("files")) if fact.type == REWOUND else []


def _told(files: object, root: str = "") -> list[Change]:
    found = files if isinstance(files, (list, tuple)) else ()
    return [Change.told(file, root) for file in found if isinstance(file, Mapping)]


class Changes:
    """What happened to each file in all: a fold of facts, or of changes as they are made."""

    def __init__(self) -> None:
        self._starts: dict[str, ToolStart] = {}
        self._first: dict[str, Change] = {}
        self._last: dict[str, Change] = {}

    @property
    def net(self) -> list[Change]:
        """Each file that is not as it was: what it held at first, and what was left in it. The latest comes first.

        So that a file with two names is taken back step by step.
        """
        found = [_joined(self._first[path], last) for path, last in reversed(self._last.items())]
        return [change for change in found if _leaves_something(change)]

    def add(self, change: Change) -> None:
        """Take one more change."""
        first = self._first.setdefault(change.path, change)
        if first.mode is None and change.mode is not None and first.before is not None:
            self._first[change.path] = _joined(first, first, change.mode)
        self._last.pop(change.path, None)
        self._last[change.path] = change

    def take(self, fact: Fact) -> list[Change]:
        """Take a fact, and return the changes that it told."""
        fact = as_own_call(fact)
        found: list[Change] = []
        if isinstance(fact, ToolStart):
            self._starts[fact.call_id] = fact
        elif isinstance(fact, ToolEnd):
            found = changes_of(self._starts.pop(fact.result.call_id, None), fact)
        elif isinstance(fact, Observation):
            found = changes_told(fact)
        is_back = isinstance(fact, Observation)
        if isinstance(fact, ToolEnd) and fact.result.data is not None:
            is_back = ROLLED_BACK in fact.result.data
        for change in found:
            self.add(change)
            if is_back and self._first[change.path].before == change.after:
                self.forget(change.path)  # permissions are back as well
        return found

    def ended(self, call_id: str) -> None:
        """Take the end of a call whose changes are known."""
        self._starts.pop(call_id, None)

    def forget(self, path: str) -> None:
        """Take a file for one that is as it was."""
        self._first.pop(path, None)
        self._last.pop(path, None)

    def known(self, path: str) -> tuple[Change, Change] | None:
        """Return the first and the last change of a file, for `restore`."""
        return (self._first[path], self._last[path]) if path in self._last else None

    def restore(self, path: str, known: tuple[Change, Change] | None) -> None:
        """Take the last change of a file for not made."""
        self.forget(path)
        if known is not None:
            self._first[path], self._last[path] = known


def _joined(first: Change, last: Change, mode: int | None = None) -> Change:
    return Change(
        first.path,
        first.before,
        last.after,
        last.root,
        first.mode if mode is None else mode,
        first.directories,
        last.is_open,
    )


def _leaves_something(change: Change) -> bool:
    has_traces = change.is_open or change.mode is not None or bool(change.directories and change.before is None)
    return has_traces or change.before != change.after
