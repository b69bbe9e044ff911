"""A patch of several files as changes that are ready to be made: all of them, or a refusal and none.

Floor: 2. Owns: what is to become of each file, and in which order; never: who allows it, or the words about it.

Whatever can be wrong with a patch shows here, before anything is written. New contents come before old files go, so
that a crash between two changes loses nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field, replace
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands import textfile
from plait.hands.atomic import Before, Mode, is_temporary, remove
from plait.hands.diff import DiffSummary, summarise
from plait.hands.edit import (
    EDITED_BYTES_MAX,
    Version,
    WriteIntent,
    WritePlan,
    Written,
    check_expected,
    plan_data,
    plan_write,
    read_version,
)
from plait.hands.git_metadata import refuse_git_metadata
from plait.hands.locks import FileLocks, Key, key_of
from plait.hands.patches.patch import FilePatch, Hunk, Patch
from plait.hands.patches.patched import patched
from plait.hands.textfile import TextFile
from plait.hands.versions import take_back
from plait.hands.workspace import Files, Pinned

_FAULTS_TOLD_MAX: Final = 3
_EXECUTE: Final = 0o111
_READ: Final = 0o444


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of a file, ready to be made."""

    target: Pinned
    before: Version
    intent: WriteIntent

    def apply(self, *, before: Before | None = None) -> None:
        """Remove the file if it is still what it was. Raises `Refusal`."""
        remove(self.target, self.before.status, before=before)

    @property
    def texts(self) -> tuple[str, str]:
        """Its text, and nothing."""
        return _readable(self.before, self.target.shown), ""


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
        from plait.hands.diff import unified

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


@contextmanager
def planned_patch(files: Files, patch: Patch, locks: FileLocks | None = None) -> Iterator[PatchPlan]:
    """Plan a patch; its files stay pinned, and locked where there are locks, until the block ends.

    Raises:
        Refusal: something about it cannot be done; the first few faults are told, each with its file.
    """
    with ExitStack() as held:
        targets: dict[str, Pinned] = {}
        faults: list[Refusal] = []
        for path in dict.fromkeys(path for each in patch for path in each.paths):
            try:
                targets[path] = held.enter_context(files.pin(path, "write"))
            except Refusal as refusal:
                faults.append(refusal)
        faults += [_no_link(each) for each in patch if _takes_away(each) and _is_link(files, each.path)]
        if faults:
            raise _together(faults)
        if locks is not None:
            for _, target in sorted({key_of(target): target for target in targets.values()}.items()):
                held.enter_context(locks.hold(target))
        yield _Planner(targets).plan(patch)


@dataclass
class _Draft:
    """A file on its way."""

    path: str
    target: Pinned
    before: Version
    form: TextFile | None = None
    text: str | None = None
    """None for one whose content stays as it is."""
    notes: list[str] = field(default_factory=list)
    is_executable: bool | None = None


class _Planner:
    def __init__(self, targets: Mapping[str, Pinned]) -> None:
        self._targets = targets
        self._keys: dict[str, Key] = {path: key_of(target) for path, target in targets.items()}
        self._drafts: dict[Key, _Draft] = {}
        self._taken: set[Key] = set()
        """Files of which something has been said that leaves no room for more."""
        self._deleted: set[Key] = set()
        """Those that may come back with another content."""

    def plan(self, patch: Patch) -> PatchPlan:
        steps: dict[Key, Step | None] = {}
        faults: list[Refusal] = []
        for each in patch:
            try:
                steps[self._keys[each.path]] = self._step(each)
            except Refusal as refusal:
                faults.append(refusal)
        faults = faults or _both_file_and_directory(steps.values(), self._keys)
        if faults:
            raise _together(faults)
        plan = PatchPlan(tuple(step or _step_of(self._drafts[key]) for key, step in steps.items()))
        if not any(change.intent.before != change.intent.after or _has_mode(change) for change in plan.changes):
            raise Refusal("INVALID_INPUT", "the patch changes nothing", hint="the files hold all of it already")
        return plan

    def _step(self, patch: FilePatch) -> Step | None:
        """Plan one section; None for a change that another section may go on with."""
        key, target = self._keys[patch.path], self._targets[patch.path]
        if patch.kind == "add" and key in self._deleted:
            self._deleted.remove(key)
            _check_new(patch.content, patch.path)
            return Step("M", (patch.path,), (plan_write(target, patch.content),))
        if key in self._taken or (patch.kind != "update" and key in self._drafts):
            raise _named_twice(patch.path)
        for path in patch.paths:
            refuse_git_metadata(self._targets[path])
        if patch.kind == "add":
            self._taken.add(key)
            return self._added(patch, target)
        before = self._drafts[key].before if key in self._drafts else read_version(target)
        if before is None:
            raise _no_file(patch)
        if patch.kind == "delete":
            self._taken.add(key)
            self._deleted.add(key)
            return _deleted(patch, target, before)
        return self._updated(patch, key, target, before)

    def _added(self, patch: FilePatch, target: Pinned) -> Step:
        if read_version(target) is not None:
            raise Refusal(
                "CONFLICT",
                f"{patch.path!r} exists already, and the patch adds it (line {patch.patch_line})",
                hint="change it with *** Update File, or delete it first in another call",
                details={"path": patch.path, "patch_line": patch.patch_line},
            )
        _check_new(patch.content, patch.path)
        mode = None if patch.is_executable is None else _executable(patch.is_executable)
        plan = plan_data(target, None, patch.content.encode(), ("", patch.content))
        return Step("A", (patch.path,), (replace(plan, mode=mode),))

    def _updated(self, patch: FilePatch, key: Key, target: Pinned, before: Version) -> Step | None:
        draft = self._drafts.get(key) or _Draft(patch.path, target, before)
        if patch.is_executable is not None:
            draft.is_executable = patch.is_executable
        if patch.hunks:
            _apply(draft, patch.hunks, patch.path)
        if patch.move_to is None or self._keys[patch.move_to] == key:
            self._drafts[key] = draft
            return None
        there = self._keys[patch.move_to]
        if there in self._taken or there in self._drafts:
            raise _named_twice(patch.move_to)
        self._taken |= {key, there}
        self._drafts.pop(key, None)
        return self._moved(patch, draft, before)

    def _moved(self, patch: FilePatch, draft: _Draft, before: Version) -> Step:
        assert patch.move_to is not None
        there = self._targets[patch.move_to]
        if read_version(there) is not None:
            raise Refusal(
                "CONFLICT",
                f"{patch.move_to!r} exists already, and the patch moves {patch.path!r} there",
                hint="delete it first in another call, or choose another name",
                details={"path": patch.move_to, "patch_line": patch.patch_line},
            )
        data, texts = _outcome(draft)
        permissions = before.status.st_mode & 0o7777
        flags = _executable(draft.is_executable) if draft.is_executable is not None else None
        mode: Mode = (lambda _mode: permissions) if flags is None else (lambda _mode: flags(permissions))
        plan = replace(plan_data(there, None, data, ("", texts[1])), mode=mode)
        return Step("R", (patch.path, patch.move_to), (plan, _removal(draft.target, before)), tuple(draft.notes))


def plan_hunks(
    target: Pinned, hunks: Sequence[Hunk], *, expected_sha256: str | None = None
) -> tuple[WritePlan, tuple[str, ...]]:
    """Plan hunks for one file, and return what is worth saying of how they were placed. Raises `Refusal`."""
    shown = target.shown
    refuse_git_metadata(target)
    before = read_version(target)
    if before is None:
        raise Refusal(
            "NOT_FOUND", f"not a file: {shown!r} does not exist", hint="list the directory, or write the file"
        )
    check_expected(target, before, expected_sha256)
    draft = _Draft(shown, target, before)
    _apply(draft, hunks, shown)
    data, texts = _outcome(draft)
    return plan_data(target, before, data, texts), tuple(draft.notes)


def _apply(draft: _Draft, hunks: Sequence[Hunk], shown: str) -> None:
    if draft.form is None or draft.text is None:
        draft.form = _with_mark(textfile.decode(draft.before.data, shown))
        draft.text = draft.form.text
    for hunk in hunks:
        for line in hunk.lines:
            if line.mark == "+":
                _check_new(line.text, shown)
                if not draft.form.is_valid and not line.text.isascii():
                    raise Refusal(
                        "UNSUPPORTED_CONTENT",
                        f"{shown!r} is not UTF-8, so only ASCII text can be put into it",
                        hint="convert the file first (iconv -f ISO-8859-1 -t UTF-8), or edit it with a shell command",
                    )
    made = patched(draft.text, hunks, shown)
    if len(made.text) > EDITED_BYTES_MAX:
        raise Refusal("TOO_LARGE", f"{shown!r} would grow beyond {EDITED_BYTES_MAX} bytes", hint="add less")
    draft.text = made.text
    draft.notes += made.notes


def _with_mark(form: TextFile) -> TextFile:
    """Return a UTF-8 text with its byte order mark as a character, because a diff shows it as one."""
    return form if form.encoding != "utf-8" or not form.mark else replace(form, text=f"\ufeff{form.text}", mark=b"")


def _outcome(draft: _Draft) -> tuple[bytes, tuple[str, str]]:
    """Return the bytes that a file comes to, and its text before and after."""
    if draft.form is None or draft.text is None:
        text = _readable(draft.before, draft.target.shown)
        return draft.before.data, (text, text)
    after = replace(draft.form, text=draft.text)
    return draft.form.encode(draft.text), (draft.form.readable, after.readable)


def _step_of(draft: _Draft) -> Step:
    data, texts = _outcome(draft)
    plan = plan_data(draft.target, draft.before, data, texts)
    if draft.is_executable is not None:
        intent = replace(plan.intent, mode=draft.before.status.st_mode & 0o7777)
        plan = replace(plan, mode=_executable(draft.is_executable), intent=intent)
    return Step("M", (draft.path,), (plan,), tuple(draft.notes))


def _deleted(patch: FilePatch, target: Pinned, before: Version) -> Step:
    if patch.hunks:
        text = _with_mark(textfile.decode(before.data, patch.path)).text
        if patched(text, patch.hunks, patch.path).text.strip():
            raise Refusal(
                "CONFLICT",
                f"the patch deletes {patch.path!r} (line {patch.patch_line}) with less in it than the file holds",
                hint="read the file again; delete it with *** Delete File if it is to go all the same",
                details={"path": patch.path, "patch_line": patch.patch_line},
            )
    return Step("D", (patch.path,), (_removal(target, before),))


def _removal(target: Pinned, before: Version) -> Removal:
    mode = before.status.st_mode & 0o7777
    return Removal(target, before, WriteIntent(target.shown, before.sha256, None, "", mode))


def _has_mode(change: Change) -> bool:
    if not isinstance(change, WritePlan) or change.mode is None:
        return False
    mode = 0 if change.before is None else change.before.status.st_mode & 0o7777
    return change.mode(mode) != mode


def _executable(is_executable: bool) -> Mode:
    """Give who may read a file the right to run it, or take that from everybody."""
    return (lambda mode: mode | ((mode & _READ) >> 2)) if is_executable else (lambda mode: mode & ~_EXECUTE)


def _readable(version: Version, shown: str) -> str:
    try:
        return textfile.decode(version.data, shown).readable
    except Refusal:
        return ""


def _check_new(text: str, shown: str) -> None:
    if "\0" in text:
        raise Refusal("INVALID_INPUT", f"the new text for {shown!r} has a NUL character", hint="leave it out")


def _no_file(patch: FilePatch) -> Refusal:
    is_deleted = patch.kind == "delete"
    what = "deletes" if is_deleted else "changes"
    return Refusal(
        "NOT_FOUND",
        f"the patch {what} {patch.path!r} (line {patch.patch_line}), which does not exist",
        hint="leave it out" if is_deleted else "list the directory, or add it with *** Add File",
        details={"path": patch.path, "patch_line": patch.patch_line},
    )


def _takes_away(patch: FilePatch) -> bool:
    return patch.kind == "delete" or patch.move_to is not None


def _is_link(files: Files, path: str) -> bool:
    """Say whether a name is a link: what is found through it is another file, which nobody wants to lose."""
    parent, name = os.path.split(path)
    with suppress(Refusal, OSError, ValueError), files.open_directory(parent or ".") as folder:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mode)
    return False


def _no_link(patch: FilePatch) -> Refusal:
    does = "deletes" if patch.kind == "delete" else "moves"
    return Refusal(
        "FORBIDDEN",
        f"{patch.path!r} is a symbolic link, and the patch {does} it (line {patch.patch_line})",
        hint="name the file that it leads to, or change the link with a command (rm, mv)",
        details={"path": patch.path, "patch_line": patch.patch_line},
    )


def _both_file_and_directory(steps: Iterable[Step | None], keys: Mapping[str, Key]) -> list[Refusal]:
    """Return the fault of a new file under whose name another new one would stand."""
    new = {keys[step.paths[-1]]: step.paths[-1] for step in steps if step is not None and step.mark in "AR"}
    faults = [
        _named_twice(path)
        for (device, inode, names), path in new.items()
        if any((device, inode) == other[:2] and names == other[2][: len(names)] != other[2] for other in new)
    ]
    return faults[:1]


def _named_twice(path: str) -> Refusal:
    return Refusal(
        "INVALID_INPUT",
        f"the patch says two things of {path!r}",
        hint="send one section for each file, and what follows from it in another call",
        details={"path": path},
    )


def _together(faults: Sequence[Refusal]) -> Refusal:
    """Return the faults of a patch as one refusal."""
    first = faults[0]
    if len(faults) == 1:
        return Refusal(
            first.refusal, f"{first.message}; nothing was changed", hint=first.hint, details=dict(first.details)
        )
    told = faults[:_FAULTS_TOLD_MAX]
    words = [f"{fault.message}: {fault.hint}" if fault.hint else fault.message for fault in told]
    more = f"\n… and {len(faults) - len(told)} more" if len(faults) > len(told) else ""
    return Refusal(
        first.refusal,
        f"{len(faults)} parts of the patch do not fit:\n" + "\n".join(f"- {each}" for each in words) + more,
        hint="nothing was changed",
        details={"faults": [dict(fault.details) for fault in told], **first.details},
    )
