"""`apply_patch`, and the hunks that `str_replace` takes: patches of files in the workspace.

Floor: 3. Owns: what these answer, and what is recorded before; never: what a patch means (`hands.patches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from plait.core.messages import ToolResult
from plait.core.values import dataclass
from plait.hands.editing.change import Settled, WriteIntent, Written, settle
from plait.hands.editing.locks import FileLocks
from plait.kernel.tools import Recovery, ToolContext
from plait.tools.answer import Answer, Reply, answering
from plait.tools.checkpoints import Checkpointer, recording
from plait.tools.file_recovery import BEGAN, FileRecovery, as_intended, root_digest, told
from plait.tools.files import changed
from plait.tools.masked import refuse_masks, told_of_masks
from plait.tools.redaction import Redaction

if TYPE_CHECKING:
    from plait.hands.patches.patch_plan import PatchPlan, Step

_DIFF_LINES_MAX: Final = 400
_DIFF_CHARS_MAX: Final = 40_000
_BECAME: Final[Mapping[Settled, str]] = {
    "applied": "applied",
    "not_applied": "not applied",
    "changed": "changed by somebody else since; whether this was made cannot be told",
}
_ADVICE: Final = {
    "applied": "Everything is in place. Do not repeat it.",
    "not_applied": "Nothing was changed. Repeat the call if the changes are still wanted.",
    "partly": "Read the files that it names before you go on, and send only what is missing.",
}
_ELSEWHERE: Final = (
    "Unknown. {began} The session has another workspace now, so that nobody can look which of the files were changed. "
    "Check before repeating it."
)


@dataclass(frozen=True, slots=True)
class Patching:
    """Applies patches in one workspace. Safe in any thread."""

    ground: FileRecovery
    """The workspace, where calls may write in it, and what keeps the contents before."""
    locks: FileLocks
    checkpoints: Checkpointer | None = None
    """Learns of every change, so that it can be rolled back."""
    redaction: Redaction | None = None
    """What the model that writes them is not shown."""

    @answering
    def apply_patch(self, input: str, *, call: ToolContext | None = None) -> Reply:
        """Apply a patch of any number of files, all of it or nothing."""
        from plait.hands.patches.file_patch import planned_patch  # most sessions have no patch
        from plait.hands.patches.patch import parse_patch

        files = self.ground.places(call)
        with told_of_masks(self.redaction, input), planned_patch(files, parse_patch(input), self.locks) as plan:
            plan = plan.under(_temporaries(call))
            refuse_masks(self.redaction, plan.steps[0].paths[0], (change.texts for change in plan.changes))
            data = _data(plan)
            with recording(self.checkpoints, *((change.intent, change.before) for change in plan.changes)):
                written = plan.apply(self.ground.anywhere)
        data["created_directories"] = _made(written)
        count = len(plan.steps)
        return "\n".join((f"OK: {count} {'file' if count == 1 else 'files'} changed", *map(_told, plan.steps))), data

    def patch_file(self, path: str, patch: str, expected_sha256: str | None, call: ToolContext | None) -> Answer:
        """Apply the hunks of a patch to one file. Raises `Refusal`."""
        from plait.hands.patches.draft import plan_hunks
        from plait.hands.patches.patch import hunks_for

        with self.ground.places(call).pin(path, "write") as target, self.locks.hold(target):
            hunks = hunks_for(path, patch)
            with told_of_masks(self.redaction, patch):
                plan, notes = plan_hunks(target, hunks, expected_sha256=expected_sha256)
            plan = as_intended(plan, call)
            refuse_masks(self.redaction, path, [plan.texts])
            with recording(self.checkpoints, (plan.intent, plan.before)):
                diff, written = plan.diff(), plan.apply()
        said = "".join(f"; {note}" for note in notes)
        return f"OK: applied {len(hunks)} hunk(s) to {path}{said}", changed(path, written, diff)

    @property
    def recovery(self) -> Recovery:
        """How to find out what became of a patch whose end nobody saw: file by file."""
        return Recovery(self._intend, self._settle)

    def _intend(self, keywords: Mapping[str, object], context: ToolContext) -> Mapping[str, object]:
        from plait.hands.patches.file_patch import planned_patch
        from plait.hands.patches.patch import parse_patch

        with planned_patch(self.ground.places(context), parse_patch(str(keywords["input"]))) as plan:
            changes = plan.changes
        versions = self.ground.versions()
        for change in changes:
            if versions is not None and change.before is not None:
                versions.keep(change.before.data, change.before.sha256)
        return {
            "files": [told(change.intent, self.ground.root) for change in changes],
            "root": root_digest(self.ground.root),
        }

    def _settle(self, keywords: Mapping[str, object], context: ToolContext) -> ToolResult:
        assert context.intent is not None
        intents = intents_of(context.intent)
        if context.intent.get("root") != root_digest(self.ground.root):
            return ToolResult("", _ELSEWHERE.format(began=BEGAN), status="unknown")
        became: dict[str, Settled] = {}
        for intent in intents:
            with self.ground.anywhere.pin(intent.path, "write") as target:
                became[intent.path] = settle(target, intent)
        outcomes = set(became.values())
        whole = outcomes.pop() if len(outcomes) == 1 else "partly"
        lines = [f"- {path}: {_BECAME[outcome]}" for path, outcome in became.items()]
        advice = _ADVICE.get(whole, _ADVICE["partly"])
        data: dict[str, object] = {"ok": whole == "applied", "recovered": whole, "files": list(became)}
        data["outcomes"] = dict(became)
        text = "\n".join((f"{_heading(whole)} {BEGAN} {advice}", *lines))
        if whole == "applied":
            return ToolResult("", text, data=data)
        return ToolResult("", text, data=data, status="cancelled" if whole == "not_applied" else "unknown")


def intents_of(intent: Mapping[str, object]) -> list[WriteIntent]:
    """Return the changes of files that a call was started for, one or many; none for any other call."""
    if "after" in intent:
        return [WriteIntent.from_dict(intent)]
    files = intent.get("files")
    return [WriteIntent.from_dict(each) for each in files] if isinstance(files, (list, tuple)) else []


def _temporaries(call: ToolContext | None) -> dict[str, str]:
    """Return the names of files that are written first as they were recorded for a call, by path."""
    intents = intents_of((call and call.intent) or {})
    return {intent.path: intent.temporary for intent in intents}


def _told(step: Step) -> str:
    summary = step.summary
    counts = [f"{sign}{count}" for sign, count in (("+", summary.added), ("-", summary.removed)) if count]
    more = "; ".join(filter(None, (" ".join(counts), *step.notes)))
    return f"{step.mark} {' -> '.join(step.paths)}{f' ({more})' if more else ''}"


def _data(plan: PatchPlan) -> dict[str, object]:
    """Return what programs are told: every file, the change of each, and all of it as one diff."""
    steps = plan.steps
    changes = [
        {"mark": step.mark, **step.summary.to_dict(), "sha256": _left(step), "paths": list(step.paths)}
        for step in steps
    ]
    paths = [path for step in steps for path in step.paths]
    summaries = [step.summary for step in steps]
    shown = paths[0] if len(paths) == 1 else f"{len(paths)} files"
    total = {"path": shown, "added": sum(s.added for s in summaries), "removed": sum(s.removed for s in summaries)}
    diff = "".join(step.diff(max(20, _DIFF_LINES_MAX // len(steps))) for step in steps)
    if len(diff) > _DIFF_CHARS_MAX:
        diff = f"{diff[:_DIFF_CHARS_MAX]}\n(truncated: the rest of the diff is not shown)\n"
    return {"ok": True, "files": paths, "diff_summary": total, "diff": diff, "changes": changes}


def _left(step: Step) -> str | None:
    """Return the digest of what a step leaves under its last path."""
    return step.changes[0].intent.after


def _made(written: Sequence[Written]) -> list[str]:
    """Return the directories that were made, each once."""
    return list(dict.fromkeys(folder for each in written for folder in each.created_directories))


def _heading(whole: str) -> str:
    return {"applied": "Applied.", "not_applied": "Not applied."}.get(whole, "Partly applied.")
