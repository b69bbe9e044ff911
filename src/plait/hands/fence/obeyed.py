"""Names in a workspace that programs outside the fence obey: those of its own repository and of every one in it.

Floor: 2. Owns: which of them a fenced command finds read-only, and what becomes of those that it made; never: mounts.

A mount can only stand where something is. So what a command makes under such a name is put aside when it ends: renamed
in its place, where nobody obeys it, to be put back by the user. A new repository is left and told of: making one is
ordinary work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from plait.core.values import dataclass
from plait.hands.fence.policy import PINNED, PROTECTED, SandboxPolicy
from plait.hands.fence.repositories import GIT, Repositories
from plait.hands.workspace import Pinned

ASIDE: Final = ".set-aside"
_OF_REPOSITORY: Final = (".git/hooks", ".git/commondir", ".git/config.worktree")
"""Git's own names that ordinary work in a repository does not make."""
_CONFIG: Final = ".git/config"
"""What every repository has."""
_WORKTREES: Final = ".git/worktrees"
_OF_WORKTREE: Final = ("commondir", "gitdir", "config.worktree")
_WORKTREES_MAX: Final = 100
_STEPS_MAX: Final = max(name.count("/") + 1 for name in PROTECTED)
_ASIDE_MAX: Final = 1_000
_TOLD_MAX: Final = 4_000
"""Names of repositories inside that are told one by one; bubblewrap takes 9,000 words in all."""
_CHARS_MAX: Final = 400_000


@dataclass(frozen=True, slots=True)
class Kept:
    """What is to be read-only besides what a policy names, relative to the workspace; all of it exists."""

    pinned: tuple[str, ...] = ()
    """Cannot be moved away."""
    names: tuple[str, ...] = ()


NOTHING_MORE: Final = Kept()


@dataclass(frozen=True, slots=True)
class Made:
    """What a command has made of such names."""

    left: tuple[str, ...] = ()
    """Names that stand where they were made."""
    aside: tuple[tuple[str, str], ...] = ()
    """Names that were put aside, and under which."""


def kept_beneath(policy: SandboxPolicy, repositories: Repositories) -> Kept:
    """Return what is to be kept of the repositories in a workspace, and of its own worktrees.

    Where that is more than bubblewrap can be told, the folders that the repositories lie in are kept as a whole.
    """
    inside, own = repositories.look(), tuple(_of_worktrees(policy.root))
    found = _kept_of(policy, inside)
    told = (*found.pinned, *found.names)
    if len(told) > _TOLD_MAX or sum(map(len, told)) > _CHARS_MAX:
        return Kept(names=(*own, *dict.fromkeys(path.partition("/")[0] for path in inside)))
    return Kept(found.pinned, (*own, *found.names))


def _kept_of(policy: SandboxPolicy, inside: Iterable[str]) -> Kept:
    pinned: list[str] = []
    names: list[str] = []
    for path in inside:
        names += [f"{path}/{name}" for name in _of_worktrees(os.path.join(policy.root, path))]
        pinned += [name for each in PINNED if _exists(policy.root, name := f"{path}/{each}")]
        names += [name for each in PROTECTED if _exists(policy.root, name := f"{path}/{each}")]
    return Kept(tuple(pinned), tuple(names))


def is_obeyed(root: str, pinned: Pinned, *, beneath: bool = False) -> bool:
    """Say whether a name is, or would be, such a name of a workspace or of a repository in it; git's own names aside.

    With `beneath` only of a repository in it.
    """
    try:
        folder = os.readlink(f"/proc/self/fd/{pinned.fd}")
    except OSError:
        return False
    steps = os.path.relpath(os.path.join(folder, *pinned.missing, pinned.name), root).split("/")
    return any(
        "/".join(steps[start:end]) in PROTECTED and (not start or _exists(root, os.path.join(*steps[:start], GIT)))
        for start in range(int(beneath), len(steps))
        for end in range(start + 1, min(start + _STEPS_MAX, len(steps)) + 1)
    )


class Watch:
    """Looks at the names before a command and after it."""

    def __init__(
        self, policy: SandboxPolicy, repositories: Repositories, before: Mapping[str, object] | None = None
    ) -> None:
        """Take down what there is now, or what was taken down `before` (`to_dict`)."""
        self._policy = policy
        self._repositories = repositories
        self._inside = repositories.look() if before is None else _texts(before.get("repositories"))
        names = self._existing() if before is None else _texts(before.get("names"))
        self._names = frozenset(names)

    def to_dict(self) -> dict[str, object]:
        """Return what there was, as plain JSON."""
        return {"repositories": list(self._inside), "names": sorted(self._names)}

    def made(self) -> Made:
        """Return what was made since, and leave it where it is."""
        return Made(tuple(sorted((*self._fresh(), *self._new_repositories()))))

    def settle(self) -> Made:
        """Put aside what was made since, and return that with what was left."""
        left, aside = list(self._new_repositories()), []
        for name in self._fresh():
            other = _set_aside(self._policy.root, name) if self._is_harmful(name) else None
            if other is None:
                left.append(name)
            else:
                aside.append((name, other))
        return Made(tuple(sorted(left)), tuple(aside))

    def _fresh(self) -> list[str]:
        return sorted(set(self._existing()) - self._names)

    def _existing(self) -> Iterator[str]:
        for path in ("", *self._inside):
            yield from _existing_of(self._policy.root, path, PROTECTED if path else self._policy.kept)

    def _new_repositories(self) -> Iterator[str]:
        for path in self._repositories.look(soon=True):
            if path not in self._inside and _exists(self._policy.root, f"{path}/{GIT}"):
                yield f"{path}/{GIT}"

    def _is_harmful(self, name: str) -> bool:
        """Say whether it is put aside: not what makes a repository, or is part of one that was made."""
        repository, found, rest = f"/{name}".rpartition("/.git/")
        if not found:
            return True
        return f"{repository}/{_CONFIG}".lstrip("/") in self._names and f".git/{rest}" in _OF_REPOSITORY


def _texts(told: object) -> tuple[str, ...]:
    return tuple(map(str, told)) if isinstance(told, list) else ()


def _of_worktrees(repository: str) -> Iterator[str]:
    """Yield the files of a repository that say where its other worktrees belong."""
    try:
        names = os.listdir(os.path.join(repository, _WORKTREES))[:_WORKTREES_MAX]
    except OSError:
        return
    for name in names:
        yield from _existing_of(repository, f"{_WORKTREES}/{name}", _OF_WORKTREE)


def _existing_of(root: str, path: str, names: Iterable[str]) -> Iterator[str]:
    for each in names:
        name = os.path.join(path, each)
        if _exists(root, name):
            yield name


def _exists(root: str, name: str) -> bool:
    return os.path.lexists(os.path.join(root, name))


def _set_aside(root: str, name: str) -> str | None:
    """Rename what stands under a name, itself and no link's target; None where that cannot be done."""
    folder, _, own = name.rpartition("/")
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for step in filter(None, folder.split("/")):
            above = fd
            try:
                fd = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            finally:
                os.close(above)
    except OSError:
        return None
    try:
        other = _free_name(fd, own)
        os.rename(own, other, src_dir_fd=fd, dst_dir_fd=fd)
    except OSError:
        return None
    finally:
        os.close(fd)
    return f"{folder}/{other}" if folder else other


def _free_name(fd: int, name: str) -> str:
    for number in range(1, _ASIDE_MAX):
        other = f"{name}{ASIDE}" if number == 1 else f"{name}{ASIDE}-{number}"
        try:
            os.stat(other, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return other
    raise FileExistsError(name)
