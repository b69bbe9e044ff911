"""What a patch comes to: the changes of its files, or all that is wrong with it.

Floor: 2. Owns: what is to become of each file; never: who allows it, or making a change (`patch_plan`).

Whatever can be wrong with a patch shows here, before anything is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Final

from plait.core.errors import Refusal
from plait.hands.editing import textfile
from plait.hands.editing.atomic import Mode
from plait.hands.editing.change import Removal, Version, plan_data, read_version
from plait.hands.editing.edit import plan_write
from plait.hands.editing.locks import FileLocks, Key, key_of
from plait.hands.git_metadata import refuse_git_metadata
from plait.hands.patches.draft import Draft, check_new, executable, with_mark
from plait.hands.patches.parts import FilePatch, Patch
from plait.hands.patches.patch_plan import PatchPlan, Step
from plait.hands.patches.patched import patched
from plait.hands.workspace import Files, Pinned

_FAULTS_TOLD_MAX: Final = 3


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


class _Planner:
    def __init__(self, targets: Mapping[str, Pinned]) -> None:
        self._targets = targets
        self._keys: dict[str, Key] = {path: key_of(target) for path, target in targets.items()}
        self._drafts: dict[Key, Draft] = {}
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
        if not any(change.is_change for change in plan.changes):
            raise Refusal("INVALID_INPUT", "the patch changes nothing", hint="the files hold all of it already")
        return plan

    def _step(self, patch: FilePatch) -> Step | None:
        """Plan one section; None for a change that another section may go on with."""
        key, target = self._keys[patch.path], self._targets[patch.path]
        if patch.kind == "add" and key in self._deleted:
            self._deleted.remove(key)
            check_new(patch.content, patch.path)
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
        check_new(patch.content, patch.path)
        mode = None if patch.is_executable is None else executable(patch.is_executable)
        plan = plan_data(target, None, patch.content.encode(), ("", patch.content))
        return Step("A", (patch.path,), (replace(plan, mode=mode),))

    def _updated(self, patch: FilePatch, key: Key, target: Pinned, before: Version) -> Step | None:
        draft = self._drafts.get(key) or Draft(patch.path, target, before)
        if patch.is_executable is not None:
            draft.is_executable = patch.is_executable
        if patch.hunks:
            draft.apply(patch.hunks, patch.path)
        if patch.move_to is None or self._keys[patch.move_to] == key:
            self._drafts[key] = draft
            return None
        there = self._keys[patch.move_to]
        if there in self._taken or there in self._drafts:
            raise _named_twice(patch.move_to)
        self._taken |= {key, there}
        self._drafts.pop(key, None)
        return self._moved(patch, draft, before)

    def _moved(self, patch: FilePatch, draft: Draft, before: Version) -> Step:
        assert patch.move_to is not None
        there = self._targets[patch.move_to]
        if read_version(there) is not None:
            raise Refusal(
                "CONFLICT",
                f"{patch.move_to!r} exists already, and the patch moves {patch.path!r} there",
                hint="delete it first in another call, or choose another name",
                details={"path": patch.move_to, "patch_line": patch.patch_line},
            )
        data, texts = draft.outcome()
        permissions = before.mode
        flags = executable(draft.is_executable) if draft.is_executable is not None else None
        mode: Mode = (lambda _mode: permissions) if flags is None else (lambda _mode: flags(permissions))
        plan = replace(plan_data(there, None, data, ("", texts[1])), mode=mode)
        return Step("R", (patch.path, patch.move_to), (plan, Removal.of(draft.target, before)), tuple(draft.notes))


def _step_of(draft: Draft) -> Step:
    return Step("M", (draft.path,), (draft.plan(),), tuple(draft.notes))


def _deleted(patch: FilePatch, target: Pinned, before: Version) -> Step:
    if patch.hunks:
        text = with_mark(textfile.decode(before.data, patch.path)).text
        if patched(text, patch.hunks, patch.path).text.strip():
            raise Refusal(
                "CONFLICT",
                f"the patch deletes {patch.path!r} (line {patch.patch_line}) with less in it than the file holds",
                hint="read the file again; delete it with *** Delete File if it is to go all the same",
                details={"path": patch.path, "patch_line": patch.patch_line},
            )
    return Step("D", (patch.path,), (Removal.of(target, before),))


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
