"""What file tools may reach: the workspace, and what policy says of the rest of the machine.

Floor: 2. Owns: inside, outside and secret, decided on what was really opened; never: asking anybody.
"""

from __future__ import annotations

from typing import Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands import beneath
from plait.hands.refusals import refusal_from
from plait.hands.secret_places import SecretPlaces
from plait.hands.workspace import Files, Pinned, Purpose, Workspace, WorkspaceOptions, escape

Place = Literal["inside", "outside", "secret"]


@dataclass(frozen=True, slots=True)
class OutsidePolicy:
    """What is allowed beyond the workspace; whoever needs a yes first asks `Reach.classify`, then for the yes."""

    may_read: bool = False
    may_write: bool = False
    secrets: SecretPlaces | None = None
    """Places that are refused everywhere, inside the workspace too."""


class Reach(Files):
    """A workspace together with the rest of the machine, as far as policy lets tools go there.

    A path that leads out of the workspace, by its text or through a link, is found from `/` when policy allows it
    and refused otherwise. Safe in any thread.
    """

    def __init__(
        self, workspace: Workspace, outside: OutsidePolicy | None = None, *, machine: Workspace | None = None
    ) -> None:
        self.workspace = workspace
        self.outside = outside or OutsidePolicy()
        self._machine = machine or Workspace("/", WorkspaceOptions(style="lenient"))

    def close(self) -> None:
        """Let go of both roots."""
        self.workspace.close()
        self._machine.close()

    def allowing(self, purpose: Purpose) -> Reach:
        """The same reach with leave for `purpose` outside: what a yes to one call gives. Secrets stay secret."""
        may_read = self.outside.may_read or purpose == "read"
        may_write = self.outside.may_write or purpose == "write"
        return Reach(self.workspace, OutsidePolicy(may_read, may_write, self.outside.secrets), machine=self._machine)

    def classify(self, path: str) -> Place:
        """Say where `path` leads now; nothing is opened but directories. Raises `Refusal` for unusable text."""
        pinned, place = self.look(path)
        with pinned:
            return place

    def look(self, path: str) -> tuple[Pinned, Place]:
        """Find where `path` ends, allowed or not, and say what place that is. The caller closes the first."""
        pinned, place = self._find(path, "look at")
        try:
            return pinned, "secret" if self._is_secret(pinned) else place
        except BaseException:
            pinned.close()
            raise

    def pin(self, path: str, purpose: Purpose = "read") -> Pinned:
        """Find where `path` ends, if `purpose` is allowed there. The caller closes the result."""
        pinned, place = self._find(path, purpose)
        try:
            if place == "outside" and not self._may(purpose):
                raise escape(path)
            if self._is_secret(pinned):
                raise Refusal(
                    "FORBIDDEN",
                    f"{path!r} is where keys, passwords or plait's own files are kept",
                    hint="tools do not open it; ask the user for what you need from it",
                    details={"path": path},
                )
        except BaseException:
            pinned.close()
            raise
        return pinned

    def forbidden(self) -> frozenset[tuple[int, int]]:
        """The secret places that exist now."""
        return self.outside.secrets.identities() if self.outside.secrets else frozenset()

    def _may(self, purpose: Purpose) -> bool:
        return self.outside.may_write if purpose == "write" else self.outside.may_read

    def _is_secret(self, pinned: Pinned) -> bool:
        return self.outside.secrets is not None and self.outside.secrets.hold(pinned)

    def _find(self, path: str, doing: str) -> tuple[Pinned, Place]:
        """Find `path` beneath the workspace, or else from the root of the machine."""
        location = self.workspace.locate(path)
        names = location.segments
        try:
            if location.is_inside:
                try:
                    return self.workspace.pin_names(names, location.shown), "inside"
                except beneath.Escaped:
                    if self.workspace.style == "strict":
                        raise escape(path) from None
                    names = (*self.workspace.root.parts[1:], *names)
            return self._machine.pin_names(names, location.shown), "outside"
        except OSError as error:
            raise refusal_from(error, path, doing) from error
