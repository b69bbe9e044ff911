"""The machine and the user as a model is told of them, at the beginning of a session.

Floor: 3. Owns: reading both without starting anything; never: what changes during the session.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from plait.config.places import home
from plait.core.values import dataclass

_CONFIG_BYTES_MAX: Final = 1 << 20
_ENTRY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*=\s*([^#;]*)(?:[#;].*)?")


@dataclass(frozen=True, slots=True)
class Where:
    """What is known of a session when it begins."""

    cwd: str
    model: str
    session_id: str
    harness: str
    model_version: str = ""
    transcript: str = ""
    """Where its journal is; empty where nothing is kept."""
    scratchpad: str = ""


def system_lines(where: Where, now_ms: int) -> list[str]:
    """Return what is told of the machine, a line a fact."""
    version = f" (version {where.model_version})" if where.model_version else ""
    transcript = f" (transcript: {where.transcript})" if where.transcript else ""
    lines = [
        f"Working directory: {where.cwd}",
        f"OS: {_system()}",
        f"CPU cores: {_cores()}",
        f"RAM: {_memory()}",
        *clock_line(now_ms, where.scratchpad),
        f"Model: {where.model}{version}",
        f"Session: {where.session_id}{transcript}",
        f"Harness: {where.harness}",
    ]
    return [line for line in lines if line]


def clock_line(now_ms: int, scratchpad: str) -> list[str]:
    """Return what is another one each time that a session is opened: date and time, a folder for temporary files."""
    now = datetime.fromtimestamp(now_ms / 1000).astimezone()
    lines = [f"Current date/time: {now:%Y-%m-%d %H:%M:%S} ({now.tzname()} timezone)"]
    return [*lines, *([f"Scratchpad (for temporary files, gone with the session): {scratchpad}"] if scratchpad else [])]


def user_lines(environ: Mapping[str, str]) -> list[str]:
    """Return what is told of the user: the account, and who commits are by."""
    identity = git_identity(environ)
    return [f"User: unix user: {_account(environ)}{f'; git identity: {identity}' if identity else ''}"]


def git_identity(environ: Mapping[str, str]) -> str:
    """Return `Name <mail>` as the user's own git configuration says; empty where it does not."""
    name, mail = environ.get("GIT_AUTHOR_NAME", ""), environ.get("GIT_AUTHOR_EMAIL", "")
    base = environ.get("XDG_CONFIG_HOME", "")
    xdg = Path(base) if base.startswith("/") else home(environ) / ".config"
    for path in (home(environ) / ".gitconfig", xdg / "git" / "config"):
        if name and mail:
            break
        own = _user_section(path)
        name, mail = name or own.get("name", ""), mail or own.get("email", "")
    words = f"{name} <{mail}>" if mail else name
    return " ".join(words.split())


def _user_section(path: Path) -> Mapping[str, str]:
    """Return `[user]` of a git configuration; of git's syntax what people write by hand and git writes itself."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_CONFIG_BYTES_MAX).splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    is_own = False
    for line in lines:
        text = line.strip()
        if text.startswith("["):
            is_own = text.lower().startswith("[user]")
        elif is_own and (entry := _ENTRY.fullmatch(text)):
            found[entry[1].lower()] = entry[2].strip().strip('"')
    return found


def _account(environ: Mapping[str, str]) -> str:
    try:
        import pwd  # not on every system

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):
        return environ.get("USERNAME") or environ.get("USER") or "unknown"


def _system() -> str:
    if hasattr(os, "uname"):
        told = os.uname()
        return f"{told.sysname} {told.release} ({told.machine})"
    return sys.platform


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.1f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"
