"""What a fence is built from on this machine: programs and places that are there.

Floor: 2. Owns: looking; never: what a fence consists of (`bubblewrap`, `alone`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from plait.core.values import dataclass
from plait.hands.fence.policy import is_beneath
from plait.hands.planted import repository_around

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix/store", "/gnu/store")
_SECRET: Final = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssl/private", "/etc/krb5.keytab", "/etc/security/opasswd", "/etc/wireguard", "/etc/ppp"),
    *("/etc/NetworkManager/system-connections", "/etc/docker", "/etc/kubernetes", "/etc/rancher"),
)
_SECRET_IN: Final = (("/etc/ssh", re.compile(r"ssh_host_.*key$")),)
_PROC_FILES: Final = ("kcore", "keys", "key-users", "kmsg", "kallsyms", "timer_list", "latency_stats", "sched_debug")
_PROC_KEPT: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "asound", "scsi", "mtrr", "driver")
_PID_MAX_SINCE: Final = (6, 14)
"""Kernels from here on have a highest process id for each process namespace; before, it is the machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Everything that a fence's arguments depend on besides the policy."""

    system: tuple[str, ...] = ("/usr",)
    """Directories with programs and their settings."""
    links: tuple[tuple[str, str], ...] = ()
    """Links beside them: target and name."""
    interpreter: str = "/usr/bin/python3"
    prefix: str = "/usr"
    program: str = "/usr/lib/plait"
    """The directory of `confine`."""
    hidden_files: tuple[str, ...] = ()
    hidden_directories: tuple[str, ...] = ()
    proc_hidden: tuple[str, ...] = ()
    proc_kept: tuple[str, ...] = ()
    machine: str = "x86_64"
    landlock: int = 0
    """The version of Landlock here, 0 for none."""
    is_root: bool = False
    counts_processes: bool = True
    """Processes can be limited: of an ordinary user always, of root where a process namespace has a highest id."""
    secrets: tuple[str, ...] = field(default=())
    """Places of keys and passwords, which are empty inside the fence even where the workspace holds them."""

    @classmethod
    def here(cls, secrets: Iterable[str] = ()) -> Ground:
        """Look around."""
        from plait.hands.fence.confine import landlock_version

        links = tuple((os.readlink(path), path) for path in _SYSTEM if os.path.islink(path))
        files, directories = _hidden()
        is_root = os.geteuid() == 0
        return cls(
            system=tuple(path for path in _SYSTEM if os.path.isdir(path) and not os.path.islink(path)),
            links=links,
            interpreter=os.path.realpath(sys.executable),
            prefix=os.path.realpath(sys.base_prefix),
            program=os.path.dirname(os.path.abspath(__file__)),
            hidden_files=files,
            hidden_directories=directories,
            proc_hidden=tuple(name for name in _PROC_FILES if os.path.exists(f"/proc/{name}")),
            proc_kept=tuple(name for name in _PROC_KEPT if os.path.exists(f"/proc/{name}")),
            machine=os.uname().machine,
            landlock=landlock_version(),
            is_root=is_root,
            counts_processes=not is_root or _version() >= _PID_MAX_SINCE,
            secrets=tuple(secrets),
        )


def find_program(name: str, environ: Mapping[str, str], avoid: str = "") -> str | None:
    """Return the path of a program on the PATH, as the user would run it; None without one.

    Relative entries and those inside `avoid` (the workspace), or the repository around it, are passed over, links into
    it too: what lies there is not the user's choice of program.
    """
    avoid = repository_around(avoid) if avoid else ""
    directories = [os.path.dirname(name)] if os.path.isabs(name) else environ.get("PATH", os.defpath).split(os.pathsep)
    if not os.path.isabs(name) and os.path.basename(name) != name:
        return None
    for directory in filter(os.path.isabs, directories):
        path = os.path.join(directory, os.path.basename(name))
        real = os.path.realpath(path)
        planted = avoid and (is_beneath(os.path.realpath(directory), avoid) or is_beneath(real, avoid))
        if not planted and os.path.isfile(real) and os.access(real, os.X_OK):
            return path
    return None


def _hidden() -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = [path for path in _SECRET if os.path.exists(path)]
    for directory, pattern in _SECRET_IN:
        try:
            found += [os.path.join(directory, name) for name in os.listdir(directory) if pattern.fullmatch(name)]
        except OSError:
            continue
    real = sorted({os.path.realpath(path) for path in found})
    return tuple(path for path in real if not os.path.isdir(path)), tuple(filter(os.path.isdir, real))


def _version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
