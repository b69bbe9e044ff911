"""Plugins: Python files of the user's own that bring tools, and which of them may be loaded.

Floor: 3. Owns: reading, running and refusing plugin files, names that clash; never: whom a repository is trusted by.

A plugin is code of its user's: it runs in this process with all its rights. So its file and its folder must belong to
that user (or to root), and nobody else may write to them. What a plugin does wrong at its import costs its own tools.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Final

from plait.config.places import config_home, project_root
from plait.core.error_words import words_of
from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.hands import beneath
from plait.kernel.tools import Tool

OnError = Callable[[Path, BaseException], object]
"""Told of a plugin that was not loaded, and why."""

FOLDER: Final = "plugins"
_SOURCE_BYTES_MAX: Final = 4 << 20
_FILE: Final[int] = os.O_RDONLY | beneath.NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class _Refused(ConfigError):
    """A plugin is not loaded, because somebody else could have written it; its message names it."""


def load_plugin_tools(
    dir: str | os.PathLike[str],
    *,
    working_dir: str | os.PathLike[str] = ".",
    on_error: OnError | None = None,
) -> list[Tool]:
    """Return the tools of every plugin in a folder; of a folder that is not there, none.

    A plugin is a file `*.py` whose name does not begin with `_`; they are taken in order of their names. It has a
    function `tools()` or `tools(working_dir)` that returns tools, or a sequence `TOOLS`, or both. What is no `Tool` in
    them is passed over. What a plugin prints while it is loaded goes to standard error.

    Args:
        dir: the folder.
        working_dir: handed to a function `tools` that takes it.
        on_error: called with the path and the exception for each plugin that cannot be loaded: it raises, ends the
            process, or is refused (`ConfigError`) because its file is a link, belongs to another user, or can be
            written by one. Nothing is raised for it.
    """
    folder = Path(os.path.abspath(dir))
    tools: list[Tool] = []
    with contextlib.ExitStack() as held:
        try:
            fd = _opened_folder(folder)
        except FileNotFoundError:
            return []
        except (OSError, _Refused) as error:
            _tell(on_error, folder, error)
            return []
        held.callback(os.close, fd)
        for name in sorted(name for name in os.listdir(fd) if name.endswith(".py") and not name.startswith("_")):
            path = folder / name
            try:
                tools += _tools_in(path, _source(fd, path), str(working_dir))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # boundary: a plugin's failure, and its exit, cost its own tools
                _tell(on_error, path, error)
    return tools


@dataclass
class Plugins:
    """What came of the plugins of a run."""

    tools: list[Tool] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """What was not loaded, and why: one sentence each."""


def user_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's own folder of plugins: in $PLAIT_HOME where that is set, else beside the configuration."""
    if environ.get("PLAIT_HOME"):
        return Path(environ["PLAIT_HOME"]) / FOLDER
    return config_home(environ) / FOLDER


def load_plugins(
    environ: Mapping[str, str],
    working_dir: str | os.PathLike[str],
    *,
    taken: Iterable[str] = (),
    more: Sequence[str | os.PathLike[str]] = (),
    is_trusted: bool = False,
) -> Plugins:
    """Load the user's own plugins, and say what is left out.

    Plugins of the repository around it wait for trust: without it they are skipped, and that is said.

    Args:
        is_trusted: those of the repository count as well, but only in its own folder for them.
        taken: names that a plugin's tool cannot have.
        more: further folders, relative to the working directory; one inside of it is skipped.
    """
    found = Plugins()
    root = project_root(os.path.realpath(working_dir))
    own = user_folder(environ)
    there = Path(os.path.realpath(working_dir))
    others = [root / ".plait" / FOLDER, *(there / os.path.expanduser(os.fspath(each)) for each in more)]
    names = set(taken)
    for folder in dict.fromkeys((own, *others)):
        is_own = is_trusted and folder == root / ".plait" / FOLDER
        if Path(os.path.realpath(folder)).is_relative_to(root) and folder != own and not is_own:
            if any(_plugin_files(folder)):
                found.notices.append(
                    f"the plugins in {str(folder)!r} are not loaded: the repository is not trusted (plait trust)"
                )
            continue
        found.notices += _load_into(found.tools, folder, working_dir, names)
    return found


def _load_into(tools: list[Tool], folder: Path, working_dir: str | os.PathLike[str], names: set[str]) -> list[str]:
    notices: list[str] = []

    def tell(path: Path, error: BaseException) -> None:
        if isinstance(error, _Refused):
            notices.append(f"{error.message}; {error.hint}")
        else:
            said = words_of(error).removesuffix(": ")
            notices.append(f"the plugin {str(path)!r} could not be loaded: {said}")

    for tool in load_plugin_tools(folder, working_dir=working_dir, on_error=tell):
        if tool.name in names:
            notices.append(f"the tool {tool.name!r} of a plugin in {str(folder)!r} is skipped: the name is taken")
            continue
        names.add(tool.name)
        tools.append(tool)
    return notices


def _plugin_files(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (name for name in os.listdir(folder) if name.endswith(".py") and not name.startswith("_"))


def _tell(on_error: OnError | None, path: Path, error: BaseException) -> None:
    if on_error is not None:
        on_error(path, error)


def _opened_folder(folder: Path) -> int:
    """Open a folder of plugins. Raises `OSError`, `_Refused`."""
    fd = os.open(folder, os.O_RDONLY | beneath.DIRECTORY)
    try:
        _refuse_unless_own(os.fstat(fd), folder, "folder of plugins")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _source(folder_fd: int, path: Path) -> bytes:
    """Read a plugin from the very file that was looked at. Raises `OSError`, `_Refused`."""
    try:
        fd = os.open(path.name, _FILE, dir_fd=folder_fd)
    except OSError as error:
        if path.is_symlink():
            raise _Refused(
                f"the plugin {str(path)!r} is a symbolic link", hint="put the file itself there, or a copy of it"
            ) from error
        raise
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _Refused(f"the plugin {str(path)!r} is not a regular file", hint="take it away")
        _refuse_unless_own(status, path, "plugin")
        data = file.read(_SOURCE_BYTES_MAX + 1)
    if len(data) > _SOURCE_BYTES_MAX:
        raise _Refused(f"the plugin {str(path)!r} has more than {_SOURCE_BYTES_MAX} bytes", hint="make it smaller")
    return data


def _refuse_unless_own(status: os.stat_result, path: Path, what: str) -> None:
    if not hasattr(os, "getuid"):
        return
    if status.st_uid not in (0, os.getuid()):
        raise _Refused(
            f"the {what} {str(path)!r} belongs to another user (id {status.st_uid})",
            hint="plugins run with all your rights: copy it, after you have read it",
        )
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise _Refused(
            f"the {what} {str(path)!r} can be written by others (mode {stat.S_IMODE(status.st_mode):o})",
            hint=f"plugins run with all your rights: chmod go-w {path}",
        )


def _tools_in(path: Path, source: bytes, working_dir: str) -> list[Tool]:
    """Run a plugin and return its tools; whatever it raises is raised."""
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    module = ModuleType(f"plait_plugin_{digest}_{path.stem}")
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    # A class with postponed annotations looks its own module up there.
    sys.modules[module.__name__] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, str(path), "exec"), vars(module))
            given = [*_called(module, working_dir), *_items(getattr(module, "TOOLS", ()))]
    except BaseException:
        if before is None:
            sys.modules.pop(module.__name__, None)
        else:
            sys.modules[module.__name__] = before
        raise
    return list(dict.fromkeys(item for item in given if isinstance(item, Tool)))


def _called(module: ModuleType, working_dir: str) -> list[object]:
    function = getattr(module, "tools", None)
    if not callable(function):
        return []
    parameters = inspect.signature(function).parameters
    if "working_dir" in parameters:
        return _items(function(working_dir=working_dir))
    takes_it = any(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values()
    )
    return _items(function(working_dir) if takes_it else function())


def _items(value: object) -> list[object]:
    if value is None:
        return []
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return list(value)
    raise TypeError(f"a list of tools is wanted, not {type(value).__name__!r}")
