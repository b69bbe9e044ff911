"""Hooks as files in a folder: the name, or the folders around it, say what each is for.

Floor: 3. Owns: `discover_hook_dir`; never: a file's content.

    notify-stop.py                     the event is the end of the name
    Stop/notify.py                     … or the folder
    PreToolUse/Bash/guard.sh           … with a matcher
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from plait.core.errors import ConfigError
from plait.hooks.entry import HookEntry
from plait.hooks.events import event_named


def discover_hook_dir(folder: str | os.PathLike[str]) -> tuple[list[HookEntry], list[str]]:
    """Return the hooks of a folder, by name, and what is wrong with the files that are none.

    A folder that is not there holds none. Hidden files, `*.disabled`, `__pycache__`, readmes and notes are passed over.
    A file that may not be executed, or that names no event, is left out with a warning.

    Raises:
        ConfigError: the folder cannot be read.
    """
    root = Path(folder).expanduser()
    entries: list[HookEntry] = []
    warnings: list[str] = []
    for path in _listed(root):
        if not path.is_dir():
            _take(path, event_named(path.stem), "", entries, warnings)
            continue
        event = event_named(path.name)
        for inner in _listed(path):
            if not inner.is_dir():
                _take(inner, event, "", entries, warnings)
                continue
            for script in _listed(inner):
                if script.is_dir():
                    warnings.append(f"{script}: too deep for hooks; it is EVENT/MATCHER/SCRIPT")
                else:
                    _take(script, event, inner.name, entries, warnings)
    return entries, warnings


def _listed(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"the hooks in {str(folder)!r} cannot be read: {reason}", hint="mend or remove it") from error
    yield from (folder / name for name in names if not _is_passed_over(name))


def _is_passed_over(name: str) -> bool:
    lower = name.lower()
    stem = lower.partition(".")[0]
    is_hidden = lower.startswith((".", "__pycache__")) or lower.endswith((".disabled", "~"))
    return is_hidden or stem in ("readme", "notes", "note")


def _take(path: Path, event: str | None, matcher: str, entries: list[HookEntry], warnings: list[str]) -> None:
    if event is None:
        warnings.append(f"{path}: its name means no event, so it is left out")
    elif not path.is_file():
        warnings.append(f"{path}: it is no file, so it is left out")
    elif not os.access(path, os.X_OK):
        warnings.append(f"{path}: it may not be executed (chmod +x), so it is left out")
    else:
        where = str(path.absolute())
        entries.append(HookEntry(event, matcher, where, (), source=where))
