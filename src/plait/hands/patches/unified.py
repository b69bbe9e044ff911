"""Patches as unified diffs, of git and of others.

Floor: 2. Owns: reading headers, paths and hunks; never: a file.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final, cast

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.patches.parts import FilePatch, Hunk, Mark, Patch, PatchLine, not_understood

_NUMBERS: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NOWHERE: Final = "/dev/null"
_PREFIXES: Final = (("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"))
"""What git puts in front of the two paths."""
_ESCAPES: Final = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPED: Final = re.compile(rb"\\([0-7]{3}|.)")


@dataclass
class _Header:
    """What stands above the hunks of a file."""

    begin: int
    is_git: bool = False
    old: str | None = None
    new: str | None = None
    renamed_from: str | None = None
    renamed_to: str | None = None
    is_new: bool = False
    is_deleted: bool = False
    mode: str | None = None
    hunks: list[Hunk] = field(default_factory=list)


def parse_unified(lines: list[str]) -> Patch:
    """Read the lines of a diff; text before and between the files is passed over. Raises `Refusal`."""
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if not _begins_file(lines, at):
            if lines[at].startswith("@@ -"):
                raise not_understood(at + 1, "begins a hunk of no file", "name the file above it: --- path, +++ path")
            at += 1
            continue
        header = _Header(at + 1)
        at = _read_header(lines, at, header)
        while at < len(lines) and lines[at].startswith("@@"):
            at = _read_hunk(lines, at, header)
        files.append(_file_of(header))
    if not files:
        raise Refusal(
            "INVALID_INPUT",
            "there is no patch in this text",
            hint="send a V4A patch (*** Begin Patch … *** End Patch) or a unified diff (--- path, +++ path, @@ … @@)",
        )
    return tuple(files)


def _begins_file(lines: list[str], at: int) -> bool:
    if lines[at].startswith("diff --git "):
        return True
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _read_header(lines: list[str], at: int, header: _Header) -> int:
    if lines[at].startswith("diff --git "):
        header.is_git = True
        header.old, header.new = _named_twice(lines[at].removeprefix("diff --git ").rstrip("\r"))
        at += 1
    while at < len(lines):
        line = lines[at].rstrip("\r")
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            header.old = _path(line[4:])
            header.new = _path(lines[at + 1][4:].rstrip("\r"))
            return at + 2
        if not header.is_git or not _take(line, at, header):
            break
        at += 1
    return at


def _take(line: str, at: int, header: _Header) -> bool:
    """Take one line of git's own header; False for a line that is none."""
    for name, what in (("rename from ", "renamed_from"), ("rename to ", "renamed_to")):
        if line.startswith(name):
            setattr(header, what, _path(line.removeprefix(name)))
            return True
    if line.startswith("new file mode "):
        header.is_new, header.mode = True, line.split()[-1]
    elif line.startswith("deleted file mode "):
        header.is_deleted = True
    elif line.startswith("new mode "):
        header.mode = line.split()[-1]
    elif line.startswith(("copy from ", "copy to ")):
        raise not_understood(at + 1, "copies a file", "add the file with its content instead")
    elif line.startswith(("GIT binary patch", "Binary files ")):
        raise Refusal(
            "UNSUPPORTED_CONTENT",
            f"line {at + 1} of the patch changes a binary file",
            hint="patch text files only; make binary files with a command",
        )
    else:
        return line.startswith(("old mode ", "index ", "similarity index ", "dissimilarity index "))
    return True


def _file_of(header: _Header) -> FilePatch:
    old, new = _without_prefixes(header)
    if old is None and new is None:
        raise not_understood(header.begin, "names no file", "write --- path and +++ path")
    hunks = tuple(header.hunks)
    is_executable = None if header.mode is None else header.mode.endswith("755")
    if header.mode is not None and header.mode[:3] not in ("100",):
        raise not_understood(header.begin, f"makes a file of mode {header.mode}", "only regular files are patched")
    if old is None or header.is_new:
        assert new is not None
        return FilePatch("add", new, header.begin, content=_content(hunks, new), is_executable=is_executable or None)
    if new is None or header.is_deleted:
        return FilePatch("delete", old, header.begin, hunks)
    source = old if header.is_git else new
    if not hunks and source == new and header.mode is None:
        raise not_understood(header.begin, f"begins a change of {new!r} without any", "give at least one hunk")
    return FilePatch(
        "update",
        source,
        header.begin,
        hunks,
        move_to=None if source == new else new,
        is_executable=is_executable,
    )


def _content(hunks: tuple[Hunk, ...], path: str) -> str:
    pieces: list[str] = []
    for hunk in hunks:
        for line in hunk.lines:
            if line.mark == "+":
                pieces.append(line.text + ("\n" if line.has_end else ""))
            elif not line.is_implied:
                raise not_understood(
                    hunk.patch_line, f"has old lines of the new file {path!r}", "a new file has '+' lines only"
                )
    return "".join(pieces)


def _without_prefixes(header: _Header) -> tuple[str | None, str | None]:
    """Return the two paths as they are in the workspace; None for no file."""
    old = None if header.old in (None, _NOWHERE) else header.old
    new = None if header.new in (None, _NOWHERE) else header.new
    if header.renamed_from is not None and header.renamed_to is not None:
        return header.renamed_from, header.renamed_to
    for before, after in _PREFIXES if header.is_git else _PREFIXES[:1]:
        has_old = old is None or old.startswith(before)
        has_new = new is None or new.startswith(after)
        if has_old and has_new and (old or new):
            return (old and old[len(before) :]), (new and new[len(after) :])
    return old, new


def _named_twice(rest: str) -> tuple[str | None, str | None]:
    """Return the two paths of a `diff --git` line, where they can be told apart."""
    if rest.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', rest)
        if end is None:
            return None, None
        return _path(end[0]), _path(rest[end.end() :].strip())
    if rest.endswith('"') and ' "' in rest:
        left, _, right = rest.partition(' "')
        return left, _path(f'"{right}')
    for at in range(len(rest)):
        left, right = rest[:at], rest[at + 1 :]
        if rest[at] == " " and (left == right or left.partition("/")[2] == right.partition("/")[2] != ""):
            return left, right
    left, _, right = rest.partition(" ")
    return left or None, right or None


def _path(text: str) -> str:
    """Return a path of a header, without quotes or a time behind it."""
    if text.startswith('"') and text.rstrip().endswith('"') and len(text.rstrip()) > 1:
        return _unquoted(text.rstrip()[1:-1])
    return text.partition("\t")[0].rstrip()


def _unquoted(text: str) -> str:
    def byte(found: re.Match[bytes]) -> bytes:
        escape = found[1].decode("latin-1")
        return bytes([int(escape, 8) & 255 if len(escape) == 3 else _ESCAPES.get(escape, ord(escape))])

    return _ESCAPED.sub(byte, text.encode()).decode("utf-8", "surrogateescape")


def _read_hunk(lines: list[str], at: int, header: _Header) -> int:
    begin = at + 1
    numbers = _NUMBERS.match(lines[at])
    if lines[at].startswith("@@@"):
        raise not_understood(begin, "is of a merge of several files", "send a diff of two versions")
    body: list[PatchLine] | None = None
    line: int | None = None
    end = at + 1
    if numbers is not None:
        line = int(numbers[1])
        counts = (int(numbers[2] or 1), int(numbers[4] or 1))
        counted = _counted(lines, at + 1, counts)
        if counted is not None:
            body, end = counted
    if body is None:
        # Models count badly: what its lines look like decides where it ends.
        body, end = _marked(lines, at + 1)
    if not body:
        raise not_understood(begin, "begins an empty hunk", "give its lines, each with ' ', '-' or '+' in front")
    header.hunks.append(Hunk(tuple(body), len(header.hunks) + 1, begin, line=line))
    return end


def _counted(lines: list[str], at: int, counts: tuple[int, int]) -> tuple[list[PatchLine], int] | None:
    """Read so many lines as the header says; None where they are not there, or more follow."""
    old, new = counts
    body: list[PatchLine] = []
    while at < len(lines) and (old > 0 or new > 0):
        taken = _line(lines[at])
        if taken is None:
            if not _unend(body, lines[at]):
                return None
        else:
            old -= taken.mark != "+"
            new -= taken.mark != "-"
            body.append(taken)
        at += 1
    if at < len(lines) and _unend(body, lines[at]):
        at += 1
    is_followed = at < len(lines) and lines[at][:1] in (" ", "+", "-") and lines[at].rstrip() != "--"
    if old or new or (is_followed and not _begins_file(lines, at)):
        return None
    return body, at


def _marked(lines: list[str], at: int) -> tuple[list[PatchLine], int]:
    """Read the lines that look like those of a hunk."""
    body: list[PatchLine] = []
    while at < len(lines) and not lines[at].startswith("@@") and not _begins_file(lines, at):
        taken = _line(lines[at])
        if taken is not None:
            body.append(taken)
        elif not _unend(body, lines[at]):
            break
        at += 1
    while body and body[-1].is_implied:
        body.pop()
    return body, at


def _line(text: str) -> PatchLine | None:
    if not text.rstrip("\r"):
        return PatchLine(" ", text, is_implied=True)
    return PatchLine(cast(Mark, text[0]), text[1:]) if text[0] in " +-" else None


def _unend(body: list[PatchLine], text: str) -> bool:
    """Take the mark that the line before has no line feed; False for anything else."""
    if not text.startswith("\\ ") or not body:
        return False
    last = body.pop()
    body.append(PatchLine(last.mark, last.text, has_end=False))
    return True
