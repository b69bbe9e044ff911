"""A file that a patch is about to change: what it comes to, hunk by hunk.

Floor: 2. Owns: its text on the way, its form and its mode; never: where a hunk belongs (`patched`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing import textfile
from plait.hands.editing.atomic import Mode
from plait.hands.editing.change import Version, WritePlan, existing_version, plan_data
from plait.hands.editing.textfile import TextFile
from plait.hands.patches.parts import Hunk
from plait.hands.patches.patched import patched
from plait.hands.workspace import Pinned

_EXECUTE: Final = 0o111
_READ: Final = 0o444


@dataclass
class Draft:
    """A file on its way."""

    path: str
    target: Pinned
    before: Version
    form: TextFile | None = None
    text: str | None = None
    """None for one whose content stays as it is."""
    notes: list[str] = field(default_factory=list)
    is_executable: bool | None = None

    def apply(self, hunks: Sequence[Hunk], shown: str) -> None:
        """Change the text by hunks. Raises `Refusal` for what the file cannot hold, or does not."""
        if self.form is None or self.text is None:
            self.form = with_mark(textfile.decode(self.before.data, shown))
            self.text = self.form.text
        for hunk in hunks:
            for line in hunk.lines:
                if line.mark == "+":
                    check_new(line.text, shown)
                    self.form.require_fitting(line.text, shown)
        made = patched(self.text, hunks, shown)
        textfile.require_room(len(made.text), shown, "add less")
        self.text = made.text
        self.notes += made.notes

    def outcome(self) -> tuple[bytes, tuple[str, str]]:
        """Return the bytes that the file comes to, and its text before and after."""
        if self.form is None or self.text is None:
            text = self.before.readable(self.target.shown)
            return self.before.data, (text, text)
        after = replace(self.form, text=self.text)
        return self.form.encode(self.text), (self.form.readable, after.readable)

    def plan(self) -> WritePlan:
        """Return the change of the file where it stands."""
        plan = plan_data(self.target, self.before, *self.outcome())
        if self.is_executable is None:
            return plan
        intent = replace(plan.intent, mode=self.before.mode)
        return replace(plan, mode=executable(self.is_executable), intent=intent)


def plan_hunks(
    target: Pinned, hunks: Sequence[Hunk], *, expected_sha256: str | None = None
) -> tuple[WritePlan, tuple[str, ...]]:
    """Plan hunks for one file, and return what is worth saying of how they were placed. Raises `Refusal`."""
    shown = target.shown
    draft = Draft(shown, target, existing_version(target, expected_sha256))
    draft.apply(hunks, shown)
    return draft.plan(), tuple(draft.notes)


def with_mark(form: TextFile) -> TextFile:
    """Return a UTF-8 text with its byte order mark as a character, because a diff shows it as one."""
    return form if form.encoding != "utf-8" or not form.mark else replace(form, text=f"\ufeff{form.text}", mark=b"")


def executable(is_executable: bool) -> Mode:
    """Give who may read a file the right to run it, or take that from everybody."""
    return (lambda mode: mode | ((mode & _READ) >> 2)) if is_executable else (lambda mode: mode & ~_EXECUTE)


def check_new(text: str, shown: str) -> None:
    """Refuse new text that would make a file binary."""
    if "\0" in text:
        raise Refusal("INVALID_INPUT", f"the new text for {shown!r} has a NUL character", hint="leave it out")
