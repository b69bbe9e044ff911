"""What plait needs of a machine, checked one by one.

Floor: 7. Owns: the checks of `plait doctor`; never: repairing anything, or a key's value.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, TextIO

from plait._version import __version__
from plait.cli.choosing import keys_in
from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.store.layout import state_home

Status = Literal["ok", "warn", "fail"]

_PACKAGES: Final = ("click", "rich", "orjson", "jsonschema-rs", "pyyaml", "pathspec")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `advice` says what to do about it, and is empty where there is nothing to do."""

    name: str
    status: Status
    detail: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return `{name, status, detail, advice}`."""
        return {"name": self.name, "status": self.status, "detail": self.detail, "advice": self.advice}


def machine_checks(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check everything that needs no network."""
    yield python()
    yield packages()
    yield program("ripgrep", "rg", "searches run in plait's own code, slower and with the same results")
    yield program("git", "git", "the agent cannot see or use version control")
    yield bubblewrap()
    yield encoding(sys.stdout)
    yield state_folder(state_home(environ))
    yield keys(environ)
    yield prices(environ)


def python() -> Check:
    """Check the interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"{version} at {sys.executable}")


def packages() -> Check:
    """Check that what plait depends on is installed, without importing it."""
    versions: list[str] = [f"plait {__version__}"]
    missing: list[str] = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check(
            "packages", "fail", f"not installed: {', '.join(missing)}", "install plait again: pip install plait"
        )
    return Check("packages", "ok", ", ".join(versions))


def program(name: str, command: str, without: str) -> Check:
    """Check for a program that helps and is not required."""
    path = shutil.which(command)
    if path is None:
        return Check(name, "warn", "not found", f"without it, {without}")
    return Check(name, "ok", path)


def bubblewrap() -> Check:
    """Check that commands can be fenced, by fencing one: a program that is there may still be forbidden to."""
    from plait.core.errors import Refusal
    from plait.hands.fence.fence import open_fence
    from plait.hands.fence.policy import SandboxPolicy

    with tempfile.TemporaryDirectory(prefix="plait-doctor-") as folder:
        try:
            fence = open_fence(SandboxPolicy(folder))
        except Refusal as refusal:
            advice = f"until then every command is asked for: {refusal.hint}"
            return Check("sandbox", "warn", refusal.message, advice)
    detail = f"{fence.level}: commands of a run are in it, unasked; `plait doctor sandbox` proves it"
    return Check("sandbox", "ok", detail)


def encoding(stream: TextIO) -> Check:
    """Check that the terminal, or whatever stands in its place, can show what a model writes."""
    name = stream.encoding or "unknown"
    if name.lower().replace("-", "") == "utf8":
        return Check("encoding", "ok", name)
    return Check(
        "encoding", "warn", name, "characters it lacks are shown by their code; set LC_ALL=C.UTF-8 to see them"
    )


def state_folder(folder: Path) -> Check:
    """Check that the state folder, or the folder it would be made in, can be written to; nothing is left behind."""
    existing = next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        return Check("state folder", "warn", f"{folder}: {reason}", "sessions are not kept; set PLAIT_HOME to a folder")
    return Check("state folder", "ok", str(folder) if existing == folder else f"{folder} (made when it is needed)")


def keys(environ: Mapping[str, str]) -> Check:
    """Check which key variables are set; only their names are told."""
    found = keys_in(environ)
    if not found:
        advice = "set a provider's key such as OPENROUTER_API_KEY; a server of your own (--endpoint) needs none"
        return Check("keys", "warn", "no key variable is set", advice)
    return Check("keys", "ok", f"set: {', '.join(found)}")


def prices(environ: Mapping[str, str]) -> Check:
    """Check the user's own table of prices, where there is one: a damaged one would leave costs unknown."""
    from plait.models.prices import known_prices, user_prices_path

    path = user_prices_path(environ)
    try:
        table = known_prices(environ=environ)
    except ConfigError as error:
        return Check("prices", "fail", error.message, error.hint)
    own = f", with {path}" if path.is_file() else ""
    return Check("prices", "ok", f"the table of {table.as_of}{own}")
