"""A patch of several files as changes that are ready to be made: all of them, or a refusal and none.

Floor: 2. Owns: the order of the changes, and taking back those that were made; never: what a patch comes to
(`file_patch`).

New contents come before old files go, so that a crash between two changes loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing.atomic import Before, is_temporary
from plait.hands.editing.change import Removal, WritePlan, Written
from plait.hands.editing.diff import DiffSummary, summarise
from plait.hands.editing.versions import take_back
from plait.hands.workspace import Files

Change = WritePlan | Removal


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one file of a patch."""

    mark: str
    """`A` added, `M` changed, `D` deleted, `R` moved."""
    paths: tuple[str, ...]
    """As the patch names them; of a move, from where and to where."""
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> DiffSummary:
        """Lines that come and go."""
        before, after = self._texts
        return summarise(self.paths[-1], before, after)

    def diff(self, lines_max: int) -> str:
        """Return the change as a bounded unified diff."""
        from plait.hands.editing.diff import unified

        before, after = self._texts
        return unified(self.paths[-1], before, after, lines_max=lines_max)

    @property
    def _texts(self) -> tuple[str, str]:
        texts = [change.texts for change in self.changes]
        # A move is two changes: the new file's, and the old one's removal.
        return (texts[-1][0], texts[0][1])


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """A whole patch, ready to be made."""

    steps: tuple[Step, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every change, in the order in which they are made."""
        every = [change for step in self.steps for change in step.changes]
        return (*(c for c in every if isinstance(c, WritePlan)), *(c for c in every if isinstance(c, Removal)))

    def under(self, temporaries: Mapping[str, str]) -> PatchPlan:
        """Return the plan with the names of files that are written first as they were recorded, by path."""

        def named(change: Change) -> Change:
            name = temporaries.get(change.intent.path, "")
            return change.under(name) if isinstance(change, WritePlan) and is_temporary(name) else change

        return PatchPlan(
            tuple(replace(step, changes=tuple(named(change) for change in step.changes)) for step in self.steps)
        )

    def apply(self, files: Files, *, before: Before | None = None) -> tuple[Written, ...]:
        """Make every change; when one cannot be made, those before it are taken back.

        Raises `Refusal`; its details have `left`, the files that could not be given their content back.
        Durability: when it returns, everything is on disk. After a crash in between each file is as before or as after.
        """
        begun: list[Change] = []
        written: list[Written] = []
        try:
            for change in self.changes:
                begun.append(change)
                made = change.apply(before=before)
                if made is not None:
                    written.append(made)
        except BaseException as error:
            left = [path for change in reversed(begun) if (path := _taken_back(files, change)) is not None]
            if left and isinstance(error, Refusal):
                raise Refusal(
                    error.refusal,
                    f"{error.message}; changed already, and not given back: {', '.join(left)}",
                    hint=error.hint,
                    details={**error.details, "left": left},
                ) from error
            raise
        return tuple(written)


def _taken_back(files: Files, change: Change) -> str | None:
    """Give a file its content back; return its path where that cannot be done."""
    intent = change.intent
    data = None if change.before is None else change.before.data
    try:
        with files.pin(intent.path, "write") as target:
            became = take_back(target, data, expected=intent.after)
    except Refusal:
        return intent.path
    if isinstance(change, WritePlan) and became == "restored":
        _remove_empty(files, change.created_directories)
    return intent.path if became == "changed" else None


def _remove_empty(files: Files, folders: Sequence[str]) -> None:
    """Remove directories that were made for a file which has gone again, as far as nobody else has used them."""
    for folder in reversed(folders):
        with suppress(Refusal, OSError), files.pin(folder, "write") as pinned:
            os.rmdir(pinned.name, dir_fd=pinned.fd)
