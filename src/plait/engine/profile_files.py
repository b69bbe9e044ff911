"""Where profiles are found by name, and how one is read from its file.

Floor: 4. Owns: the order of the folders, and what may stand in a file; never: what a profile is (`engine.profile`).

A profile of a repository is a stranger's words, and waits for trust like its other parts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from plait.core.errors import ConfigError
from plait.engine.profile import Profile, ReasoningEffort

_FOLDER: Final = "profiles"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


def load_profile(name: str, *, search_dirs: Iterable[str | os.PathLike[str]] | None = None) -> Profile | None:
    """Return the profile of a name; None where there is none.

    Args:
        search_dirs: folders that are looked into first; then come the project's `.plait/profiles`, where the project
            is trusted, the user's `~/.config/plait/profiles`, and the bundled ones.

    Raises:
        ConfigError: its file cannot be used; names file and line.
    """
    path = _found(name, [*map(Path, search_dirs or ()), *_usual(os.getcwd(), None)])
    return None if path is None else read_profile(path)


def profile_of(
    name: str, cwd: str | os.PathLike[str], *, more: Sequence[str | os.PathLike[str]] = (), trust: bool | None = None
) -> Profile:
    """Return the profile of a name in a folder, looked for as by `load_profile`.

    Raises:
        ConfigError: there is none, or its file cannot be used; the hint names those that there are.
    """
    folders = [*(Path(cwd, os.path.expanduser(folder)) for folder in more), *_usual(cwd, trust)]
    path = _found(name, folders)
    if path is not None:
        return read_profile(path)
    from plait.config.keys import nearest  # most names are right

    names = tuple(known_profiles(folders))
    waiting = _project(cwd) / f"{name}.toml"
    if _NAME.fullmatch(name) and os.path.lexists(waiting):
        raise ConfigError(f"the profile {str(waiting)!r} is not trusted", hint="look at it: plait trust")
    hint = nearest(name, names, otherwise=f"there are {', '.join(names)}")
    raise ConfigError(f"no profile is called {name!r}", hint=hint)


def known_profiles(folders: Iterable[Path]) -> list[str]:
    """Return the names of the profiles in some folders."""
    names = {path.stem for folder in folders for path in folder.glob("*.toml")}
    return sorted(name for name in names if _NAME.fullmatch(name))


def read_profile(path: Path) -> Profile:
    """Return the profile of a file; raise `ConfigError` with its line where it cannot be used."""
    from plait.config.layers import lines_of
    from plait.config.settings import BYTES_MAX, settings_of

    try:
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}", hint="mend or remove it") from error
    told, lines = settings_of(data, repr(str(path))), lines_of(data, str(path))
    for name, value in told.items():
        if (wanted := _wrong(name, value)) is not None:
            raise ConfigError(f"{lines.at(name)}: {name!r} {wanted[0]}", hint=wanted[1])
    known: dict[str, Any] = dict(told)
    return Profile(path.stem, **known)


def _wrong(name: str, value: object) -> tuple[str, str] | None:
    """Return what is wrong with a member of a profile, and what it has to be; None for nothing."""
    members = ("system_prompt", "tool_filter", "model_override", "rubric", "reasoning")
    if name not in members:
        from plait.config.keys import nearest  # most files are right

        return "is no part of a profile", nearest(name, members)
    if name == "tool_filter":
        fits, wanted = isinstance(value, list) and all(isinstance(each, str) for each in value), "a list of names"
    elif name == "reasoning":
        fits, wanted = value in get_args(ReasoningEffort), "low, medium or high"
    else:
        fits, wanted = isinstance(value, str), "text"
    return None if fits else (f"is {value!r}", f"it is {wanted}")


def _found(name: str, folders: Iterable[Path]) -> Path | None:
    if not _NAME.fullmatch(name):
        return None  # a name is no path
    return next((path for folder in folders if (path := folder / f"{name}.toml").is_file()), None)


def _usual(cwd: str | os.PathLike[str], trust: bool | None) -> Iterator[Path]:
    from plait.config.places import config_home

    projects = _project(cwd)
    if projects.is_dir():
        from plait.engine.trusting import vouched  # most projects have no profiles

        if vouched(cwd, trust).is_trusted:
            yield projects
    yield config_home(os.environ) / _FOLDER
    yield Path(__file__).with_name(_FOLDER)


def _project(cwd: str | os.PathLike[str]) -> Path:
    from plait.config.places import project_root

    return project_root(cwd) / ".plait" / _FOLDER
