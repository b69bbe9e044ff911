"""Reading a patch: which files it adds, changes, moves and deletes, line by line.

Floor: 2. Owns: which of the two notations one is in, and how large it may be; never: the notations (`v4a`, `unified`).
"""

from __future__ import annotations

import os.path
import re
from typing import Final

from plait.core.errors import Refusal
from plait.hands.editing.textfile import require_text
from plait.hands.patches.parts import Hunk, Patch
from plait.hands.patches.unified import parse_unified
from plait.hands.patches.v4a import is_v4a, parse_hunks, parse_v4a

PATCH_CHARS_MAX: Final = 8 * 1024 * 1024
FILES_MAX: Final = 1_000
HUNKS_MAX: Final = 10_000
"""Of one file."""

_FENCED: Final = re.compile(r"\s*```[\w-]*\r?\n(.*?\n)```\s*", re.DOTALL)
_HEREDOC: Final = re.compile(r"\s*(?:apply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1\r?\n(.*?\n)\2\s*", re.DOTALL)


def parse_patch(text: str) -> Patch:
    """Read a patch in V4A or as a unified diff. Raises `Refusal` with the line at which it cannot be understood."""
    require_text(text, "the patch")
    if len(text) > PATCH_CHARS_MAX:
        raise Refusal("TOO_LARGE", f"the patch has {len(text)} characters", hint="send it in parts")
    lines = patch_lines(unwrapped(text))
    files = parse_v4a(lines) if is_v4a(text, lines) else parse_unified(lines)
    if len(files) > FILES_MAX:
        raise Refusal("TOO_LARGE", f"the patch is about {len(files)} files", hint="send it in parts")
    many = next((each for each in files if len(each.hunks) > HUNKS_MAX), None)
    if many is not None:
        raise Refusal("TOO_LARGE", f"the patch has {len(many.hunks)} hunks for {many.path!r}", hint="send it in parts")
    return files


def paths_in(text: str) -> tuple[str, ...]:
    """Return every path that a patch touches, each once; none where it cannot be understood, and is refused later."""
    try:
        return tuple(dict.fromkeys(path for each in parse_patch(text) for path in each.paths))
    except Refusal:
        return ()


def hunks_for(path: str, patch: str) -> tuple[Hunk, ...]:
    """Return the hunks of a patch that is to change one file and nothing else. Raises `Refusal`."""
    lines = patch_lines(unwrapped(patch))
    if not any(line.startswith(("*** ", "--- ", "diff --git ")) for line in lines):
        hunks = parse_hunks(lines)
    else:
        each, *more = parse_patch(patch)
        if more or not _is_same(path, each.path) or each.kind != "update" or each.move_to is not None:
            raise Refusal(
                "INVALID_INPUT",
                f"the patch is about more than a change of {path!r}",
                hint="give one *** Update File section for this path; apply_patch takes any other patch",
                details={"path": path},
            )
        hunks = each.hunks
    if not hunks:
        raise Refusal("INVALID_INPUT", "the patch has no hunk", hint="give lines with ' ', '-' and '+' in front")
    return hunks


def _is_same(path: str, other: str) -> bool:
    """Say whether two spellings can mean one file: equal, or one with more directories in front."""
    one, two = (f"/{os.path.normpath(each)}" for each in (path, other))
    return one.endswith(two) or two.endswith(one)


def unwrapped(text: str) -> str:
    """Return a patch without the fence or the shell's here-document that models put around it."""
    for wrapping, group in ((_FENCED, 1), (_HEREDOC, 3)):
        found = wrapping.fullmatch(text)
        if found is not None:
            return found[group]
    return text


def patch_lines(text: str) -> list[str]:
    """Return the lines of a patch; one that ends all of its lines with CRLF says nothing about a file's lines."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines and all(line.endswith("\r") for line in lines):
        return [line[:-1] for line in lines]
    return lines
