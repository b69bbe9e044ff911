"""What writing a file, or replacing text in it, would make of it: changes that are ready to be made.

Floor: 2. Owns: the new content in the form of the old; never: the change itself (`change`), or who allows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from plait.core.errors import Refusal
from plait.hands.editing import textfile
from plait.hands.editing.change import Version, WritePlan, check_expected, existing_version, plan_data, read_version
from plait.hands.editing.snippets import Replaced, Replacement, check_replacement, replace_snippet
from plait.hands.editing.textfile import Newlines, TextFile
from plait.hands.git_metadata import refuse_git_metadata
from plait.hands.workspace import Pinned


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

    Raises `Refusal`: `NOT_FOUND` without a file, and what `replace_snippet` refuses.
    """
    before = existing_version(target, expected_sha256)
    form = textfile.decode(before.data, target.shown)
    text = form.text
    done: list[Replaced] = []
    for number, replacement in enumerate(replacements, 1):
        label = f"snippet {number} of {len(replacements)}" if len(replacements) > 1 else "the snippet"
        check_replacement(replacement, form, target.shown, label)
        text, replaced = replace_snippet(text, replacement, newlines, (target.shown, label))
        done.append(replaced)
    after = TextFile(text, form.encoding, form.mark, form.is_valid)
    return plan_data(target, before, form.encode(text), (form.readable, after.readable), tuple(done))


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
