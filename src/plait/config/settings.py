"""Reads `plait.toml`, the user's and a project's.

Floor: 2. Owns: the file and its faults; never: what a setting means, or whether a project's counts (`trust`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plait.config.places import config_home
from plait.core.errors import ConfigError

CONFIG_FILE: Final = "plait.toml"
BYTES_MAX: Final = 4_000_000


def user_settings(environ: Mapping[str, str]) -> Path:
    """Return where the user's settings stand."""
    return config_home(environ) / CONFIG_FILE


def settings_in(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds, nothing where there is none.

    Raises:
        ConfigError: it cannot be read or is no TOML; the message names the file and, where it is known, the line.
    """
    try:
        data = read_settings(path)
    except FileNotFoundError:
        return {}
    return settings_of(data, repr(str(path)))


def read_settings(path: Path) -> bytes:
    """Return what a file holds, as much as can be settings; nobody waits for a pipe that a repository has put there.

    Raises:
        FileNotFoundError: there is none. ConfigError: it cannot be read, or is no ordinary file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ConfigError(f"cannot read {str(path)!r}: it is no ordinary file", hint="remove it")
            return file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}", hint="mend or remove it") from error


def settings_of(data: bytes, source: str) -> dict[str, Any]:
    """Return what the text of a TOML file holds; raise `ConfigError` as `settings_in` does."""
    import tomllib  # most runs have no such file

    if len(data) > BYTES_MAX:
        raise ConfigError(f"{source} has more than {BYTES_MAX:,} bytes", hint="mend it")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{source} is no TOML: {error}", hint="mend it") from error
