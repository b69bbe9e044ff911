"""A fence of bubblewrap's: from policy to arguments.

Floor: 2. Owns: the arguments, as a pure function; never: running anything, looking at the machine (`ground`).

Outside in: a shell that TERM does not end, so that the command is asked and not the fence; as root a process namespace
with a highest id; bubblewrap with its namespaces and its view of the files; `confine`, which gives up the rest.
"""

from __future__ import annotations

import os
from typing import Final

from plait.hands.fence.ground import Ground
from plait.hands.fence.obeyed import NOTHING_MORE, Kept
from plait.hands.fence.policy import PINNED, ResourceLimits, SandboxPolicy, is_beneath
from plait.hands.fence.seccomp import filter_for

HOME: Final = "/tmp/home"
PROGRAM: Final = "/run/plait/program"
EGRESS: Final = "/run/plait/egress"
PROXY_PORT: Final = 3_128
_PROXIED: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_NOT_PROXIED: Final = ("NO_PROXY", "no_proxy")
_EMPTY: Final = "/run/plait/empty"
_START: Final = "import sys; sys.path.append(sys.argv[1]); import confine; confine.main()"
_PATIENT: Final = 'trap "" TERM; exec "$@"'
"""Programs inherit that a signal is ignored; `confine` makes it count again for the command."""
_COUNTED: Final = 'trap "" TERM; echo "$0" > /proc/sys/kernel/pid_max && exec "$@"'
_IDS_MIN: Final = 301
"""A highest process id below this is refused by the kernel."""


def fence_argv(
    policy: SandboxPolicy,
    ground: Ground,
    bwrap: str,
    argv: tuple[str, ...],
    at: str = "",
    *,
    egress: str = "",
    scratch: str = "",
    kept: Kept = NOTHING_MORE,
) -> tuple[str, ...]:
    """Return what runs a command inside the fence.

    `at` is the workspace's path in there, its own unless given; `egress` the socket of the proxy that is the way out,
    `scratch` a directory for files that come and go, which can be changed too; `kept` is what stays as it is besides
    the names of the policy.
    """
    place = at or policy.root
    confined = (
        *confine_argv(ground.interpreter, PROGRAM),
        f"root={place}",
        *_kept_steps(policy, ground, kept),
        *_inner_steps(policy, ground, place, scratch),
        *((f"forward={PROXY_PORT}:{EGRESS}",) if egress else ()),
        *("--", *argv),
    )
    shared = ("--bind", scratch, scratch) if scratch else ()
    files = (
        *_files(policy, ground, place),
        *shared,
        *_way_out(egress),
        "--remount-ro",
        "/",
        *_variables(policy, egress),
    )
    chdir = ("--chdir", place) if place != policy.root else ()
    inner = (bwrap, *_namespaces(is_root=ground.is_root), *files, *chdir, "--", *confined)
    if ground.is_root and ground.counts_processes:
        ids = str(max(_IDS_MIN, policy.limits.processes))
        apart = ("--unshare-user", "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/")
        inner = (bwrap, *apart, "--", "/bin/sh", "-c", _COUNTED, ids, *inner)
    return ("/bin/sh", "-c", _PATIENT, "sh", *inner)


def confine_argv(interpreter: str, folder: str) -> tuple[str, ...]:
    """Return how `confine` is started; its steps follow."""
    return (interpreter, "-I", "-S", "-B", "-c", _START, folder)


def limit_steps(limits: ResourceLimits, *, counts_processes: bool) -> tuple[str, ...]:
    """Return the steps that lower resource limits."""
    values = {
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": limits.processes if counts_processes else None,
        "RLIMIT_DATA": limits.memory_bytes,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CPU": limits.cpu_seconds,
    }
    return tuple(f"limit={name}:{value}" for name, value in values.items() if value is not None)


def _namespaces(*, is_root: bool) -> tuple[str, ...]:
    return (
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--hostname", "plait", "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL"),
        # Without it the kernel lets nobody map user 0, as `confine` does; it is gone before the command.
        *(("--cap-add", "CAP_SETFCAP") if is_root else ()),
    )


def _files(policy: SandboxPolicy, ground: Ground, place: str) -> tuple[str, ...]:
    size = str(policy.limits.temporary_bytes)
    return (
        *_read_only(ground, policy),
        *("--proc", "/proc"),
        *(part for name in ground.proc_kept for part in ("--ro-bind", f"/proc/{name}", f"/proc/{name}")),
        *(part for name in ground.proc_hidden for part in ("--ro-bind", "/dev/null", f"/proc/{name}")),
        *("--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"),
        *("--size", size, "--tmpfs", "/tmp", "--dir", HOME, "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),
        # The workspace may lie in one of them.
        *(part for path in _beneath_tmp(policy) for part in ("--ro-bind-try", path, path)),
        *_workspace(policy, place),
        *("--ro-bind", ground.program, PROGRAM, "--dir", _EMPTY),
    )


def _way_out(egress: str) -> tuple[str, ...]:
    return ("--ro-bind", egress, EGRESS) if egress else ()


def _variables(policy: SandboxPolicy, egress: str) -> tuple[str, ...]:
    values = {"HOME": HOME, "TMPDIR": "/tmp"}
    if egress:
        values |= dict.fromkeys(_PROXIED, f"http://127.0.0.1:{PROXY_PORT}")
        values |= dict.fromkeys(_NOT_PROXIED, "localhost,127.0.0.1,::1")
    values |= policy.environment or {}
    return tuple(part for name, value in values.items() for part in ("--setenv", name, value))


def _read_only(ground: Ground, policy: SandboxPolicy) -> tuple[str, ...]:
    shown = [*ground.system]
    if not any(is_beneath(ground.prefix, path) for path in shown):
        shown.append(ground.prefix)
    shown += [path for path in policy.read_only_outside if not _is_temporary(path)]
    return (
        *(part for path in shown for part in ("--ro-bind-try", path, path)),
        *(part for target, name in ground.links for part in ("--symlink", target, name)),
        *(part for path in ground.hidden_files for part in ("--ro-bind", "/dev/null", path)),
        *(part for path in ground.hidden_directories for part in ("--tmpfs", path, "--remount-ro", path)),
    )


def _beneath_tmp(policy: SandboxPolicy) -> list[str]:
    return [path for path in policy.read_only_outside if _is_temporary(path)]


def _is_temporary(path: str) -> bool:
    """Say whether a path lies where there is another directory inside."""
    return any(is_beneath(path, place) for place in ("/tmp", "/var/tmp"))


def _workspace(policy: SandboxPolicy, place: str) -> tuple[str, ...]:
    if policy.root in policy.writable:
        return ("--bind", policy.root, place)
    inside = [os.path.relpath(path, policy.root) for path in policy.writable]
    parts = (part for path in inside for part in ("--bind-try", f"{policy.root}/{path}", f"{place}/{path}"))
    return ("--ro-bind", policy.root, place, *parts)


def _kept_steps(policy: SandboxPolicy, ground: Ground, kept: Kept) -> tuple[str, ...]:
    hidden = [os.path.relpath(path, policy.root) for path in ground.secrets if is_beneath(path, policy.root)]
    return (
        *(f"pin={path}" for path in (*PINNED, *kept.pinned)),
        *(f"keep={path}" for path in (*policy.kept, *kept.names)),
        *(f"hide={path}" for path in hidden if path != "."),
    )


def _inner_steps(policy: SandboxPolicy, ground: Ground, place: str, scratch: str) -> tuple[str, ...]:
    steps: list[str] = []
    steps += limit_steps(policy.limits, counts_processes=not ground.is_root)
    if ground.landlock:
        inside = [os.path.normpath(os.path.join(place, os.path.relpath(path, policy.root))) for path in policy.writable]
        steps += [
            "landlock=inside",
            "read=/",
            *(f"write={path}" for path in (*inside, "/tmp", "/dev", *filter(None, (scratch,)))),
        ]
    code = filter_for(ground.machine)
    if code is not None:
        steps.append(f"filter={code.hex()}")
    return tuple(steps)
