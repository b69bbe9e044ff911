"""Which tools each server had the last time, by their digests: a server that shows others now is told of.

Floor: 3. Owns: one small file of digests; never: what to do about a change.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plait.core.strict_json import JsonInvalid, dump, parse_object
from plait.store import disk
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.shown import Listing, clean

FILE: Final = "mcp-tools.json"
_SERVERS_MAX: Final = 500
_NAMES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Change:
    """How a server's tools differ from those of an earlier time."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """The same name with other words or another schema."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @property
    def words(self) -> str:
        """The change as a part of a sentence."""
        parts = [
            f"{what} {_listed(names)}"
            for what, names in (("new:", self.added), ("gone:", self.removed), ("changed:", self.changed))
            if names
        ]
        return "; ".join(parts)


def change_between(before: Mapping[str, str], now: Mapping[str, str]) -> Change:
    """Return how two lists differ; both are digests by name."""
    return Change(
        tuple(sorted(now.keys() - before.keys())),
        tuple(sorted(before.keys() - now.keys())),
        tuple(sorted(name for name in now.keys() & before.keys() if now[name] != before[name])),
    )


class Pins:
    """The digests that are kept in one folder.

    Durability: the file is replaced whole; one that cannot be read or written counts as empty.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / FILE

    def pin(self, config: ServerConfig, listing: Listing) -> Change | None:
        """Remember a server's tools; return how they differ from what was remembered, None for the first time."""
        key = _identity(config)
        kept = self._read()
        before = kept.pop(key, None)
        now = dict(listing.digests)
        if before != now:
            # The one that was seen last stands last; the file does not grow without end.
            kept[key] = now
            for old in list(kept)[:-_SERVERS_MAX]:
                del kept[old]
            self._write(kept)
        return None if before is None else change_between(before, now)

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            content = parse_object(self._path.read_bytes())
        except (OSError, JsonInvalid):
            return {}
        return {
            key: {str(name): str(digest) for name, digest in tools.items()}
            for key, tools in content.items()
            if isinstance(tools, dict)
        }

    def _write(self, kept: Mapping[str, object]) -> None:
        try:
            disk.make_private_folder(self._path.parent)
            disk.replace_file(self._path, dump(kept).encode())
        except OSError:
            return  # then the next run compares with what was remembered before


def _identity(config: ServerConfig) -> str:
    """Return what makes a server the same one: its name and where it is, without what may be a secret."""
    told = [config.name, config.kind, config.command, list(config.args), config.url, config.cwd or ""]
    return f"{clean(config.name, 100)}:{hashlib.sha256(dump(told).encode('utf-8', 'replace')).hexdigest()[:16]}"


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(clean(name, 100) for name in names[:_NAMES_MAX])
    return f"{shown} and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else shown
