"""Whether a program can be seen inside a fence, with what it needs to start, and what would have to be shown.

Floor: 2. Owns: following a program's links and its first line; never: showing anything.

A fence hides what nobody named: homes, and the directories in which people install programs for themselves. A program
that starts there ends with "No such file", which does not say whose fault it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from plait.hands.fence.ground import Ground
from plait.hands.fence.policy import SandboxPolicy, is_beneath

_LINKS_MAX: Final = 16
_INTERPRETERS_MAX: Final = 4
_FIRST_LINE_BYTES: Final = 256
_PACKAGES: Final = "node_modules"
_BIN: Final = "bin"


def shows(policy: SandboxPolicy, ground: Ground, path: str) -> bool:
    """Say whether an absolute path can be read inside a fence; links in it are not followed."""
    shown = (*ground.system, *(name for _, name in ground.links), ground.prefix, policy.root, *policy.read_only_outside)
    return any(is_beneath(path, each) for each in shown)


def unseen(
    policy: SandboxPolicy, ground: Ground, program: str, *, path: str = os.defpath, cwd: str = ""
) -> tuple[str, ...]:
    """Return the directories that would have to be shown for a program to start; none for one that is not there.

    Args:
        program: as it is started: a name that is looked up on `path`, or a path, relative to `cwd`.
    """
    places = [place for place in _needed(program, path, cwd or policy.root, 0) if not shows(policy, ground, place)]
    return tuple(dict.fromkeys(_home_of(place) for place in places))


def _needed(program: str, path: str, cwd: str, depth: int) -> Iterator[str]:
    """Yield every name that is looked up on the way to a program that runs: its links, and its interpreter's."""
    found = _found(program, path, cwd)
    if found is None or depth > _INTERPRETERS_MAX:
        return
    for _ in range(_LINKS_MAX):
        yield found
        if not os.path.islink(found):
            break
        found = os.path.normpath(os.path.join(os.path.dirname(found), os.readlink(found)))
    yield os.path.realpath(found)
    interpreter = _interpreter(found)
    if interpreter:
        yield from _needed(interpreter, path, cwd, depth + 1)


def _found(program: str, path: str, cwd: str) -> str | None:
    if os.path.dirname(program):
        candidates = [os.path.normpath(os.path.join(cwd, program))]
    else:
        candidates = [os.path.join(folder, program) for folder in filter(os.path.isabs, path.split(os.pathsep))]
    return next((each for each in candidates if os.path.isfile(each)), None)


def _interpreter(path: str) -> str:
    """Return the program that a script names in its first line; empty for what is none."""
    try:
        with open(path, "rb") as file:
            first = file.read(_FIRST_LINE_BYTES).split(b"\n", 1)[0]
    except OSError:
        return ""
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if len(words) > 1 and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _home_of(path: str) -> str:
    """Return the directory that a program needs: what it was installed with stands beside its own."""
    folder = os.path.dirname(path)
    steps = path.split("/")
    if _PACKAGES in steps:
        return "/".join(steps[: steps.index(_PACKAGES) + 1])
    above = os.path.dirname(folder)
    is_own = os.path.basename(folder) == _BIN and os.path.basename(above) != ".local"
    return above if is_own and not is_beneath(os.path.expanduser("~"), above) else folder
