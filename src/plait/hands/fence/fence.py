"""A fence that holds on this machine: found, tried once, and put around commands.

Floor: 2. Owns: which kind there is and that it works; never: who has to be inside (`tools`, `hooks`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Protocol

from plait.core.errors import Refusal
from plait.hands.command import Command
from plait.hands.fence.allowlist import Allowlist
from plait.hands.fence.alone import alone_argv
from plait.hands.fence.bubblewrap import fence_argv
from plait.hands.fence.egress import Egress
from plait.hands.fence.environment import fenced_environment, loaders_in
from plait.hands.fence.ground import Ground, find_program
from plait.hands.fence.obeyed import kept_beneath
from plait.hands.fence.policy import BARRED, SandboxPolicy, is_beneath
from plait.hands.fence.repositories import Repositories
from plait.hands.fence.seccomp import MACHINES
from plait.hands.fence.sight import unseen
from plait.hands.secret_places import SecretPlaces

_TRY_S: Final = 20
_LANDLOCK_MIN: Final = 3
"""Before it, files could still be cut off."""
_HELP: Final = "install bubblewrap and allow user namespaces (`plait doctor sandbox` shows what is missing)"


class Fence(Protocol):
    """What stands around every command that is run for a model. Safe in any thread; each command gets its own."""

    @property
    def policy(self) -> SandboxPolicy:
        """What can be reached inside."""
        ...

    @property
    def level(self) -> str:
        """What it is made of, as results and journals name it: `bubblewrap+seccomp+landlock`."""
        ...

    @property
    def repositories(self) -> Repositories:
        """The git repositories inside the workspace."""
        ...

    def wrap(self, command: Command) -> Command:
        """Return the command with the fence around it; started in the workspace it runs in the workspace."""
        ...

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return what of an environment passes into the fence."""
        ...

    def unseen(self, program: str, *, path: str = os.defpath, cwd: str = "") -> tuple[str, ...]:
        """Return the directories that would have to be shown for a program to start inside; see `sight`."""
        ...

    def showing(self, path: str) -> Fence:
        """Return the same fence with one more file or directory that can be read."""
        ...


@dataclass(frozen=True, slots=True)
class BubblewrapFence:
    """Namespaces and a view of the files by bubblewrap; the filter, limits and Landlock inside."""

    policy: SandboxPolicy
    ground: Ground
    binary: str
    repositories: Repositories = field(compare=False)
    at: str = ""
    """Where the workspace is, inside; its own path unless given."""
    egress: Egress | None = None
    """The way out to the policy's hosts; it ends with the last fence that has it."""
    scratch: Callable[[], str | None] | None = None
    """Returns a directory for files that come and go, which commands may change like the workspace."""

    @property
    def level(self) -> str:
        """What it is made of."""
        return "bubblewrap+seccomp+landlock" if self.ground.landlock else "bubblewrap+seccomp"

    def wrap(self, command: Command) -> Command:
        """Return the command with the fence around it."""
        way_out = "" if self.egress is None else self.egress.path
        scratch = "" if self.scratch is None else self.scratch() or ""
        kept = kept_beneath(self.policy, self.repositories)
        more = {"egress": way_out, "scratch": scratch}
        return Command(fence_argv(self.policy, self.ground, self.binary, command.argv, self.at, kept=kept, **more))

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return what of an environment passes into the fence."""
        return fenced_environment(environment)

    def unseen(self, program: str, *, path: str = os.defpath, cwd: str = "") -> tuple[str, ...]:
        """Return the directories that would have to be shown for a program to start inside."""
        return unseen(self.policy, self.ground, program, path=path, cwd=cwd)

    def showing(self, path: str) -> Fence:
        """Return the same fence with one more file or directory that can be read."""
        return replace(self, policy=replace(self.policy, read_only_paths=(*self.policy.read_only_paths, path)))


@dataclass(frozen=True, slots=True)
class LandlockFence:
    """Landlock, the filter and limits, without namespaces: the fallback that a policy has to allow."""

    policy: SandboxPolicy
    ground: Ground
    temporary: str
    repositories: Repositories = field(compare=False)

    level: str = field(default="landlock+seccomp", init=False)

    def wrap(self, command: Command) -> Command:
        """Return the command with the fence around it."""
        return Command(alone_argv(self.policy, self.ground, self.temporary, command.argv))

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return what of an environment passes into the fence."""
        return fenced_environment(environment)

    def unseen(self, program: str, *, path: str = os.defpath, cwd: str = "") -> tuple[str, ...]:
        """Return the directories that would have to be shown for a program to start inside."""
        return unseen(self.policy, self.ground, program, path=path, cwd=cwd)

    def showing(self, path: str) -> Fence:
        """Return the same fence with one more file or directory that can be read."""
        return replace(self, policy=replace(self.policy, read_only_paths=(*self.policy.read_only_paths, path)))


def open_fence(policy: SandboxPolicy, *, binary: str = "bwrap", at: str = "", is_tried_in_place: bool = False) -> Fence:
    """Return a fence that was tried on this machine; `at` is where it has the workspace, its own path unless given.

    It is tried once a process around an empty folder, or now and around its own workspace with `is_tried_in_place`.
    Places of keys and passwords are empty inside, also where the workspace holds them.
    Raises `Refusal` where none can be made: nothing is run without one. Its details have `BARRED` where one could be
    made elsewhere on this machine, and it is the workspace that is in the way.
    """
    if wrong := loaders_in(policy.environment or {}):
        raise Refusal("INVALID_INPUT", f"a sandbox's environment cannot set {', '.join(wrong)}", hint="leave it out")
    if os.name != "posix" or not hasattr(os, "O_PATH"):
        raise _none("this is no Linux")
    home = os.path.expanduser("~")
    ground = Ground.here(SecretPlaces.usual(home).places)
    if is_beneath(os.path.realpath(home), ground.prefix):
        raise _none(f"the interpreter's directory {ground.prefix!r} is visible inside, and holds the home")
    if ground.machine not in MACHINES:
        raise _none(f"there is no filter of system calls for {ground.machine!r}")
    path, inside = find_program(binary, os.environ, policy.root), Repositories(policy.root)
    if path is None:
        problem = f"{binary!r} is not installed"
    elif is_tried_in_place:
        problem = _ending(BubblewrapFence(policy, ground, path, inside, at).wrap(Command(("/bin/true",))), policy.root)
    else:
        problem = _problem(path, os.geteuid())
    if path is not None and not problem:
        return BubblewrapFence(policy, ground, path, inside, at, _way_out(policy))
    if not policy.landlock_alone:
        is_barred = is_tried_in_place and path is not None and not _problem(path, os.geteuid())
        raise _barred(problem) if is_barred else _none(problem)
    if policy.hosts:
        raise _none(f"{problem}, and only bubblewrap's fence has a way out to some hosts")
    if ground.landlock < _LANDLOCK_MIN:
        raise _none(f"{problem}, and this kernel's Landlock (version {ground.landlock}) is too old")
    temporary = tempfile.mkdtemp(prefix="plait-fence-")
    fence = _OwnedFence(policy, ground, temporary, inside)
    weakref.finalize(fence, shutil.rmtree, temporary, True)
    if problem := _ending(fence.wrap(Command(("/bin/true",))), policy.root):
        raise _none(problem)
    return fence


class _OwnedFence(LandlockFence):
    """One whose temporary directory goes with it."""

    __slots__ = ("__weakref__",)


def _way_out(policy: SandboxPolicy) -> Egress | None:
    try:
        return Egress(Allowlist.of(policy.hosts)) if policy.hosts else None
    except OSError as error:
        raise _none(f"its way out cannot be made ({error})") from error


def _barred(reason: str) -> Refusal:
    message = f"no sandbox can be made around this folder, though elsewhere one can: {reason}"
    hint = "take out of the folder what is in the way; the user can do without a sandbox: --sandbox off"
    return Refusal("FORBIDDEN", message, hint=hint, details={BARRED: True})


def _none(reason: str) -> Refusal:
    return Refusal("UNSUPPORTED_PLATFORM", f"no sandbox can be made here: {reason}", hint=_HELP)


@cache
def _problem(binary: str, user: int) -> str:
    """Say why bubblewrap's fence does not work for this user, empty when it does: found by running something in it."""
    with tempfile.TemporaryDirectory(prefix="plait-fence-") as folder:
        fence = BubblewrapFence(SandboxPolicy(folder), Ground.here(), binary, Repositories(folder))
        return _ending(fence.wrap(Command(("/bin/true",))), folder)


def _ending(command: Command, folder: str) -> str:
    try:
        ran = subprocess.run(
            command.argv,
            cwd=folder,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run ({error})"
    said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if ran.returncode == 0 else (said[0] if said else f"it ends with {ran.returncode}")
