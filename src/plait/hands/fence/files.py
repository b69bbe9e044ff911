"""What the fence around commands means for file tools: the same paths stay as they are for both.

Floor: 2. Owns: the test before a write; never: the way to the file (`hands.workspace`).

File tools work in plait's own process and reach files through opened directories, so that nothing a fenced command
does to names meanwhile leads them out. The test, too, goes by what was opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from plait.core.errors import Refusal
from plait.hands.fence.obeyed import is_obeyed
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.secret_places import SecretPlaces
from plait.hands.workspace import Pinned

_OF_GIT = ".git"


class FencedFiles:
    """The rules of one policy, for file tools. Safe in any thread."""

    def __init__(self, policy: SandboxPolicy, kept: Iterable[str], *, keeps_nested: bool) -> None:
        self._top = policy.root
        self._keeps_nested = keeps_nested
        self._kept = SecretPlaces(tuple(os.path.join(policy.root, path) for path in kept))
        self._named = SecretPlaces(tuple(os.path.join(policy.root, path) for path in policy.read_only_inside))
        self._root = SecretPlaces((policy.root,))
        self._writable = SecretPlaces(policy.writable)
        self._shown = ", ".join(str(path) for path in policy.writable_paths)

    @classmethod
    def over(cls, policy: SandboxPolicy, root: str, *, only_named: bool = False) -> FencedFiles:
        """Return the rules for tools in `root`; raise `Refusal` where commands would work in another directory.

        With `only_named` nothing is kept but what the policy names itself.
        """
        if policy.root != os.path.realpath(root):
            raise Refusal("INVALID_INPUT", f"the sandbox is around {policy.root!r} and the tools work in {root!r}")
        if only_named:
            return cls(policy, policy.read_only_inside, keeps_nested=False)
        # Git's own files have a test of their own, which every write passes.
        kept = [path for path in policy.kept if path.split("/")[0] != _OF_GIT]
        return cls(policy, kept, keeps_nested=True)

    def check(self, pinned: Pinned) -> None:
        """Raise `Refusal`, and close the name, if it is one that a fenced command could not change either."""
        try:
            self._check(pinned)
        except BaseException:
            pinned.close()
            raise

    def _check(self, pinned: Pinned) -> None:
        if self._kept.hold(pinned) or (self._keeps_nested and is_obeyed(self._top, pinned, beneath=True)):
            why = "whoever set it up says so" if self._named.hold(pinned) else "programs outside obey what stands there"
            raise Refusal(
                "FORBIDDEN",
                f"{pinned.shown!r} is kept as it is in the sandbox: {why}",
                hint="leave it alone, or ask the user to change it",
                details={"path": pinned.shown},
            )
        if self._root.hold(pinned) and not self._writable.hold(pinned):
            raise Refusal(
                "FORBIDDEN",
                f"{pinned.shown!r} can only be read in the sandbox",
                hint=f"write beneath {self._shown}" if self._shown else "nothing can be written here",
                details={"path": pinned.shown},
            )
