"""Which git repositories lie inside a workspace: each of them has names that programs outside the fence obey.

Floor: 2. Owns: finding them in bounded time, and remembering them; never: what is done about one (`obeyed`).

Directories near the workspace's own come first, and one that has not changed is not listed again. A walk that takes
longer than a command may wait for goes on with the next; one that is over is made anew when it is old, measured by what
it cost.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

BUDGET_S: Final = 0.2
"""How long one look may take."""
REPOSITORIES_MAX: Final = 500
_AGE_PER_COST: Final = 20
"""A walk counts for so many times as long as it took: looking costs a twentieth of the time at most."""
_SOON_PER_COST: Final = 4
"""The same after a command."""
_CLOCK_EVERY: Final = 32
_SETTLED_NS: Final = 100_000_000
_SEEN_MAX: Final = 200_000
GIT: Final = ".git"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A directory as it was listed."""

    changed_ns: int
    """When it last changed, by the kernel's word, which programs cannot forge."""
    folders: tuple[str, ...]
    has_git: bool


class Repositories:
    """The repositories in one directory, its own aside. Safe in any thread."""

    def __init__(self, root: str) -> None:
        """Look at nothing yet."""
        self._root = root
        self._lock = threading.Lock()
        self._found: dict[str, None] = {}
        """Of the walk that is under way, relative to the root, nearest first."""
        self._before: tuple[str, ...] = ()
        """Of the last walk that came to its end."""
        self._left: deque[str] = deque()
        self._seen: dict[str, _Seen] = {}
        self._cost_s = 0.0
        self._ended_s: float | None = None

    def look(self, *, soon: bool = False) -> tuple[str, ...]:
        """Return the repositories that are known; `soon` looks again sooner, because something may have been made.

        Those that went meanwhile may be among them. A directory that cannot be read holds none.
        """
        with self._lock:
            now_s = time.monotonic()
            is_over = not self._left and self._ended_s is not None
            age_s = now_s - self._ended_s if self._ended_s is not None else 0.0
            if is_over and age_s < self._cost_s * (_SOON_PER_COST if soon else _AGE_PER_COST):
                return self._known()
            if not self._left:
                self._before, self._found, self._cost_s = self._known(), {}, 0.0
                self._left.append("")
            self._walk(now_s + BUDGET_S)
            ended_s = time.monotonic()
            self._cost_s += ended_s - now_s
            if not self._left:
                self._ended_s, self._before = ended_s, ()
            return self._known()

    @property
    def is_whole(self) -> bool:
        """True where no directory of the last walk is left to be looked at."""
        return not self._left and self._ended_s is not None

    def _known(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._found, *self._before)))[:REPOSITORIES_MAX]

    def _walk(self, until_s: float) -> None:
        count = 0
        while self._left:
            self._enter(self._left.popleft())
            count += 1
            if len(self._found) >= REPOSITORIES_MAX:
                self._left.clear()
            if count % _CLOCK_EVERY == 0 and time.monotonic() > until_s:
                return

    def _enter(self, path: str) -> None:
        place = os.path.join(self._root, path)
        try:
            changed_ns = os.stat(place, follow_symlinks=False).st_ctime_ns
            seen = self._seen.get(path)
            if seen is None or seen.changed_ns != changed_ns:
                seen = _listed(place, changed_ns)
                if time.time_ns() - changed_ns > _SETTLED_NS and len(self._seen) < _SEEN_MAX:
                    self._seen[path] = seen
                else:
                    # What changes in the same tick of the clock would not show.
                    self._seen.pop(path, None)
        except OSError:
            return  # it went, or is not ours to read; git could not read it as us either
        if seen.has_git and path:
            self._found[path] = None
        self._left.extend(f"{path}/{name}" if path else name for name in seen.folders)


def _listed(place: str, changed_ns: int) -> _Seen:
    folders, has_git = [], False
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.name.lower() == GIT:
                has_git = True
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return _Seen(changed_ns, tuple(folders), has_git)
