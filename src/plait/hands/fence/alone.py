"""A fence without bubblewrap: Landlock, the filter and limits; from policy to arguments.

Floor: 2. Owns: the arguments, as a pure function; never: deciding that this is enough.

It has no namespaces: other processes are seen (their secrets are not), root's are not counted, all sockets are refused
instead of cut off from the network, and a protected name inside a writable directory can be changed, because Landlock
knows whole trees only.
"""

from __future__ import annotations

from typing import Final

from plait.hands.fence.bubblewrap import confine_argv, limit_steps
from plait.hands.fence.ground import Ground
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.fence.seccomp import filter_for

_READABLE_MORE: Final = ("/proc", "/sys/devices/system/cpu")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_OF_ETC: Final = (
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf", "localtime", "timezone", "alternatives"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "bash.bashrc", "profile", "inputrc", "terminfo"),
    *("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "gitconfig", "mime.types", "locale.alias", "os-release"),
    *("services", "protocols", "python3", "perl", "java", "login.defs", "environment", "magic", "npmrc"),
)


def alone_argv(policy: SandboxPolicy, ground: Ground, temporary: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return what runs a command with Landlock alone; `temporary` is the one directory it may fill besides."""
    system = [path for path in ground.system if path != "/etc"]
    readable = [*system, *(f"/etc/{name}" for name in _OF_ETC), *_READABLE_MORE, ground.prefix, ground.program]
    readable += [policy.root, *policy.read_only_outside]
    code = filter_for(ground.machine, families=())
    steps = (
        *limit_steps(policy.limits, counts_processes=False),
        *(() if ground.is_root else (f"more={policy.limits.processes}",)),
        "landlock=alone",
        *(f"read={path}" for path in readable),
        *(f"write={path}" for path in (*policy.writable, temporary, *_DEVICES)),
        *(() if code is None else (f"filter={code.hex()}",)),
    )
    environment = (f"HOME={temporary}", f"TMPDIR={temporary}")
    extra = tuple(f"{name}={value}" for name, value in (policy.environment or {}).items())
    started = ("/usr/bin/env", *environment, *extra, *confine_argv(ground.interpreter, ground.program))
    return (*started, *steps, "--", *argv)
