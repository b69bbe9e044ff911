"""The system calls that a fenced command is refused, as a filter for the kernel.

Floor: 2. Owns: the list and its bytes; never: installing it (`confine`).

A filter is a program of the kernel's packet filter: eight bytes an instruction. It says no to what a command inside
a fence has no use for and what ways out of fences were made of: new namespaces and mounts, kernel keys, other
processes' memory, rings that do system calls unseen, rare socket families, typing into a terminal. A foreign machine's
calls end the process: their numbers mean something else.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
DENY: Final = _ERRNO | errno.EPERM
NO_FAMILY: Final = _ERRNO | errno.EAFNOSUPPORT
NO_CALL: Final = _ERRNO | errno.ENOSYS

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_NUMBER_AT: Final = 0
_MACHINE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_X32_BIT: Final = 0x40000000

NAMESPACES: Final = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""Flags of `clone` that make namespaces: mount, cgroup, UTS, IPC, user, process, network."""
FAMILIES: Final = (1, 2, 10, 16)
"""Socket families that a fence with a network of its own allows: local, IPv4, IPv6, netlink."""
_IOCTLS: Final = (0x5412, 0x541C)
"""Typing into a terminal, and the console's own tricks: TIOCSTI, TIOCLINUX."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of one architecture."""

    audit: int
    denied: Mapping[str, int]
    clone: int
    ioctl: int
    socket: int
    has_x32: bool = False


_NEW_EVERYWHERE: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}
CLONE3: Final = 435
"""The same number everywhere. Its flags are in memory, where a filter cannot look: programs fall back to `clone`."""

_X86_64: Final = {
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "bpf": 321,
    "perf_event_open": 298,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "userfaultfd": 323,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "acct": 163,
    "iopl": 172,
    "ioperm": 173,
    "modify_ldt": 154,
    "uselib": 134,
    "_sysctl": 156,
    "quotactl": 179,
    "syslog": 103,
    "settimeofday": 164,
    "clock_settime": 227,
    "clock_adjtime": 305,
    "adjtimex": 159,
    "vhangup": 153,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "lookup_dcookie": 212,
    "fanotify_init": 300,
}
_AARCH64: Final = {
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "unshare": 97,
    "setns": 268,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "bpf": 280,
    "perf_event_open": 241,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "userfaultfd": 282,
    "kexec_load": 104,
    "kexec_file_load": 294,
    "init_module": 105,
    "finit_module": 273,
    "delete_module": 106,
    "swapon": 224,
    "swapoff": 225,
    "reboot": 142,
    "sethostname": 161,
    "setdomainname": 162,
    "acct": 89,
    "quotactl": 60,
    "syslog": 116,
    "settimeofday": 170,
    "clock_settime": 112,
    "clock_adjtime": 266,
    "adjtimex": 171,
    "vhangup": 58,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "lookup_dcookie": 18,
    "fanotify_init": 262,
}
MACHINES: Final[Mapping[str, Machine]] = MappingProxyType(
    {
        "x86_64": Machine(0xC000003E, {**_X86_64, **_NEW_EVERYWHERE}, clone=56, ioctl=16, socket=41, has_x32=True),
        "aarch64": Machine(0xC00000B7, {**_AARCH64, **_NEW_EVERYWHERE}, clone=220, ioctl=29, socket=198),
    }
)
"""By the name that `uname` gives them; no other machine has a filter here."""


def filter_for(machine: str, families: tuple[int, ...] = FAMILIES) -> bytes | None:
    """Return the filter for a machine, None for one that is not known; sockets are of `families` only."""
    known = MACHINES.get(machine)
    return None if known is None else b"".join(_program(known, families))


def _program(machine: Machine, families: tuple[int, ...]) -> list[bytes]:
    start = [_load(_MACHINE_AT), *_unless(_EQUAL, machine.audit, KILL), _load(_NUMBER_AT)]
    if machine.has_x32:
        start += _when(_AT_LEAST, _X32_BIT, KILL)
    calls = [step for number in sorted(machine.denied.values()) for step in _when(_EQUAL, number, DENY)]
    calls += _when(_EQUAL, CLONE3, NO_CALL)
    flags = [_load(_ARGUMENTS_AT), *_when(_ANY_BIT, NAMESPACES, DENY), _return(ALLOW)]
    asked = [_load(_ARGUMENTS_AT + 8), *(step for code in _IOCTLS for step in _when(_EQUAL, code, DENY))]
    known = [_load(_ARGUMENTS_AT), *(step for family in families for step in _when(_EQUAL, family, ALLOW))]
    return [
        *start,
        *calls,
        *_block(machine.clone, flags),
        *_block(machine.ioctl, [*asked, _return(ALLOW)]),
        *_block(machine.socket, [*known, _return(NO_FAMILY)]),
        _return(ALLOW),
    ]


def _step(code: int, value: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, when, otherwise, value)


def _load(offset: int) -> bytes:
    return _step(_LOAD, offset)


def _return(verdict: int) -> bytes:
    return _step(_RETURN, verdict)


def _when(test: int, value: int, verdict: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _return(verdict)]


def _unless(test: int, value: int, verdict: int) -> list[bytes]:
    return [_step(test, value, 1, 0), _return(verdict)]


def _block(number: int, steps: list[bytes]) -> list[bytes]:
    """Steps for one call; what is loaded is its number again only where it is another call, and every block returns."""
    return [_step(_EQUAL, number, 0, len(steps)), *steps]
