"""Where the paths of a call led when somebody was asked about it: a yes is to that, and to nothing else.

Floor: 3. Owns: holding on to what was shown, and telling whether a path still leads there; never: asking anybody.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.reach import Place
from plait.hands.workspace import Pinned, is_same
from plait.kernel.tools import ToolContext

_WORSE: Final[dict[Place, int]] = {"inside": 0, "outside": 1, "secret": 2}
_ALLOWED_MAX: Final = 64
"""Calls whose yes is remembered; as many run at a time at most."""
Identity = tuple[int, int, int, int]
"""Device, inode, size and the time of the last change of a file."""


@dataclass(frozen=True, slots=True)
class Led:
    """Where one path led."""

    path: str
    """As the call has it."""
    real: str
    """The absolute name of the place, links followed."""
    place: Place
    pinned: Pinned
    """Held open, so that no other directory can take over its identity meanwhile."""
    found: Identity | None
    """What stood there; None for nothing."""
    is_obeyed: bool = False
    """Programs outside do what stands there: an editor, a shell's helper, plait itself."""


class Look:
    """Where all paths of one call led. Closing it lets go of the directories; twice is fine."""

    def __init__(self) -> None:
        self._led: dict[str, Led] = {}

    def add(self, path: str, pinned: Pinned, place: Place, *, is_obeyed: bool = False) -> None:
        """Take a place over, with its handle."""
        try:
            led = Led(path, real_name_of(path, pinned), place, pinned, _identity(pinned), is_obeyed)
        except BaseException:
            pinned.close()
            raise
        if (before := self._led.pop(path, None)) is not None:
            before.pinned.close()
        self._led[path] = led

    @property
    def place(self) -> Place:
        """The place of them all that is furthest from the workspace."""
        places: list[Place] = ["inside", *(led.place for led in self._led.values())]
        return max(places, key=lambda place: _WORSE[place])

    @property
    def needs_leave(self) -> bool:
        """True where somebody has to say yes before it is written: outside the workspace, or what programs obey."""
        return self.place == "outside" or any(led.is_obeyed for led in self._led.values())

    @property
    def targets(self) -> Sequence[Led]:
        """All of them, in the order of the call."""
        return tuple(self._led.values())

    def checked(self, path: str, pinned: Pinned) -> Pinned:
        """Return a place that was found anew when it is the one that was looked at, with what stood there.

        Raises:
            Refusal: it is another one; the handle is closed.
        """
        led = self._led.get(path)
        try:
            if led is not None and _leads_alike(led, pinned):
                return pinned
            raise Refusal(
                "CONFLICT",
                f"{path!r} does not lead to what was approved any more: the approval is stale",
                hint="look at the file again and ask anew; do not work around it",
                details={"path": path, "stale": True},
            )
        except BaseException:
            pinned.close()
            raise

    def close(self) -> None:
        """Let go of what is held open."""
        for led in self._led.values():
            led.pinned.close()


def _leads_alike(led: Led, pinned: Pinned) -> bool:
    if led.pinned.fd < 0 or (led.pinned.name, led.pinned.missing) != (pinned.name, pinned.missing):
        return False
    return is_same(os.fstat(led.pinned.fd), os.fstat(pinned.fd)) and _identity(pinned) == led.found


def _identity(pinned: Pinned) -> Identity | None:
    status = pinned.status()
    return None if status is None else (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def real_name_of(path: str, pinned: Pinned) -> str:
    """Return the name of the place itself, by the opened directory where the system tells it."""
    try:
        folder = os.readlink(f"/proc/self/fd/{pinned.fd}")
    except OSError:
        return os.path.realpath(os.path.expanduser(path))
    return os.path.normpath(os.path.join(folder, *pinned.missing, pinned.name))


class Allowed:
    """Which calls may write beyond the workspace, and where: where they led when somebody looked."""

    def __init__(self) -> None:
        self._looks: dict[str, Look] = {}

    def let(self, call_id: str, look: Look) -> None:
        """Allow a call, in place of what was allowed under its id before; the look is taken over."""
        if (before := self._looks.pop(call_id, None)) is not None:
            before.close()
        self._looks[call_id] = look
        while len(self._looks) > _ALLOWED_MAX:
            self._looks.pop(next(iter(self._looks))).close()

    def of(self, call: ToolContext | None) -> Look | None:
        """Return where a call may write; None where it was not allowed anything."""
        return None if call is None else self._looks.get(call.call_id)

    def close(self) -> None:
        """Let go of everything."""
        for look in self._looks.values():
            look.close()
