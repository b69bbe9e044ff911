"""What the user has agreed to of each server, kept from run to run: its tools as the model was shown them.

Floor: 3. Owns: one private file for each server; never: what to do about a change (`agreed`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from plait.core.strict_json import JsonInvalid, dump, parse_object
from plait.store import disk
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.shown import Shown, bare

FOLDER: Final = "mcp-tools"
_FILES_MAX: Final = 500
_VERSION: Final = 1

Tools = Mapping[str, Shown]
"""Tools of one server, by its own names for them."""


class Damaged(Exception):
    """What was agreed to cannot be read: nothing counts as agreed to then."""


class Pins:
    """The files of one folder.

    Durability: each is replaced whole; readable by its user only. Of many servers those seen last are kept.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder) / FOLDER

    def of(self, config: ServerConfig) -> Tools | None:
        """Return what was agreed to of a server, None for one that was never seen. Raises `Damaged`."""
        path = self.path_of(config)
        try:
            content = parse_object(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, JsonInvalid) as error:
            raise Damaged(str(path)) from error
        told = content.get("tools")
        if content.get("version") != _VERSION or not isinstance(told, dict):
            raise Damaged(str(path))
        try:
            return {name: _tool_of(config.name, name, each) for name, each in told.items()}
        except (KeyError, TypeError, JsonInvalid) as error:
            raise Damaged(str(path)) from error

    def keep(self, config: ServerConfig, tools: Tools) -> None:
        """Keep what was agreed to. What cannot be written counts for this run alone."""
        told = {"version": _VERSION, "server": config.name, "tools": {name: tools[name].to_dict() for name in tools}}
        with suppress(OSError, JsonInvalid):
            path = self.path_of(config)
            disk.make_private_folder(self.folder)
            is_new = not path.exists()
            disk.replace_file(path, dump(told).encode())
            if is_new:
                self._forget_old()

    def path_of(self, config: ServerConfig) -> Path:
        """Return the file of a server: by its name and where it is, without what may be a secret."""
        told = [config.name, config.kind, config.command, list(config.args), config.url, config.cwd or ""]
        mark = hashlib.sha256(dump(told).encode("utf-8", "replace")).hexdigest()[:16]
        return self.folder / f"{bare(config.name)}-{mark}.json"

    def _forget_old(self) -> None:
        files = [entry for entry in os.scandir(self.folder) if entry.name.endswith(".json")]
        if len(files) > _FILES_MAX:
            for entry in sorted(files, key=lambda entry: entry.stat().st_mtime)[: len(files) - _FILES_MAX]:
                os.unlink(entry.path)


def _tool_of(server: str, name: str, told: object) -> Shown:
    if not isinstance(told, dict):
        raise TypeError
    description, parameters, hints = told["description"], told["parameters"], told["hints"]
    if not isinstance(description, str) or not isinstance(parameters, dict) or not isinstance(hints, dict):
        raise TypeError
    return Shown.of(server, name, (description, parameters), hints)
