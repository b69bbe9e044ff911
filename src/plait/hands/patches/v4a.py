"""Patches in the V4A notation: `*** Begin Patch`, sections for files, hunks that are found by their context.

Floor: 2. Owns: reading that notation, and the grammar of it for models that are held to one; never: a file.
"""

from __future__ import annotations

import re
from typing import Final, cast

from plait.core.errors import Refusal
from plait.hands.patches.parts import FilePatch, Hunk, Mark, Patch, PatchLine, not_understood

GRAMMAR: Final = r"""start: begin_patch file+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

file: add_file | delete_file | update_file
add_file: "*** Add File: " path LF add_line+
delete_file: "*** Delete File: " path LF
update_file: "*** Update File: " path LF move? change?

move: "*** Move to: " path LF
change: (anchor | hunk_line)+ end_of_file?
anchor: ("@@" | "@@ " /[^\n]+/) LF
hunk_line: ("+" | "-" | " ") /[^\n]*/ LF
add_line: "+" /[^\n]*/ LF
end_of_file: "*** End of File" LF
path: /[^\n]+/

%import common.LF
"""
"""V4A as a Lark grammar."""

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_SECTION: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: ?(.*)")
_ANY_SECTION: Final = re.compile(r"\*\*\* (?:Add|Update|Delete) File:")
_MOVE: Final = re.compile(r"\*\*\* Move to: ?(.*)")
_END_OF_FILE: Final = "*** End of File"
_NUMBERS: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_NO_END: Final = "\\ No newline"


def is_v4a(text: str, lines: list[str]) -> bool:
    """Say whether a patch is in this notation: by its frame, or by a section where the frame was forgotten."""
    return any(line.rstrip() == _BEGIN for line in lines) or _ANY_SECTION.search(text) is not None


def parse_v4a(lines: list[str]) -> Patch:
    """Read the lines of a patch. Raises `Refusal`."""
    files: list[FilePatch] = []
    at = _next(lines, _BEGIN, 0)
    if at is None:
        raise Refusal("INVALID_INPUT", f"the patch has no line {_BEGIN!r}", hint=f"begin it with {_BEGIN!r}")
    while at is not None:
        end = _next(lines, _END, at + 1)
        if end is None:
            raise Refusal(
                "INVALID_INPUT",
                f"the patch has no line {_END!r}: it may have been cut off",
                hint="send all of it again, in parts where it is long",
            )
        reader = _Reader(lines, at + 1, end)
        while (found := reader.section()) is not None:
            files.append(found)
        at = _next(lines, _BEGIN, end + 1)
        rest = range(end + 1, len(lines) if at is None else at)
        behind = next((number for number in rest if lines[number].strip()), None)
        if behind is not None:
            raise not_understood(behind + 1, f"stands behind {_END!r}", "put everything in front of it")
    if not files:
        raise Refusal("INVALID_INPUT", "the patch names no file", hint="begin a section: *** Update File: path")
    return tuple(files)


def _next(lines: list[str], mark: str, at: int) -> int | None:
    """Return where a mark stands next, at the beginning of its line: with a blank in front it is a line of context."""
    return next((number for number in range(at, len(lines)) if lines[number].rstrip() == mark), None)


def parse_hunks(lines: list[str]) -> tuple[Hunk, ...]:
    """Read hunks that stand alone, without anything around them. Raises `Refusal`."""
    reader = _Reader(lines, 0, len(lines))
    hunks = reader.hunks("the file")
    reader.refuse_rest()
    return hunks


class _Reader:
    """Goes through the lines of a patch."""

    def __init__(self, lines: list[str], at: int, end: int) -> None:
        self._lines = lines
        self._at = at
        self._end = end

    def section(self) -> FilePatch | None:
        """Read what is said of the next file; None at the end."""
        while self._at < self._end and not self._lines[self._at].strip():
            self._at += 1
        if self._at >= self._end:
            return None
        begin = self._at + 1
        found = _SECTION.fullmatch(self._lines[self._at].rstrip())
        if found is None:
            raise not_understood(
                begin,
                f"is {self._lines[self._at]!r}, where a file should be named",
                "a section begins with *** Add File: path, *** Update File: path or *** Delete File: path",
            )
        self._at += 1
        kind, path = found[1], found[2].strip()
        if not path:
            raise not_understood(begin, "names no file", "write the path behind the colon")
        if kind == "Add":
            return FilePatch("add", path, begin, content=self._content(path))
        if kind == "Delete":
            return FilePatch("delete", path, begin)
        move_to = self._move()
        hunks = self.hunks(path)
        if not hunks and move_to is None:
            raise not_understood(begin, f"begins a change of {path!r} without any", "give at least one hunk")
        return FilePatch("update", path, begin, hunks, move_to=move_to)

    def hunks(self, path: str) -> tuple[Hunk, ...]:
        """Read the hunks up to the next section."""
        hunks: list[Hunk] = []
        while self._at < self._end and not _SECTION.match(self._lines[self._at]):
            hunk = self._hunk(len(hunks) + 1, path)
            if hunk is not None:
                hunks.append(hunk)
        return tuple(hunks)

    def refuse_rest(self) -> None:
        """Refuse what stands behind the hunks."""
        if self._at < self._end:
            raise not_understood(self._at + 1, "names a file", "give the hunks of one file, and nothing else")

    def _move(self) -> str | None:
        found = _MOVE.fullmatch(self._lines[self._at].rstrip()) if self._at < self._end else None
        if found is None:
            return None
        self._at += 1
        if not found[1].strip():
            raise not_understood(self._at, "names no file", "write the new path behind the colon")
        return found[1].strip()

    def _content(self, path: str) -> str:
        added: list[str] = []
        gap = 0
        ends = "\n"
        while self._at < self._end:
            line = self._lines[self._at]
            if line.startswith("+"):
                added += [""] * gap
                added.append(line[1:])
                gap = 0
            elif line.startswith(_NO_END) and added:
                ends = ""
            elif line.strip():
                break
            else:
                gap += 1
            self._at += 1
        if self._at < self._end and not self._lines[self._at].startswith("*** "):
            raise not_understood(
                self._at + 1, f"belongs to the new file {path!r} and lacks its '+'", "begin every line of it with '+'"
            )
        return "\n".join(added) + ends if added else ""

    def _hunk(self, number: int, path: str) -> Hunk | None:
        begin = self._at + 1
        anchors, line = self._heading()
        body: list[PatchLine] = []
        is_at_end = False
        while self._at < self._end and not self._lines[self._at].startswith("@@"):
            text = self._lines[self._at]
            if text.rstrip() == _END_OF_FILE:
                is_at_end = True
                self._at += 1
                break
            if text.startswith("*** "):
                break
            self._at += 1
            _take(body, text, self._at, path)
        is_stuck = self._at < self._end and self._at + 1 == begin
        if is_stuck:
            raise not_understood(begin, f"is {self._lines[self._at]!r}", "this stands in no section")
        if all(each.is_implied for each in body):
            return None
        return Hunk(tuple(body), number, begin, anchors, line, is_at_end)

    def _heading(self) -> tuple[tuple[str, ...], int | None]:
        """Read the `@@` lines above a hunk: text to look for, or numbers as in a unified diff."""
        anchors: list[str] = []
        line: int | None = None
        while self._at < self._end and self._lines[self._at].startswith("@@"):
            text = self._lines[self._at].rstrip("\r")
            numbers = _NUMBERS.match(text)
            if numbers is not None:
                line = int(numbers[1])
            elif anchor := text[2:].strip().removesuffix("@@").rstrip():
                anchors.append(anchor)
            self._at += 1
        return tuple(anchors), line


def _take(body: list[PatchLine], text: str, number: int, path: str) -> None:
    """Add one line of the patch to a hunk."""
    if text.startswith(_NO_END):
        if body:
            last = body.pop()
            body.append(PatchLine(last.mark, last.text, has_end=False))
    elif not text.rstrip("\r"):
        body.append(PatchLine(" ", text, is_implied=True))
    elif text[0] in " +-":
        body.append(PatchLine(cast(Mark, text[0]), text[1:]))
    else:
        raise not_understood(
            number,
            f"has no mark in the change of {path!r}: {text[:80]!r}",
            "begin every line of a hunk with ' ' (stays), '-' (goes) or '+' (comes)",
        )
