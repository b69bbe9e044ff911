"""Where keys and passwords live, recognised by the file that was really opened and not by its name.

Floor: 2. Owns: the list of such places and the test; never: who may be asked for leave.
"""

from __future__ import annotations

import itertools
import os
import stat
from typing import Final

from plait.core.values import dataclass
from plait.hands import beneath
from plait.hands.workspace import Pinned

_IN_HOME: Final = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/op",
    ".kube",
    ".docker/config.json",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".password-store",
    ".vault-token",
    ".local/share/keyrings",
    ".local/share/uv/credentials",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    "Library/Keychains",
)
_OF_SYSTEM: Final = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private")
_LINKED_FILES_MAX: Final = 1_000
_DEPTH_MAX: Final = 300

Identity = tuple[int, int]
"""Device and inode: what a file is, whatever it is called."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A secret place that exists."""

    path: str
    identity: Identity
    is_directory: bool


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    """Directories and files that tools do not touch, with exceptions beneath them.

    The places are looked up anew at every test, because they may come to exist in between.
    """

    places: tuple[str, ...]
    """Absolute paths."""
    exceptions: tuple[str, ...] = ()
    """Absolute paths of directories inside a place that are no secret (output kept for the model to read)."""

    @classmethod
    def usual(cls, home: str, own: tuple[str, ...] = (), exceptions: tuple[str, ...] = ()) -> SecretPlaces:
        """The places that most machines have; `own` are plait's state and configuration."""
        at_home = tuple(os.path.join(home, name) for name in _IN_HOME)
        return cls((*at_home, *_OF_SYSTEM, *own), exceptions)

    def hold(self, pinned: Pinned) -> bool:
        """Say whether the pinned name is a secret place or lies in one, through links and hard links too."""
        status = pinned.status()
        existing = _existing(self.places)
        secret = {place.identity for place in existing}
        open_ones = {place.identity for place in _existing(self.exceptions)}
        own = [(_identity(status), False)] if status else []
        for identity, is_process in (*own, *_ancestors(pinned.fd)):
            if identity in open_ones:
                return False
            if is_process or identity in secret:
                return True
        if status is None:
            return _would_be_created(pinned, self.places)
        return _is_linked(status, existing)

    def identities(self) -> frozenset[Identity]:
        """The places that exist now and the files right in them: what a descent must neither enter nor read."""
        found = _existing(self.places)
        inside = (_files_in(place.path) for place in found if place.is_directory)
        return frozenset(place.identity for place in found).union(*inside)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _existing(places: tuple[str, ...]) -> list[_Place]:
    found: list[_Place] = []
    for path in places:
        try:
            status = os.stat(path)
        except OSError:
            continue
        found.append(_Place(path, _identity(status), stat.S_ISDIR(status.st_mode)))
    return found


def _ancestors(fd: int) -> list[tuple[Identity, bool]]:
    """The opened directory and all above it, as the kernel names them now, and which of them is about a process."""
    found: list[tuple[Identity, bool]] = []
    current = os.dup(fd)
    try:
        for _ in range(_DEPTH_MAX):
            identity = _identity(os.fstat(current))
            if found and identity == found[-1][0]:
                break
            found.append((identity, _is_process(current, identity)))
            above = os.open("..", beneath.LOOK | beneath.DIRECTORY, dir_fd=current)
            os.close(current)
            current = above
    except OSError:
        pass  # what cannot be climbed cannot be compared; the directory itself was
    finally:
        os.close(current)
    return found


def _is_process(fd: int, identity: Identity) -> bool:
    """Say whether a directory describes a process (its environment, its memory), wherever procfs is mounted."""
    try:
        return os.stat("environ", dir_fd=fd).st_dev == identity[0] == os.stat("/proc/self/environ").st_dev
    except OSError:
        return False


def _would_be_created(pinned: Pinned, places: tuple[str, ...]) -> bool:
    """Say whether what does not exist yet would come to be in a secret place that does not exist either."""
    names = (*pinned.missing, pinned.name)
    here = _identity(os.fstat(pinned.fd))
    return any(identity == here and names[: len(missing)] == missing for identity, missing in map(_missing, places))


def _missing(place: str) -> tuple[Identity | None, tuple[str, ...]]:
    """Return the deepest directory above a place that exists, and the names from there to it."""
    path = place
    missing: tuple[str, ...] = ()
    for _ in range(_DEPTH_MAX):
        try:
            return _identity(os.stat(path)), missing
        except FileNotFoundError:
            path, name = os.path.split(path)
            missing = (name, *missing)
        except OSError:
            break
    return None, missing


def _is_linked(status: os.stat_result, places: list[_Place]) -> bool:
    """Say whether a file with several names has one of them directly in a secret directory."""
    if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return False
    return any(_identity(status) in _files_in(place.path) for place in places if place.is_directory)


def _files_in(directory: str) -> set[Identity]:
    try:
        with os.scandir(directory) as entries:
            return {_identity(e.stat(follow_symlinks=False)) for e in itertools.islice(entries, _LINKED_FILES_MAX)}
    except OSError:
        return set()
