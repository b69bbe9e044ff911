"""What a fence lets a command reach, as values.

Floor: 2. Owns: `SandboxPolicy`, its checks and what is recorded of it; never: how it is enforced.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, field
from types import MappingProxyType
from typing import Final

from plait.core.values import dataclass
from plait.hands.fence.allowlist import Allowlist

PROTECTED: Final = (
    *(".git/config", ".git/config.worktree", ".git/commondir", ".git/hooks", ".git/modules", ".git/info"),
    *(".plait", "plait.toml", ".mcp.json", ".claude", ".codex", ".agentknit", ".cursor", ".gemini"),
    *(".vscode", ".idea", ".envrc", ".github/workflows", ".githooks", ".husky"),
)
"""What programs outside the fence obey, inside a workspace: it stays readable, and a fenced command cannot change it.

A name that does not exist yet cannot be kept from being made, except by not making the workspace writable."""
BARRED: Final = "barred"
"""In the details of a refusal: the workspace itself is in the way of a fence."""
PINNED: Final = (".git", ".github")
"""Directories above a protected name: they cannot be moved away with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """How much a fenced command may use; memory, files and processor time count for each process, as in the kernel."""

    processes: int = 512
    """Processes and threads at a time, in the whole fence; as root at least 301, and only where the kernel can."""
    memory_bytes: int = 8 << 30
    """Memory that a process writes to."""
    file_bytes: int = 8 << 30
    """Size of a file that a process writes."""
    open_files: int = 4_096
    cpu_seconds: int | None = None
    """Processor time of a process; None is no limit beside the call's own time."""
    temporary_bytes: int = 2 << 30
    """What `/tmp` holds, which is memory."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} leaves nothing; give a positive number")


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What commands can reach.

    Raises `ValueError` for a workspace that is no directory, a network or a path that cannot be had, and a time limit
    that is none.
    """

    workspace: str | os.PathLike[str]
    """The directory that they work in; links are followed once, here."""
    network: str | tuple[str, ...] = "none"
    """`none`, or the hosts that can be reached through a proxy of plait's own: `("example.org", "*.example.org")`."""
    writable_paths: tuple[str | os.PathLike[str], ...] = (".",)
    """Paths inside the workspace that they may change."""
    read_only_paths: tuple[str | os.PathLike[str], ...] = ()
    """Paths that they may read and not change: inside the workspace, or absolute ones of the machine."""
    timeout_seconds: float = 60
    environment: Mapping[str, str] | None = None
    """Variables that they see besides the few that every program needs."""
    limits: ResourceLimits = field(default_factory=ResourceLimits, kw_only=True)
    landlock_alone: bool = field(default=False, kw_only=True)
    """Where bubblewrap cannot make a fence, one of Landlock and seccomp will do. It shows other processes, and names
    inside the workspace are protected by nothing in it."""

    def __post_init__(self) -> None:
        root = os.path.realpath(os.path.expanduser(self.workspace))
        if not os.path.isdir(root):
            raise ValueError(f"the workspace {os.fspath(self.workspace)!r} is not a directory")
        if root == "/":
            raise ValueError("the workspace is the whole machine; name a directory in it")
        network: object = self.network
        if not isinstance(network, (tuple, list)) and network != "none":
            raise ValueError(f"network={network!r} cannot be had in a sandbox; leave it at 'none', or name hosts")
        hosts = () if network == "none" else tuple(self.network)
        Allowlist.of(hosts)
        if not self.timeout_seconds > 0:
            raise ValueError(f"timeout_seconds={self.timeout_seconds} is no time; give more than 0")
        set_field = object.__setattr__
        set_field(self, "workspace", root)
        set_field(self, "network", hosts or "none")
        set_field(self, "writable_paths", tuple(_inside(root, path) for path in self.writable_paths))
        set_field(self, "read_only_paths", tuple(_anywhere(root, path) for path in self.read_only_paths))
        if self.environment is not None:
            set_field(self, "environment", MappingProxyType(dict(self.environment)))

    @property
    def root(self) -> str:
        """The workspace as an absolute path without links."""
        return str(self.workspace)

    @property
    def writable(self) -> tuple[str, ...]:
        """The writable paths as absolute ones, none inside another."""
        found = sorted({os.path.normpath(os.path.join(self.root, path)) for path in self.writable_paths})
        return tuple(path for path in found if not any(is_beneath(path, other) for other in found if other != path))

    @property
    def read_only_inside(self) -> tuple[str, ...]:
        """The read-only paths of the workspace, relative to it."""
        return tuple(str(path) for path in self.read_only_paths if not os.path.isabs(path))

    @property
    def read_only_outside(self) -> tuple[str, ...]:
        """Absolute paths that can be read besides."""
        return tuple(str(path) for path in self.read_only_paths if os.path.isabs(path))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that can be reached; none is no network."""
        return () if isinstance(self.network, str) else self.network

    @property
    def kept(self) -> tuple[str, ...]:
        """What stays as it is inside the workspace, relative to it."""
        return (*PROTECTED, *self.read_only_inside)

    def metadata(self) -> dict[str, object]:
        """Return the policy as JSON, as a session records it; of the environment only the names."""
        return {
            "workspace": self.root,
            "network": self.network if isinstance(self.network, str) else [*self.network],
            "writable_paths": [str(path) for path in self.writable_paths],
            "read_only_paths": [str(path) for path in self.read_only_paths],
            "timeout_seconds": self.timeout_seconds,
            "environment": sorted(self.environment or {}),
            "limits": asdict(self.limits),
            "landlock_alone": self.landlock_alone,
        }


def is_beneath(path: str, directory: str) -> bool:
    """Say whether a path is a directory or lies in it, by their texts."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _inside(root: str, path: str | os.PathLike[str]) -> str:
    """Return a path relative to the workspace; raise `ValueError` for one that leads out of it."""
    text = os.path.expanduser(os.fspath(path))
    real = os.path.realpath(os.path.join(root, text))
    if not text or not is_beneath(real, root):
        raise ValueError(f"the writable path {os.fspath(path)!r} is not inside the workspace {root!r}")
    return os.path.relpath(real, root)


def _anywhere(root: str, path: str | os.PathLike[str]) -> str:
    """Return a path of the workspace relative to it, and any other as an absolute one."""
    text = os.path.expanduser(os.fspath(path))
    lexical = os.path.normpath(os.path.join(root, text))
    if not text:
        raise ValueError("a read-only path is empty")
    if is_beneath(lexical, root):
        return os.path.relpath(lexical, root)
    return os.path.realpath(lexical)
