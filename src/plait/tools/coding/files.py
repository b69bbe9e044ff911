"""Reading, writing and editing by the strict rules: relative paths, no links, UTF-8, nothing before a yes.

Floor: 3. Owns: what is asked and what is answered; never: the walk, the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing.change import WritePlan
from plait.hands.editing.edit import plan_edit, plan_write
from plait.hands.editing.locks import FileLocks
from plait.hands.editing.snippets import Replacement
from plait.hands.reading import Lines, Window, read_lines
from plait.hands.workspace import Pinned, Purpose, Workspace
from plait.kernel.tools import Recovery, ToolContext
from plait.tools.answer import Answer
from plait.tools.coding.limits import CodingLimits
from plait.tools.coding.permission import Permission
from plait.tools.file_recovery import FileRecovery, Plan, as_intended
from plait.tools.files import changed, shown_lines
from plait.tools.masked import refuse_masks, told_of_masks
from plait.tools.redaction import Redaction

_UTF8: Final = frozenset({"utf-8", "utf-8-sig"})


@dataclass(frozen=True, slots=True)
class CodingFiles:
    """The strict file tools; each raises `Refusal` for what it will not do."""

    workspace: Workspace
    permission: Permission
    limits: CodingLimits
    locks: FileLocks
    redaction: Redaction = field(default_factory=Redaction)
    """What a model that reads and writes them may not have been shown."""

    def read_file(self, path: str, offset: int = 1, limit: int | None = None) -> Answer:
        """Return lines of a UTF-8 file, with the digest of all of it and where to go on."""
        lines_max = self.limits.read_lines if limit is None else min(limit, self.limits.read_lines)
        window = Window(offset, lines_max, self.limits.read_bytes)
        window.check()
        with self._pin(path, "read") as pinned:
            self.permission.require("read_file", path=path, offset=offset, limit=lines_max)
            _require_in_place(pinned)
            with pinned.open_file() as opened:
                lines = read_lines(opened, window)
        if lines.encoding not in _UTF8:
            raise _not_utf8(path)
        data: dict[str, object] = {
            "sha256": lines.sha256,
            "size_bytes": lines.size_bytes,
            "total_lines": lines.total_lines,
            "truncated": lines.has_more,
        }
        if lines.has_more and (last := _last_shown(lines)) < lines.total_lines:
            data["next_offset"] = last + 1
        return shown_lines(lines), data

    def write_file(
        self,
        path: str,
        content: str,
        overwrite: bool = False,
        expected_sha256: str | None = None,
        *,
        call: ToolContext | None = None,
    ) -> Answer:
        """Create a file, or replace one when that is said; missing directories are made and named."""
        if len(content.encode("utf-8", "surrogatepass")) > self.limits.write_bytes:
            raise Refusal("TOO_LARGE", "the content is too long", hint=f"write up to {self.limits.write_bytes} bytes")
        with self._pin(path, "write") as target, self.locks.hold(target):
            plan = as_intended(_write(target, content, overwrite, expected_sha256), call)
            refuse_masks(self.redaction, path, [plan.texts])
            self._require_change("write_file", plan)
            diff, written = plan.diff(), plan.apply()
        return f"OK: wrote {written.size_bytes} bytes to {path}", changed(path, written, diff)

    def edit_file(
        self,
        path: str,
        old_text: str,
        new_text: str,
        replace_all: bool = False,
        expected_sha256: str | None = None,
        *,
        call: ToolContext | None = None,
    ) -> Answer:
        """Put one text literally in the place of another; an ambiguous snippet is refused with its count."""
        with self._pin(path, "write") as target, self.locks.hold(target):
            _require_utf8(target, path)
            with told_of_masks(self.redaction, old_text):
                plan = as_intended(_edit(target, old_text, new_text, replace_all, expected_sha256), call)
            refuse_masks(self.redaction, path, [plan.texts])
            count = plan.replaced[0].replaced
            self._require_change("edit_file", plan, replacements=count)
            diff, written = plan.diff(), plan.apply()
        return f"OK: replaced {count} occurrence(s) in {path}", changed(path, written, diff) | {"replacements": count}

    def recovery(self, plan: Plan) -> Recovery:
        """Return how a change whose end nobody saw is looked after; the host is not asked for that."""
        return FileRecovery(self.workspace.root, lambda _call: self.workspace, self.workspace).of(plan)

    def _pin(self, path: str, purpose: Purpose) -> Pinned:
        """Find a path that policy allows; nothing below a refused directory is opened."""
        self.permission.require_path(self.workspace.locate(path).shown)
        return self.workspace.pin(path, purpose)

    def _require_change(self, tool: str, plan: WritePlan, **more: object) -> None:
        if len(plan.data) > self.limits.write_bytes:
            raise Refusal("TOO_LARGE", "the file would be too long", hint=f"up to {self.limits.write_bytes} bytes")
        self.permission.require(
            tool,
            path=plan.target.shown,
            created=plan.is_new,
            created_directories=list(plan.created_directories),
            sha256=plan.intent.after,
            size_bytes=len(plan.data),
            **more,
        )


def planned_write(target: Pinned, keywords: Mapping[str, object]) -> WritePlan:
    """Plan what `write_file` would do."""
    expected = keywords.get("expected_sha256")
    return _write(
        target, str(keywords["content"]), bool(keywords.get("overwrite")), None if expected is None else str(expected)
    )


def planned_edit(target: Pinned, keywords: Mapping[str, object]) -> WritePlan:
    """Plan what `edit_file` would do."""
    expected, every = keywords.get("expected_sha256"), bool(keywords.get("replace_all"))
    old, new = str(keywords["old_text"]), str(keywords["new_text"])
    return _edit(target, old, new, every, None if expected is None else str(expected))


def _write(target: Pinned, content: str, overwrites: bool, expected: str | None) -> WritePlan:
    return plan_write(target, content, expected_sha256=expected, overwrites=overwrites, keeps_form=False)


def _edit(target: Pinned, old: str, new: str, every: bool, expected: str | None) -> WritePlan:
    change = Replacement(old, new, "all" if every else "refuse")
    return plan_edit(target, [change], expected_sha256=expected, newlines="literal")


def _last_shown(lines: Lines) -> int:
    """Return the last line that is shown whole; one that alone is too long counts as shown."""
    is_half = lines.is_cut and not lines.text.endswith("\n") and "\n" in lines.text
    return lines.last_line - 1 if is_half else lines.last_line


def _require_in_place(pinned: Pinned) -> None:
    if not pinned.is_in_place():
        raise Refusal("CONFLICT", f"{pinned.shown!r} was moved meanwhile", hint="try again")


def _require_utf8(target: Pinned, path: str) -> None:
    with target.open_file() as opened:
        if read_lines(opened, Window(1, 1, 1)).encoding not in _UTF8:
            raise _not_utf8(path)


def _not_utf8(path: str) -> Refusal:
    return Refusal(
        "UNSUPPORTED_CONTENT",
        f"{path!r} is not UTF-8",
        hint="only UTF-8 text is read and edited",
        details={"path": path},
    )
