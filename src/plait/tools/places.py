"""Which files the tools of a session reach: the workspace, the rest of the machine by policy, and kept outputs.

Floor: 3. Owns: the policies of the faces; never: the walk to a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.fence.files import FencedFiles
from plait.hands.fence.obeyed import is_obeyed
from plait.hands.reach import OutsidePolicy, Place, Reach
from plait.hands.secret_places import SecretPlaces
from plait.hands.workspace import Files, Pinned, Purpose, Workspace, WorkspaceOptions
from plait.tools.looks import Look, real_name_of
from plait.tools.spill import Spill

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence
    from plait.hands.fence.late import LateFence

Denies = Callable[[str, Purpose], str]
"""Says why an absolute path, links followed, is not for this purpose; empty where it may be."""
PolicyName = Literal["inside_only", "read_outside", "cli"]


@dataclass(frozen=True, slots=True)
class Outside:
    """What file tools may do beyond the workspace; places of keys and passwords are refused in any case."""

    may_read: bool
    may_write: bool
    advice: str = "use a path inside the workspace"
    """What the model is told to do when it may not."""


POLICIES: Final[Mapping[PolicyName, Outside]] = {
    "inside_only": Outside(False, False),
    "read_outside": Outside(True, True),
    "cli": Outside(True, False, "files outside the workspace are changed only with the user's yes (--yes gives it)"),
}


class Places(Files):
    """Turns the paths of tool calls into opened files, as far as policy goes. Safe in any thread."""

    def __init__(
        self,
        reach: Reach,
        outside: Outside,
        spill: Spill,
        look: Look | None = None,
        fenced: FencedFiles | None = None,
        *,
        denied: list[Denies] | None = None,
    ) -> None:
        self._reach = reach
        self._outside = outside
        self._spill = spill
        self._look = look
        self._fenced = fenced
        self._denied = [] if denied is None else denied

    @classmethod
    def of(
        cls,
        root: str | os.PathLike[str],
        outside: Outside,
        spill: Spill,
        own: tuple[str, ...] = (),
        *,
        fences: tuple[Fence | None, LateFence | None] = (None, None),
    ) -> Places:
        """Open a workspace; `own` are plait's state and configuration, which no tool touches.

        With a fence around everything, what commands cannot change is not changed here either. With one that comes
        late, only the paths count that its policy names.

        A workspace inside a secret place is open all the same: its user chose it. Raises `Refusal`.
        """
        fence, late = fences
        workspace = Workspace(root, WorkspaceOptions())
        secrets = SecretPlaces.usual(os.path.expanduser("~"), own, exceptions=(str(workspace.root),))
        policy = OutsidePolicy(outside.may_read, outside.may_write and fence is None, secrets)
        fenced = None if fence is None else FencedFiles.over(fence.policy, str(workspace.root))
        if late is not None and late.policy is not None:
            fenced = FencedFiles.over(late.policy, str(workspace.root), only_named=True)
        return cls(Reach(workspace, policy), outside, spill, fenced=fenced)

    @property
    def root(self) -> str:
        """The workspace as an absolute path."""
        return str(self._reach.workspace.root)

    def allowing(self, purpose: Purpose) -> Places:
        """The same places with leave for `purpose` outside: what a user's yes to one call gives."""
        reach = self._reach.allowing(purpose)
        return Places(reach, self._outside, self._spill, fenced=self._fenced, denied=self._denied)

    def bound_to(self, look: Look) -> Places:
        """The same places for one call that was allowed where it led then: a write anywhere else is refused."""
        return Places(self._reach, self._outside, self._spill, look, self._fenced, denied=self._denied)

    def deny(self, denies: Denies | None) -> None:
        """Refuse what is denied from now on, here and in all places that were made of these: judged when it is open."""
        self._denied[:] = [] if denies is None else [denies]

    def look(self, paths: Iterable[str]) -> Look:
        """Find where the paths of a call lead now, and hold on to that. The caller closes the result.

        A path that names nothing is left out: whoever opens it says so.
        """
        look = Look()
        for path in paths:
            with suppress(Refusal):
                if self._spill.find(path) is None:
                    pinned, place = self._reach.look(path)
                    look.add(path, pinned, place, is_obeyed=place == "inside" and is_obeyed(self.root, pinned))
        return look

    def classify(self, path: str) -> Place:
        """Say where a path leads; kept outputs count as inside. Raises `Refusal`."""
        return "inside" if self._spill.find(path) else self._reach.classify(path)

    def forbidden(self) -> frozenset[tuple[int, int]]:
        """Return device and inode of what a descent may not enter."""
        secrets = self._reach.outside.secrets
        return secrets.identities() if secrets is not None else frozenset()

    def pin(self, path: str, purpose: Purpose = "read") -> Pinned:
        """Find where `path` ends; nothing is created. The caller closes the result. Raises `Refusal`."""
        kept = self._spill.find(path)
        if kept is None:
            return self._pin(path, purpose)
        if purpose == "write":
            raise Refusal("FORBIDDEN", f"{path!r} is kept output", hint="read it; write to a file of your own")
        workspace, name = kept
        return workspace.pin(name)

    def close(self) -> None:
        """Let go of the directories that are held open."""
        self._reach.close()

    def _check(self, path: str, pinned: Pinned, purpose: Purpose) -> None:
        """Refuse a place by what it really is, whatever its path led to a moment ago."""
        if purpose == "write" and self._fenced is not None:
            self._fenced.check(pinned)
        for denies in self._denied:
            if why := denies(real_name_of(path, pinned), purpose):
                raise Refusal(
                    "FORBIDDEN",
                    f"{path!r} is denied by {why}",
                    hint="do not try to reach it by other means; say in your answer what is needed",
                    details={"path": path},
                )
        if purpose == "write" and self._look is not None:
            self._look.checked(path, pinned)

    def _pin(self, path: str, purpose: Purpose) -> Pinned:
        try:
            pinned = self._reach.pin(path, purpose)
            try:
                self._check(path, pinned, purpose)
            except BaseException:
                pinned.close()
                raise
            return pinned
        except Refusal as refusal:
            may = self._reach.outside.may_write if purpose == "write" else self._reach.outside.may_read
            if may or refusal.refusal != "FORBIDDEN" or self._reach.classify(path) != "outside":
                raise
            raise Refusal("FORBIDDEN", refusal.message, hint=self._outside.advice, details=refusal.details) from refusal
