"""Proves on this machine what a fence promises, by trying to break each promise from inside.

Floor: 2. Owns: the targets, the one fenced process that goes for them, the table of what it got; never: showing it.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, RunOptions
from plait.hands.fence import attempts
from plait.hands.fence.fence import BubblewrapFence, Fence, open_fence
from plait.hands.fence.ground import Ground
from plait.hands.fence.policy import ResourceLimits, SandboxPolicy
from plait.hands.fence.seccomp import MACHINES
from plait.hands.process import run
from plait.hands.process_tree import Tree, stop_marked
from plait.hands.secret_places import SecretPlaces

Verdict = Literal["proved", "not proved", "not available"]
_PROMISES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "files",
        "nothing outside the workspace is changed",
        ("write_system", "write_programs", "write_outside", "change_outside", "link_outside"),
    ),
    ("files", "homes and secrets are not read", ("read_outside", "read_home", "read_passwords", "read_through_root")),
    ("files", "read-only paths stay as they are", ("read_only_path",)),
    ("files", "git's hooks and settings stay as they are", ("git_hooks", "git_config", "git_moved")),
    ("files", "so do those of a repository inside, and what editors obey there", ("nested_hooks", "nested_settings")),
    ("files", "plait's own settings stay as they are", ("own_settings",)),
    ("files", "kernel settings stay as they are", ("kernel_settings",)),
    ("processes", "memory and environment of others are not read", ("read_environment", "read_memory")),
    ("processes", "others are not signalled", ("signal_controller",)),
    ("processes", "others are not seen", ("sees_processes",)),
    ("processes", "nothing is left running", ("left_running",)),
    ("network", "no TCP", ("tcp",)),
    ("network", "no UDP", ("udp",)),
    ("network", "no sockets of this machine (docker, ssh-agent, dbus)", ("unix_socket", "abstract_socket")),
    (
        "network",
        "no raw, packet, virtual-machine or kernel sockets",
        ("packet_socket", "raw_socket", "kernel_crypto_socket", "machine_socket"),
    ),
    ("powers", "no user namespace", ("user_namespace",)),
    ("powers", "no capability, no set-user-id program", ("new_privileges", "capabilities", "become_another")),
    ("powers", "no forbidden system call", ("calls",)),
    ("powers", "no call by another machine's numbers", ("foreign_calls",)),
    ("powers", "no typing into the user's terminal", ("type_into_terminal", "terminal")),
    ("inheritance", "no open file and no variable of plait's", ("descriptors", "variables")),
    ("limits", "size of a file", ("file_size",)),
    ("limits", "memory of a process", ("memory",)),
    ("limits", "open files", ("open_files",)),
    ("limits", "processes at a time", ("processes",)),
    ("use", "the workspace can be written to", ("inside_write",)),
)
_BEYOND_LANDLOCK: Final = frozenset(
    {
        *("git_hooks", "git_moved", "git_config", "nested_hooks", "nested_settings", "own_settings", "read_only_path"),
        *("sees_processes", "left_running"),
    }
)
"""What Landlock alone does not promise; the limit of processes besides."""
_VARIABLE: Final = "PLAIT_PROBE_TOKEN"
_PROBE_S: Final = 60.0
_DEAD_S: Final = 2.0
"""How long the processes of a fence may take to end after its command."""
_PROCESSES: Final = 64
_BYTES: Final = 1 << 29
_AT_HOME_MAX: Final = 50
_KEPT: Final = CaptureLimits(head_bytes=1 << 20, tail_bytes=0)


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that a fence promises, and whether it was kept."""

    area: str
    promise: str
    verdict: Verdict
    detail: str

    def to_dict(self) -> dict[str, str]:
        """Return `{area, promise, verdict, detail}`."""
        return {"area": self.area, "promise": self.promise, "verdict": self.verdict, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of trying."""

    level: str
    """What the fence is made of; empty where there is none."""
    promises: tuple[Promise, ...]
    problem: str = ""
    """Why there is no fence."""

    @property
    def holds(self) -> bool:
        """True where there is a fence and no promise of it was broken."""
        return bool(self.level) and all(promise.verdict != "not proved" for promise in self.promises)

    def to_dict(self) -> dict[str, object]:
        """Return the proof as JSON."""
        rows = [promise.to_dict() for promise in self.promises]
        return {"ok": self.holds, "level": self.level, "problem": self.problem, "promises": rows}


def prove_fence(policy: SandboxPolicy, *, binary: str = "bwrap") -> Proof:
    """Try to break every promise of the fence that `policy` gets here, once in the life of a process.

    It is tried in a directory of its own with the policy's limits and kind of fence, not in the policy's workspace.
    At most 700 processes are started at a time, and about a minute is waited; never raises for a missing fence.
    """
    return _prove(binary, policy.landlock_alone, policy.limits, (os.geteuid(), os.environ.get("PATH")))


@cache
def _prove(binary: str, landlock_alone: bool, limits: ResourceLimits, _who: object) -> Proof:
    with ExitStack() as stack:
        target = stack.enter_context(_targets())
        # Of their own size, so that it is the limit that refuses and not the machine.
        small = replace(
            limits,
            processes=min(limits.processes, _PROCESSES),
            memory_bytes=min(limits.memory_bytes, _BYTES),
            file_bytes=min(limits.file_bytes, _BYTES),
        )
        policy = SandboxPolicy(
            target["workspace"], read_only_paths=("read-only",), limits=small, landlock_alone=landlock_alone
        )
        target |= {name: getattr(small, name) for name in ("file_bytes", "memory_bytes", "open_files", "processes")}
        try:
            fence = open_fence(policy, binary=binary)
            said = _tried(fence, target)
        except Refusal as refusal:
            return Proof("", (), refusal.message)
        return Proof(fence.level, tuple(_promises(fence, said)))


def _tried(fence: Fence, target: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    machine = os.uname().machine
    if isinstance(fence, BubblewrapFence) and fence.ground.is_root:
        target = {**target, "processes": max(target["processes"], 301)}
    target = {**target, "calls": dict(MACHINES[machine].denied) if machine in MACHINES else {}}
    source = Path(attempts.__file__).read_text()
    interpreter = fence.ground.interpreter  # type: ignore[attr-defined]  # both kinds have one
    command = fence.wrap(Command((interpreter, "-I", "-S", "-c", source, json.dumps(target))))
    mark = os.urandom(8).hex()
    options = RunOptions(
        cwd=target["workspace"],
        environment=fence.environment({**os.environ, _VARIABLE: "canary"}),
        timeout_s=_PROBE_S,
        separates_errors=True,
        limits=_KEPT,
        mark=mark,
    )
    done = run(command, options)
    tree = Tree(0, mark)
    left = [] if tree.wait_until_dead(_DEAD_S) else tree.members()
    stop_marked(mark)
    try:
        said: dict[str, tuple[str, str]] = json.loads(done.output.head)
    except ValueError:
        errors = "" if done.errors is None else done.errors.head.strip().splitlines()[-1:]
        raise Refusal(
            "UNSUPPORTED_PLATFORM", f"the fence was not proved: its probe did not end ({done.end}) {errors}"
        ) from None
    if not os.path.exists(f"{target['outside']}/was-here"):
        # What was made under that name was the fence's own, and went with it.
        said["write_outside"] = ("shut", "nothing was made outside")
    said["left_running"] = ("open", f"{len(left)} processes") if left else ("shut", "the tree has ended")
    calls = {name: said.pop(name) for name in list(said) if name.startswith("call:")}
    let_through = sorted(name.removeprefix("call:") for name, (state, _) in calls.items() if state == "open")
    said["calls"] = ("open", ", ".join(let_through)) if let_through else ("shut", f"{len(calls)} calls refused")
    state, detail = said["inside_write"]
    said["inside_write"] = ("shut" if state == "open" else "open", detail)
    return said


def _promises(fence: Fence, said: Mapping[str, tuple[str, str]]) -> Iterator[Promise]:
    is_alone = not isinstance(fence, BubblewrapFence)
    ground: Ground = fence.ground  # type: ignore[attr-defined]  # both kinds have one
    counts = not ground.is_root if is_alone else ground.counts_processes
    for area, promise, names in _PROMISES:
        broken = [f"{name}: {said[name][1]}" for name in names if said[name][0] == "open"]
        if not broken:
            yield Promise(area, promise, "proved", _short(said[names[0]][1]))
        elif (is_alone and _BEYOND_LANDLOCK.intersection(names)) or (names == ("processes",) and not counts):
            yield Promise(area, promise, "not available", f"not in a fence of {fence.level}")
        else:
            yield Promise(area, promise, "not proved", _short("; ".join(broken)))


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:199]}…"


def _at_home(home: str) -> list[str]:
    """Return files of the user's that could be read, those of keys first."""
    found = [path for path in SecretPlaces.usual(home).places if os.path.exists(path)]
    try:
        with os.scandir(home) as entries:
            found += [entry.path for entry in islice(entries, _AT_HOME_MAX) if entry.is_file()]
    except OSError:
        pass  # a home that cannot be read here will not be read in there
    return found


@contextmanager
def _targets() -> Iterator[dict[str, Any]]:
    """Make a workspace, and around it what must not be reached."""
    with ExitStack() as stack:
        outside = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="plait-probe-")))
        local = f"{outside}/workspace"
        for name in (".git/hooks", ".plait", "read-only", "lib/.git/hooks", "lib/.vscode"):
            os.makedirs(f"{local}/{name}")
        Path(local, ".git/config").write_text("[core]\n")
        secret = Path(outside, "secret")
        secret.write_text("canary")
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = f"plait-probe-{os.urandom(8).hex()}"
        for address in (f"{outside}/socket", "\0" + abstract):
            peer = stack.enter_context(socket.socket(socket.AF_UNIX))
            peer.bind(address)
            peer.listen(1)
        yield {
            "workspace": local,
            "outside": outside,
            "secret": str(secret),
            "at_home": _at_home(os.path.expanduser("~")),
            "pid": os.getpid(),
            "tcp": list(listening.getsockname()),
            "socket": f"{outside}/socket",
            "abstract": abstract,
            "variable": _VARIABLE,
        }
