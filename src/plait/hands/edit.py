"""Edits and writes in two phases: first what would become of a file, then the change itself.

Floor: 2. Owns: the new content, its digests and the intent to record; never: who allows it.

A caller that changes a file holds its lock (`FileLocks.hold`) from the plan to the end of `apply`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from plait.core.errors import Refusal
from plait.hands import textfile
from plait.hands.atomic import AtomicWrite, Before, Mode, is_temporary, is_unchanged, temporary_name
from plait.hands.diff import DiffSummary, summarise, unified
from plait.hands.edit_hints import why_not_found
from plait.hands.git_metadata import refuse_git_metadata
from plait.hands.near_match import How, find_near
from plait.hands.refusals import refusal_from
from plait.hands.textfile import Newlines, Span, TextFile
from plait.hands.workspace import Pinned, refuse_unless_regular

EDITED_BYTES_MAX: Final = 64 * 1024 * 1024
_LINES_NAMED_MAX: Final = 20
_CHUNK_BYTES: Final = 1 << 20

Many = Literal["first", "all", "refuse"]
"""What to do when a snippet occurs more than once."""
Settled = Literal["applied", "not_applied", "changed"]
"""What became of an intent: done, never done, or somebody else changed the file since."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One literal snippet and what takes its place."""

    old: str
    new: str
    many: Many = "refuse"


@dataclass(frozen=True, slots=True)
class Replaced:
    """How often a snippet was there, how many were replaced, and where."""

    occurrences: int
    replaced: int
    first_line: int
    left_lines: tuple[int, ...] = ()
    """Lines of those that were not replaced, as far as they are named."""
    how: How = ""
    """In what the snippet and the place differed, where it was taken for the only one that can be meant."""


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """What is about to happen to a file: enough to say later whether it did."""

    path: str
    before: str | None
    """sha256 of the content before, None when there was no file."""
    after: str | None
    """sha256 of the content afterwards, None when the file is removed."""
    temporary: str
    mode: int | None = None
    """The file's permissions before, where the change does not keep them."""
    directories: tuple[str, ...] = ()
    """Directories that are made for it, each after the one above it."""

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        data: dict[str, object] = {
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "temporary": self.temporary,
        }
        if self.mode is not None:
            data["mode"] = self.mode
        if self.directories:
            data["directories"] = list(self.directories)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Read back what `to_dict` gave."""
        before, after = data["before"], data["after"]
        mode, directories = data.get("mode"), data.get("directories")
        return cls(
            str(data["path"]),
            None if before is None else str(before),
            None if after is None else str(after),
            str(data.get("temporary", "")),
            mode if isinstance(mode, int) else None,
            tuple(map(str, directories)) if isinstance(directories, (list, tuple)) else (),
        )


@dataclass(frozen=True, slots=True)
class Version:
    """The content of a file at one moment."""

    data: bytes
    sha256: str
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Written:
    """What `apply` did."""

    path: str
    sha256: str
    size_bytes: int
    is_new: bool
    created_directories: tuple[str, ...]
    summary: DiffSummary


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A change that is ready to be made: nothing on disk has been touched yet."""

    target: Pinned
    data: bytes
    before: Version | None
    intent: WriteIntent
    texts: tuple[str, str]
    """The text before and after; empty where there was none."""
    created_directories: tuple[str, ...]
    replaced: tuple[Replaced, ...] = ()
    mode: Mode | None = None
    """Gives the file its permissions, where they are to be others than before."""

    @property
    def is_new(self) -> bool:
        """True when there was no file."""
        return self.before is None

    @property
    def summary(self) -> DiffSummary:
        """What changes, counted; computed when it is asked for."""
        return summarise(self.target.shown, *self.texts)

    def under(self, temporary: str) -> Self:
        """Return the plan with another name for the file that is written first: the one that was recorded."""
        return replace(self, intent=replace(self.intent, temporary=temporary))

    @property
    def is_change(self) -> bool:
        """False when the file already holds exactly this."""
        return self.intent.before != self.intent.after

    def diff(self, *, lines_max: int = 400) -> str:
        """Return the change as a bounded unified diff; empty when the old content is no text."""
        try:
            old = textfile.decode(self.before.data, self.target.shown).readable if self.before else ""
            new = textfile.decode(self.data, self.target.shown).readable
        except Refusal:
            return ""
        return unified(self.target.shown, old, new, lines_max=lines_max)

    def apply(self, *, before: Before | None = None) -> Written:
        """Make the change, whole or not at all. Raises `Refusal`; `CONFLICT` when the file is not what it was.

        Durability: when it returns, the new content is on disk under its name. `before` is for tests.
        """
        old = self.before.status if self.before else None
        write = AtomicWrite(self.target, self.data, old, self.intent.temporary, mode=self.mode, before=before)
        status = write.run()
        assert self.intent.after is not None, "a file that is written has a content"
        return Written(
            self.target.shown,
            self.intent.after,
            status.st_size,
            self.is_new,
            self.created_directories,
            self.summary,
        )


def plan_write(
    target: Pinned,
    content: str,
    *,
    expected_sha256: str | None = None,
    overwrites: bool = True,
    keeps_form: bool = True,
) -> WritePlan:
    """Plan to make `content` the whole content of a file.

    `overwrites=False` refuses a file that exists; `keeps_form` gives the new content the byte order mark, encoding
    and CRLF of the old one. Raises `Refusal`.
    """
    textfile.require_text(content, "the content")
    refuse_git_metadata(target)
    before = read_version(target)
    check_expected(target, before, expected_sha256)
    if before is not None and not overwrites:
        raise Refusal(
            "CONFLICT",
            f"{target.shown!r} exists already",
            hint="say so explicitly to replace it, or edit it instead",
            details={"path": target.shown, "sha256": before.sha256},
        )
    old = _form(before, target.shown)
    data = _in_form(content, old) if keeps_form and old else content.encode()
    return plan_data(target, before, data, (old.readable if old else "", content))


def plan_edit(
    target: Pinned,
    replacements: Sequence[Replacement],
    *,
    expected_sha256: str | None = None,
    newlines: Newlines = "fit",
) -> WritePlan:
    """Plan literal replacements, each on the result of the one before: all of them or none.

    A snippet that is there only but for blanks or typography, and only once, is taken for that place (`near_match`),
    unless newlines are literal.

    Raises `Refusal`: `NOT_FOUND` without a file, `CONFLICT` for a snippet that is not there or (with `refuse`) there
    more than once, with the count and line numbers in its details.
    """
    refuse_git_metadata(target)
    before = read_version(target)
    if before is None:
        raise Refusal(
            "NOT_FOUND", f"not a file: {target.shown!r} does not exist", hint="list the directory, or write the file"
        )
    check_expected(target, before, expected_sha256)
    form = textfile.decode(before.data, target.shown)
    text = form.text
    done: list[Replaced] = []
    for number, replacement in enumerate(replacements, 1):
        label = f"snippet {number} of {len(replacements)}" if len(replacements) > 1 else "the snippet"
        _check_replacement(replacement, form, target.shown, label)
        text, replaced = _replace(text, replacement, newlines, (target.shown, label))
        done.append(replaced)
    after = TextFile(text, form.encoding, form.mark, form.is_valid)
    return plan_data(target, before, form.encode(text), (form.readable, after.readable), tuple(done))


def settle(target: Pinned, intent: WriteIntent) -> Settled:
    """Say what became of an intent whose outcome was lost, and remove the temporary file it may have left.

    Reads the file as it is now; changes nothing else. Raises `Refusal` when it cannot be read.
    """
    if not target.missing and is_temporary(intent.temporary):
        with suppress(OSError):
            os.unlink(intent.temporary, dir_fd=target.fd)
    status = target.status()
    if status is not None and not stat.S_ISREG(status.st_mode):
        return "changed"
    now = _digest(target)
    if now == intent.after:
        return "applied"
    return "not_applied" if now == intent.before else "changed"


def _replace(text: str, replacement: Replacement, newlines: Newlines, where: tuple[str, str]) -> tuple[str, Replaced]:
    shown, label = where
    spans = textfile.find_spans(text, replacement.old, newlines)
    near = find_near(text, replacement.old, replacement.new) if newlines == "fit" and not spans else None
    if near is not None:
        new_text = textfile.replace_spans(text, [near.span], near.new)
        return new_text, Replaced(1, 1, textfile.line_of(text, near.span.start), (), near.how)
    if not spans:
        raise Refusal(
            "CONFLICT",
            f"{label} is not in {shown!r}",
            hint=why_not_found(text, replacement.old),
            details={"path": shown, "occurrences": 0},
        )
    if len(spans) > 1 and replacement.many == "refuse":
        lines = _lines(text, spans)
        raise Refusal(
            "CONFLICT",
            f"{label} is not unique: it is {len(spans)} times in {shown!r}, at lines {', '.join(map(str, lines))}",
            hint="add lines around it until it is the only one, or replace all",
            details={"path": shown, "occurrences": len(spans), "lines": lines},
        )
    used = spans if replacement.many == "all" else spans[:1]
    if len(text) + len(used) * len(replacement.new) > EDITED_BYTES_MAX:
        raise Refusal("TOO_LARGE", f"{shown!r} would grow beyond {EDITED_BYTES_MAX} bytes", hint="replace less")
    new_text = textfile.replace_spans(text, used, replacement.new)
    left = _lines(text, spans[len(used) :])
    return new_text, Replaced(len(spans), len(used), textfile.line_of(text, spans[0].start), tuple(left))


def _lines(text: str, spans: Sequence[Span]) -> list[int]:
    return [textfile.line_of(text, span.start) for span in spans[:_LINES_NAMED_MAX]]


def _check_replacement(replacement: Replacement, form: TextFile, shown: str, label: str) -> None:
    textfile.require_text(replacement.old, label)
    textfile.require_text(replacement.new, f"the text for {label}")
    if not replacement.old:
        raise Refusal("INVALID_INPUT", f"{label} is empty", hint="give the exact text to replace")
    if replacement.old == replacement.new:
        raise Refusal("INVALID_INPUT", f"{label} and its replacement are the same", hint="nothing would change")
    if "\0" in replacement.new:
        raise Refusal("INVALID_INPUT", f"the text for {label} has a NUL character", hint="leave it out")
    if not form.is_valid and not replacement.new.isascii():
        raise Refusal(
            "UNSUPPORTED_CONTENT",
            f"{shown!r} is not UTF-8, so only ASCII text can be put into it",
            hint="convert the file first (iconv -f ISO-8859-1 -t UTF-8), or edit it with a shell command",
        )


def plan_data(
    target: Pinned, before: Version | None, data: bytes, texts: tuple[str, str], replaced: tuple[Replaced, ...] = ()
) -> WritePlan:
    """Plan to give a file these bytes; `texts` are what it holds before and after, for the diff."""
    above = target.shown.split("/")[: -1 - len(target.missing)]
    created = tuple("/".join((*above, *target.missing[: count + 1])) for count in range(len(target.missing)))
    held, left = before.sha256 if before else None, hashlib.sha256(data).hexdigest()
    intent = WriteIntent(target.shown, held, left, temporary_name(), directories=created)
    return WritePlan(target, data, before, intent, texts, created, replaced)


def _form(before: Version | None, shown: str) -> TextFile | None:
    """How the file was written down, or None when it is new or no text."""
    if before is None:
        return None
    try:
        return textfile.decode(before.data, shown)
    except Refusal:
        return None


def _in_form(content: str, old: TextFile) -> bytes:
    if old.newline == "\r\n" and "\r\n" not in content:
        content = textfile.with_newlines(content, "\r\n")
    if not old.is_valid:
        return content.encode()
    return old.encode(content.removeprefix("\ufeff") if old.mark else content)


def check_expected(target: Pinned, before: Version | None, expected_sha256: str | None) -> None:
    """Refuse a file that is not the version that the caller has seen."""
    now = before.sha256 if before else None
    if expected_sha256 is not None and expected_sha256.lower() != now:
        raise Refusal(
            "CONFLICT",
            f"{target.shown!r} is not the version that was expected",
            hint="read it again, then repeat the change",
            details={"path": target.shown, "expected_sha256": expected_sha256, "sha256": now},
        )


def read_version(target: Pinned) -> Version | None:
    """Read the whole file at a pinned name, or None when there is none; bounded by `EDITED_BYTES_MAX`."""
    status = target.status()
    if status is None:
        return None
    refuse_unless_regular(status, target.shown)
    with target.open_file() as opened:
        if opened.status.st_size > EDITED_BYTES_MAX:
            raise Refusal(
                "TOO_LARGE",
                f"{target.shown!r} has {opened.status.st_size} bytes",
                hint=f"files of up to {EDITED_BYTES_MAX} bytes are edited; use a shell command for this one",
            )
        try:
            data = _read_all(opened.fd, EDITED_BYTES_MAX)
            after = os.fstat(opened.fd)
        except OSError as error:
            raise refusal_from(error, target.shown, "read") from error
        if not is_unchanged(opened.status, after) or len(data) != after.st_size:
            raise Refusal("CONFLICT", f"{target.shown!r} is being changed by somebody else", hint="try again")
        return Version(data, hashlib.sha256(data).hexdigest(), after)


def _read_all(fd: int, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(fd, min(_CHUNK_BYTES, bytes_max + 1 - size)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _digest(target: Pinned) -> str | None:
    if target.status() is None:
        return None
    with target.open_file() as opened:
        digest = hashlib.sha256()
        while piece := os.read(opened.fd, _CHUNK_BYTES):
            digest.update(piece)
        return digest.hexdigest()
