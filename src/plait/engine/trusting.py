"""Whether a session may use what its repository brings along: its caller vouches for it, or its user has trusted it.

Floor: 4. Owns: the one answer for hooks, servers, plugins and rules; never: the list of trusted repositories
(`config.trust`). A repository that brings nothing along costs a few looks at names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from plait.config.places import project_root
from plait.core.values import dataclass
from plait.store.layout import state_home
from plait.store.owning import refuse_shared

if TYPE_CHECKING:
    from plait.config.trust import TrustStore


@dataclass(frozen=True, slots=True)
class Vouched:
    """How far a repository is trusted."""

    root: str
    is_trusted: bool
    is_by_digest: bool = False
    """Its user trusts it as it was looked at, so that what changes meanwhile is not used any more."""
    is_asked: bool = True
    """What is skipped is told of."""

    def changed(self) -> str:
        """Return why what was trusted may not be used any more, in words; empty while it may."""
        if not self.is_by_digest:
            return ""
        if trust_store().look(self.root).is_trusted:
            return ""
        return f"{self.root!r} has changed since it was trusted; look at it: plait trust {self.root}"


def vouched(folder: str | os.PathLike[str], trust: bool | None) -> Vouched:
    """Say whether the repository around a folder may be used: True and False are the caller's word, None its user's.

    Raises:
        ConfigError: the list of trusted repositories is needed and cannot be read.
    """
    root = str(project_root(os.path.realpath(folder)))
    if trust is not None:
        return Vouched(root, trust, is_asked=False)
    if not _brings_something(root):
        return Vouched(root, False)
    return Vouched(root, trust_store().look(root).is_trusted, is_by_digest=True)


def trust_store() -> TrustStore:
    """Return the user's list of trusted repositories.

    Raises:
        ConfigError: somebody else could write it.
    """
    from plait.config.trust import FILE_NAME, TrustStore  # most folders bring nothing along

    home = state_home(os.environ)
    refuse_shared(home)
    return TrustStore(home / FILE_NAME)


def _brings_something(root: str) -> bool:
    from plait.config.repository_parts import FILES, FOLDERS

    return any(os.path.lexists(Path(root) / name) for name in (*FILES, *FOLDERS))
