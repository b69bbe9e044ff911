"""Reading, writing and editing files, and looking into directories.

Floor: 3. Owns: what these tools answer; never: how a file is opened, changed or compared.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing.change import WritePlan, Written
from plait.hands.editing.edit import plan_edit, plan_write
from plait.hands.editing.locks import FileLocks
from plait.hands.editing.near_match import How
from plait.hands.editing.snippets import Replaced, Replacement
from plait.hands.reading import Lines, Window, read_lines
from plait.hands.searching.listing import Listing, list_entries
from plait.kernel.tools import ToolContext
from plait.tools.answer import Answer
from plait.tools.checkpoints import Checkpointer, recording
from plait.tools.definitions import LINES_MAX, PATHS_MAX
from plait.tools.file_recovery import as_intended
from plait.tools.masked import refuse_masks, told_of_masks, window_of
from plait.tools.places import Places
from plait.tools.redaction import Redaction

_TRAILER_CHARS = 200
"""Room for the line that says how to go on."""
_NEARLY: Final[Mapping[How, str]] = {
    "": "",
    "blanks": " (matched but for blanks at the ends of lines)",
    "indentation": " (matched but for the indentation: the new text was indented like the place)",
    "characters": " (matched but for quotes, dashes or accents; the new text was written as given)",
}


@dataclass(frozen=True, slots=True)
class FileTools:
    """The file tools of one session; each answers with text and data, or raises `Refusal`."""

    places: Places
    locks: FileLocks
    chars_max: int
    """Size of a result; 0 is no limit."""
    checkpoints: Checkpointer | None = None
    """Learns of every change, so that it can be rolled back."""
    redaction: Redaction | None = None
    """What the model that reads and writes them is not shown."""

    def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> Answer:
        """Return lines of a text file, and how to go on when there are more."""
        bytes_max = max(1, self.chars_max - _TRAILER_CHARS) if self.chars_max > 0 else 1 << 26
        window = Window(1 if offset is None else offset, LINES_MAX if limit is None else limit, bytes_max)
        with self.places.open_file(path) as opened:
            lines = read_lines(opened, window)
            lines = replace(lines, text=window_of(self.redaction, opened, lines))
        data: dict[str, object] = {
            "sha256": lines.sha256,
            "total_lines": lines.total_lines,
            "size_bytes": lines.size_bytes,
            "encoding": lines.encoding,
            "newline": lines.newline,
            "truncated": lines.has_more,
        }
        return shown_lines(lines), data

    def write_file(
        self, path: str, content: str, expected_sha256: str | None = None, call: ToolContext | None = None
    ) -> Answer:
        """Make `content` the whole content of a file."""
        with self.places.pin(path, "write") as target, self.locks.hold(target):
            plan = as_intended(plan_write(target, content, expected_sha256=expected_sha256), call)
            refuse_masks(self.redaction, path, [plan.texts])
            diff, written = plan.diff(), self._apply(plan)
        text = f"OK: wrote {written.size_bytes} bytes to {path}"
        if written.is_new:
            made = ", ".join(written.created_directories)
            text += f" (new file; new directories: {made})" if made else " (new file)"
        return text, changed(path, written, diff)

    def str_replace(
        self, path: str, change: Replacement, expected_sha256: str | None = None, call: ToolContext | None = None
    ) -> Answer:
        """Replace the first occurrence of a snippet, or all; the answer says how many are left."""
        replaced, data = self._replace(path, change, expected_sha256, call)
        left = replaced.occurrences - replaced.replaced
        text = (
            f"OK: replaced {replaced.replaced} of {replaced.occurrences} occurrence(s) "
            f"({_extent(change.old)}) in {path}, line {replaced.first_line}{_NEARLY[replaced.how]}"
        )
        if left:
            where = ", ".join(map(str, replaced.left_lines)) + (", …" if left > len(replaced.left_lines) else "")
            text += f"; {left} remaining at line {where} (replace_all=true replaces every one)"
        return text, data

    def edit_file(
        self, path: str, change: Replacement, expected_sha256: str | None = None, call: ToolContext | None = None
    ) -> Answer:
        """Replace a snippet that occurs once, or every occurrence; an ambiguous one is refused."""
        replaced, data = self._replace(path, change, expected_sha256, call)
        text = f"Replaced {replaced.replaced} occurrence(s) in {path}, line {replaced.first_line}"
        return text + _NEARLY[replaced.how], data

    def _replace(
        self, path: str, change: Replacement, expected_sha256: str | None, call: ToolContext | None
    ) -> tuple[Replaced, dict[str, object]]:
        """Make one replacement; return what was replaced and the data of the change."""
        with self.places.pin(path, "write") as target, self.locks.hold(target):
            with told_of_masks(self.redaction, change.old):
                plan: WritePlan = as_intended(plan_edit(target, [change], expected_sha256=expected_sha256), call)
            refuse_masks(self.redaction, path, [plan.texts])
            diff, written = plan.diff(), self._apply(plan)
        replaced = plan.replaced[0]
        counts: dict[str, object] = {"occurrences": replaced.occurrences, "replaced": replaced.replaced}
        if replaced.how:
            counts["matched_but_for"] = replaced.how
        return replaced, changed(path, written, diff) | counts

    def _apply(self, plan: WritePlan) -> Written:
        with recording(self.checkpoints, (plan.intent, plan.before)):
            return plan.apply()

    def list_dir(self, path: str = ".") -> Answer:
        """List a directory: `d  name`, `f  name`, or `l  name` for a link, directories first."""
        marks = {"directory": "d", "link": "l"}
        found = list_entries(self.places, path, entries_max=PATHS_MAX, directories_first=True)
        return _listing(
            [f"{marks.get(entry.kind, 'f')}  {one_line(entry.name)}" for entry in found.entries], path, found
        )

    def list_names(self, path: str = ".") -> Answer:
        """List a directory: its sorted names, those of directories with a slash."""
        found = list_entries(self.places, path, entries_max=PATHS_MAX)
        names = [f"{one_line(e.name)}{'/' if e.kind == 'directory' else ''}" for e in found.entries]
        return _listing(names, path, found)

    def file_info(self, path: str) -> Answer:
        """Say what stands at a path: type, size, time, and its number of entries or lines."""
        with self.places.pin(path) as pinned:
            status = pinned.status()
            if status is None:
                raise Refusal("NOT_FOUND", f"no such path: {path!r}", hint="list the directory to see what is there")
        kind = "directory" if stat.S_ISDIR(status.st_mode) else "file" if stat.S_ISREG(status.st_mode) else "other"
        modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        data: dict[str, object] = {"path": path, "type": kind, "size": status.st_size, "modified": modified}
        if kind == "directory":
            data["entries"] = _count(list_entries(self.places, path, entries_max=1))
        elif kind == "file":
            data["lines"] = self._lines_of(path)
        return "\n".join(f"{key}: {value}" for key, value in data.items()), data

    def _lines_of(self, path: str) -> int | str:
        try:
            with self.places.open_file(path) as opened:
                return read_lines(opened, Window(1, 1, 1)).total_lines
        except Refusal as refusal:
            if refusal.refusal in {"UNSUPPORTED_CONTENT", "TOO_LARGE"}:
                return (
                    "unknown (binary)" if refusal.refusal == "UNSUPPORTED_CONTENT" else "unknown (too large to count)"
                )
            raise


def shown_lines(lines: Lines) -> str:
    """Return a window of lines as a model reads it: as they are, and a last line when the file goes on."""
    if not lines.has_more:
        return lines.text
    text, last = lines.text, lines.last_line
    if lines.is_cut and (end := text.rfind("\n")) >= 0 and not text.endswith("\n"):
        text, last = text[: end + 1], last - 1
    elif lines.is_cut and not text.endswith("\n"):
        note = f"[line {last} of {lines.total_lines} is too long and was cut; use a shell command to see all of it"
        return f"{text}\n{note}{_go_on(last, lines.total_lines)}]"
    end_of_line = "" if text.endswith("\n") or not text else "\n"
    return (
        f"{text}{end_of_line}[lines {lines.first_line}-{last} of {lines.total_lines}{_go_on(last, lines.total_lines)}]"
    )


def one_line(name: str) -> str:
    """Return a file's name as one line: quoted when it holds control characters."""
    return name if name.isprintable() else repr(name)


def changed(path: str, written: Written, diff: str) -> dict[str, object]:
    """Return the data of a change: which file, what it holds now, what was changed."""
    return {
        "ok": True,
        "files": [path],
        "diff_summary": written.summary.to_dict() | {"path": path},
        "diff": diff,
        "sha256": written.sha256,
        "size_bytes": written.size_bytes,
        "created": written.is_new,
        "created_directories": list(written.created_directories),
    }


def _go_on(last: int, total: int) -> str:
    return f"; go on with offset={last + 1}" if last < total else ""


def _extent(snippet: str) -> str:
    lines = snippet.count("\n") + (not snippet.endswith("\n"))
    return f"{lines} line(s), {len(snippet)} character(s)"


def _listing(lines: list[str], path: str, found: Listing) -> Answer:
    data: dict[str, object] = {"path": path, "total": _count(found)}
    if not lines:
        return "(empty)", data
    if found.left_out:
        lines.append(f"[{len(lines)} of {_count(found)} shown; glob finds by name]")
    return "\n".join(lines), data


def _count(found: Listing) -> int:
    return len(found.entries) + found.left_out
