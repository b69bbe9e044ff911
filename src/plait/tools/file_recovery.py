"""A file change whose end nobody saw: what is recorded before it, and what is told after a look at the file.

Floor: 3. Owns: the intent of a change as JSON, and the words for what became of it; never: a write.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Final

from plait.core.messages import ToolResult
from plait.core.values import dataclass
from plait.hands.editing.atomic import is_temporary
from plait.hands.editing.change import Settled, WriteIntent, WritePlan, settle
from plait.hands.editing.edit import plan_edit, plan_write
from plait.hands.editing.snippets import Many, Replacement
from plait.hands.editing.versions import Versions
from plait.hands.workspace import Files, Pinned
from plait.kernel.tools import Recovery, ToolContext

Plan = Callable[[Pinned, Mapping[str, object]], WritePlan]
"""Says what a call with these arguments would make of a file. Raises `Refusal` for what the call would refuse."""

BEGAN: Final = "The process that ran this call ended before its result was recorded."
_TEXTS: Final[Mapping[Settled, str]] = {
    "applied": "Applied. {began} The change is in place: {path} holds exactly what this call was to leave. "
    "Do not repeat it.",
    "not_applied": "Not applied. {began} {path} is as it was before the call{absent}. Repeat the call if the change is "
    "still wanted.",
    "changed": "Changed since. {began} {path} holds neither what was there before the call nor what the call was to "
    "leave: somebody else has changed it since, and whether this change was made cannot be told. Read the file before "
    "you change it again.",
}
_ELSEWHERE: Final = (
    "Unknown. {began} The session has another workspace now, so that nobody can look whether {path} was changed. "
    "Check before repeating it."
)


@dataclass(frozen=True, slots=True)
class FileRecovery:
    """Makes the `Recovery` of tools that change one file of a workspace."""

    root: str | os.PathLike[str]
    """The workspace, which relative paths start at."""
    places: Callable[[ToolContext | None], Files]
    """Where a call may write."""
    anywhere: Files
    """Where a call that was begun is looked after: it was allowed to be there."""
    versions: Callable[[], Versions | None] = lambda: None
    """Keeps what a file holds before it is changed, where somebody may want to take the change back."""

    def of(self, plan: Plan) -> Recovery:
        """Return the recovery of a tool whose `path` argument names the file."""

        def intend(keywords: Mapping[str, object], context: ToolContext) -> Mapping[str, object]:
            with self.places(context).pin(str(keywords["path"]), "write") as target:
                planned = plan(target, keywords)
            versions = self.versions()
            if versions is not None and planned.before is not None:
                versions.keep(planned.before.data, planned.before.sha256)
            return told(planned.intent, self.root) | {"root": root_digest(self.root)}

        return Recovery(intend, self._settle)

    def _settle(self, keywords: Mapping[str, object], context: ToolContext) -> ToolResult:
        assert context.intent is not None
        intent = WriteIntent.from_dict(context.intent)
        if context.intent.get("root") != root_digest(self.root):
            return ToolResult("", _ELSEWHERE.format(began=BEGAN, path=intent.path), status="unknown")
        with self.anywhere.pin(intent.path, "write") as target:
            became = settle(target, intent)
        absent = ": it does not exist" if intent.before is None else ""
        text = _TEXTS[became].format(began=BEGAN, path=intent.path, absent=absent)
        data: dict[str, object] = {"ok": became == "applied", "recovered": became, "files": [intent.path]}
        if became == "applied":
            return ToolResult("", text, data=data | {"sha256": intent.after})
        return ToolResult("", text, data=data, status="cancelled" if became == "not_applied" else "unknown")


def planned_write(target: Pinned, keywords: Mapping[str, object]) -> WritePlan:
    """Plan what `write_file` would do."""
    return plan_write(target, str(keywords["content"]), expected_sha256=_expected(keywords))


def planned_replacement(otherwise: Many) -> Plan:
    """Return what plans a replacement in a file: of all occurrences where that is said, `otherwise` as given."""

    def plan(target: Pinned, keywords: Mapping[str, object]) -> WritePlan:
        if keywords.get("patch"):
            from plait.hands.patches.draft import plan_hunks  # most calls have none
            from plait.hands.patches.patch import hunks_for

            hunks = hunks_for(str(keywords["path"]), str(keywords["patch"]))
            return plan_hunks(target, hunks, expected_sha256=_expected(keywords))[0]
        old, new = keywords.get("old_str", keywords.get("old")), keywords.get("new_str", keywords.get("new"))
        change = Replacement(str(old), str(new), "all" if keywords.get("replace_all") else otherwise)
        return plan_edit(target, [change], expected_sha256=_expected(keywords))

    return plan


def _expected(keywords: Mapping[str, object]) -> str | None:
    given = keywords.get("expected_sha256")
    return given if isinstance(given, str) else None


def as_intended(plan: WritePlan, context: ToolContext | None) -> WritePlan:
    """Return the plan under the temporary name that was recorded for the call, so that a crash leaves no other."""
    name = None if context is None or context.intent is None else context.intent.get("temporary")
    return plan.under(name) if isinstance(name, str) and is_temporary(name) else plan


def told(intent: WriteIntent, root: str | os.PathLike[str]) -> dict[str, object]:
    """Return an intent as JSON, with the file's real name where its path leads through a link."""
    real = real_name(root, intent.path)
    return intent.to_dict() | ({} if real == intent.path else {"real": real})


def real_name(root: str | os.PathLike[str], path: str) -> str:
    """Return the one name of a file in a workspace, or on the machine, whatever links its path leads through.

    It is a name only: what stands there is found anew, by the rules, when something is done to it.
    """
    top = os.fspath(root)
    real = os.path.realpath(os.path.join(top, path))
    return real.removeprefix(f"{top.rstrip('/')}/")


def root_digest(root: str | os.PathLike[str]) -> str:
    """Tell one workspace from another without writing its path into every record."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
