"""What commands in a run's sandbox can read beside its folder: the repository around it, and the user's own programs.

Floor: 7. Owns: which places those are, none of which holds a home, a key or what plait keeps; never: a fence.

The file tools can read all of it anyway. Without it git would find nothing in a folder of a repository, and an
interpreter, a compiler or a test runner that was installed at home would not start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

from plait.config.places import config_home, project_root
from plait.hands.fence.policy import is_beneath
from plait.hands.secret_places import SecretPlaces
from plait.store.layout import state_home

_AT_HOME: Final = (
    *(".local/share/uv/python", ".local/share/uv/tools", ".local/share/mise", ".local/share/fnm"),
    *(".pyenv", ".rustup", ".nvm", ".volta", ".asdf"),
    *(".rbenv", ".sdkman", ".goenv", ".ghcup", ".deno", ".bun", ".local/lib"),
)
"""Where programs keep what those on the PATH lead to; beside the two of uv it keeps passwords."""
_ROOTS: Final = {"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv"}
"""Variables of programs that would look for it in the home, which is another one inside."""
_OTHERS_INSIDE: Final = ("/tmp", "/var/tmp", "/dev", "/proc", "/run", "/sys")
"""Places that are others inside."""
_HOMES: Final = ("/home", "/root", "/Users")
"""Of somebody else's home only what is on the PATH itself."""
_POINTER_CHARS_MAX: Final = 8_192
_SEEN_ANYWAY: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")


def readable_around(cwd: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute places that commands which work in `cwd` may read."""
    home = os.path.realpath(os.path.expanduser("~"))
    project = os.path.realpath(project_root(cwd))
    secret = tuple(map(os.path.realpath, (*own_places(environ), *SecretPlaces.usual(home).places)))
    closed = (home, *secret, *_OTHERS_INSIDE)
    found: dict[str, None] = {}
    for path in (project, *_linked(project), *_programs(home, project, environ)):
        is_known = any(is_beneath(path, place) for place in (cwd, *_SEEN_ANYWAY, *found))
        is_closed = any(is_beneath(place, path) for place in closed) or any(is_beneath(path, each) for each in secret)
        if not is_known and not is_closed and os.path.isdir(path):
            found[path] = None
    return tuple(found)


def variables_around() -> dict[str, str]:
    """Return the variables by which programs find what they keep at home."""
    home = os.path.expanduser("~")
    roots = {name: os.path.join(home, place) for name, place in _ROOTS.items()}
    return {name: path for name, path in roots.items() if os.path.isdir(path)}


def own_places(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return where plait's own state and configuration are."""
    return os.path.realpath(state_home(environ)), os.path.realpath(config_home(environ))


def _linked(project: str) -> Iterator[str]:
    """Yield the repository of a linked worktree, if it knows it: what the worktree itself says could be anything."""
    kind, _, place = _pointer(os.path.join(project, ".git")).partition(": ")
    if kind != "gitdir":
        return
    own = os.path.realpath(os.path.join(project, place))
    worktrees, back = os.path.dirname(own), _pointer(os.path.join(own, "gitdir"))
    repository, name = os.path.split(worktrees)
    is_known = bool(back) and os.path.realpath(os.path.join(own, back)) == os.path.join(project, ".git")
    if is_known and name == "worktrees" and os.path.isdir(os.path.join(repository, "objects")):
        yield repository


def _pointer(path: str) -> str:
    """Return the line of a file by which git finds another place; empty where there is none."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(_POINTER_CHARS_MAX).rstrip("\n").replace("\0", "")
    except OSError:
        return ""


def _programs(home: str, project: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the usual places, then what is on the PATH, with what belongs to it.

    A link in the project may lead to a virtual environment, and nowhere else: it is the repository that says where.
    """
    yield from (os.path.realpath(os.path.join(home, name)) for name in _AT_HOME)
    for directory in filter(os.path.isabs, environ.get("PATH", "").split(os.pathsep)):
        path = os.path.realpath(directory)
        if any(is_beneath(path, place) for place in _SEEN_ANYWAY):
            continue
        prefix, name = os.path.split(path)
        if _is_led_out(directory, project, path) and not os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
            continue
        is_elsewhere = is_beneath(path, home) or not any(is_beneath(path, place) for place in _HOMES)
        if name == "bin" and is_elsewhere and os.path.isdir(os.path.join(prefix, "lib")):
            yield prefix
        yield path


def _is_led_out(directory: str, project: str, path: str) -> bool:
    """Say whether a directory is in a project by its name, and really somewhere else."""
    above = PurePath(os.path.normpath(directory)).parents
    return not is_beneath(path, project) and any(os.path.realpath(place) == project for place in above)
