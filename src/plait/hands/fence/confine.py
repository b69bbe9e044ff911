"""Gives up what a command may not have, then becomes it; a program of its own: `python -I -S … confine.main()`.

Floor: 2. Owns: the last steps before a fenced command: kept names, limits, capabilities, Landlock, the filter; never: a
module of plait (it is started for every command, and has to be quick).

Its arguments are `name=value` steps, `--`, and the command. Whatever cannot be done ends it with `FAILED` and one line
on standard error: a command never runs with less of a fence than was asked for.

- `root=DIR`: where relative paths of `pin`, `keep` and `hide` begin.
- `pin=PATH`: a directory that cannot be moved away. `keep=PATH`: stays as it is. `hide=PATH`: is empty.
  Names that do not exist are passed over. All of it is resolved inside the fence, where there is nothing else to reach.
- `limit=NAME:NUMBER`: a resource limit, by the name that `resource` has for it.
- `more=NUMBER`: so many processes more than this user has now; where no process namespace counts them.
- `landlock=MODE`: `inside` a fence that has its own network and processes, or `alone`; `read=PATH`, `write=PATH`.
- `filter=HEX`: the filter for system calls.
- `forward=PORT:PATH`: connections to a port of loopback go to a socket (`forward`); done last, from inside the fence.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import stat
import sys
from _signal import SIG_DFL, SIGPIPE, SIGTERM, SIGXFSZ, signal  # type: ignore[import-not-found]  # as in `supervisor`

FAILED = 126
_BASE = 10

_LIBC = ctypes.CDLL(None, use_errno=True)
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CAPSET = (("x86_64", 126), ("aarch64", 91))
_HERE = -100
_EMPTY_PATH, _RECURSIVE = 0x1000, 0x8000
_CLONE_TREE = 1 | _EMPTY_PATH | _RECURSIVE | os.O_CLOEXEC
_FROM_EMPTY_TO_EMPTY = 0x4 | 0x40
_READ_ONLY = 1
_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_PATH = getattr(os, "O_PATH", 0) | os.O_CLOEXEC
_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER_MODE = 38, 22, 2
_DROP_BOUND, _AMBIENT, _CLEAR_AMBIENT = 24, 47, 4
_READ = 1 | 1 << 2 | 1 << 3
"""Executing, reading a file, listing a directory."""
_OF_FILES = 1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_DEVICES = 1 << 6 | 1 << 11
"""Making character and block devices: nobody may."""
_FILES_BY_VERSION = (0, 13, 14, 15, 15, 16)
"""How many kinds of access to files each version knows; later ones as many as the last."""


def landlock_version() -> int:
    """Return the version of Landlock that this kernel has, 0 for none."""
    version: int = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, version)


def _call(name: str, *arguments: object) -> int:
    number = {"open_tree": _OPEN_TREE, "move_mount": _MOVE_MOUNT, "mount_setattr": _MOUNT_SETATTR}.get(name)
    number = number or {"create": _CREATE_RULESET, "add": _ADD_RULE, "restrict": _RESTRICT_SELF}[name]
    result: int = _LIBC.syscall(number, *arguments)
    if result < 0:
        raise _failure(name)
    return result


def _failure(name: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{name}: {os.strerror(number)}")


def _prctl(option: int, *values: int) -> int:
    padded = (*values, 0, 0, 0, 0)[:4]
    result: int = _LIBC.prctl(option, *(ctypes.c_ulong(value) for value in padded))
    return result


def _open(root: str, path: str) -> int | None:
    """Open a name for mounting, without following links on the way; None for one that does not exist."""
    fd = os.open(root, _PATH | os.O_DIRECTORY)
    for name in path.strip("/").split("/"):
        above = fd
        try:
            fd = os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=above)
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                # Its target is what counts, and lies inside the fence or nowhere.
                os.close(fd)
                fd = os.open(name, _PATH, dir_fd=above)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise
        finally:
            os.close(above)
    return fd


def _mount(onto: int, source: int, *, is_read_only: bool) -> None:
    tree = _call("open_tree", source, b"", _CLONE_TREE)
    if is_read_only:
        attributes = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, 0, 0)
        flags = _EMPTY_PATH | _RECURSIVE
        _call("mount_setattr", tree, b"", flags, ctypes.byref(attributes), ctypes.c_size_t(32))
    _call("move_mount", tree, b"", onto, b"", _FROM_EMPTY_TO_EMPTY)
    os.close(tree)


def leave_for_own_mounts() -> None:
    """Enter a user and a mount namespace in which this process may mount, as the user that it is.

    bubblewrap gives an ordinary user no right to the mounts that it made for it.
    """
    user, group = os.geteuid(), os.getegid()
    if _LIBC.unshare(_NEW_USER | _NEW_MOUNTS) < 0:
        raise _failure("unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)


def arrange(root: str, steps: list[tuple[str, str]]) -> None:
    """Keep and hide names, by mounts that only this command sees."""
    if steps:
        leave_for_own_mounts()
    for what, path in steps:
        fd = _open("/" if path.startswith("/") else root, path)
        if fd is None:
            continue
        is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
        source = fd
        if what == "hide":
            source = os.open("/run/plait/empty" if is_directory else "/dev/null", _PATH)
        _mount(fd, source, is_read_only=what != "pin" or not is_directory)
        os.close(fd)


def limit(text: str) -> None:
    """Lower one resource limit; what is lower already stays."""
    name, _, value = text.partition(":")
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    wanted = int(value, _BASE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(kind, (wanted, wanted))


def limit_processes(more: int) -> None:
    """Let this user have so many processes more than now; the kernel counts all of a user's together."""
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        try:
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == user:
                count += os.stat(f"/proc/{name}/task").st_nlink - 2
        except OSError:
            continue  # it has ended
    limit(f"RLIMIT_NPROC:{count + more}")


def give_up_powers() -> None:
    """Drop every capability, now and for whatever is executed, and every way to get one."""
    if _prctl(_NO_NEW_PRIVILEGES, 1) < 0:
        raise _failure("no_new_privs")
    for capability in range(64):
        if _prctl(_DROP_BOUND, capability) < 0:
            break  # the last one, or none may be dropped: then there is none to have
    _prctl(_AMBIENT, _CLEAR_AMBIENT)
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    number = dict(_CAPSET).get(os.uname().machine)
    if number is None or _LIBC.syscall(number, ctypes.byref(header), ctypes.byref(none)) < 0:
        raise _failure("capset")


def restrict_files(mode: str, readable: list[str], writable: list[str]) -> None:
    """Have Landlock refuse every file but these, and `alone` connections and signals to others too."""
    version = landlock_version()
    if not version:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    handled = (1 << _FILES_BY_VERSION[min(version, 5)]) - 1
    net = 3 if mode == "alone" and version >= 4 else 0
    scopes = 3 if version >= 6 else 0
    attributes = (ctypes.c_uint64 * 3)(handled, net, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _call("create", ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    for path in readable:
        _allow(rules, path, handled & _READ)
    for path in writable:
        _allow(rules, path, handled & ~_DEVICES)
    _call("restrict", rules, 0)
    os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, _PATH)
    except OSError:
        return  # what is not there is not allowed either
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        access &= _OF_FILES
    rule = access.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
    _call("add", rules, 1, ctypes.c_char_p(rule), 0)
    os.close(fd)


def install(code: bytes) -> None:
    """Have the kernel ask a filter about every system call from now on."""
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    program = Program(len(code) // 8, ctypes.addressof(buffer))
    if _LIBC.prctl(_SET_FILTER, ctypes.c_ulong(_FILTER_MODE), ctypes.byref(program), 0, 0) < 0:
        raise _failure("seccomp")


def confine(steps: list[tuple[str, str]]) -> None:
    """Do all that was asked, in the order in which each step is still allowed."""
    chosen: dict[str, list[str]] = {}
    for name, value in steps:
        chosen.setdefault(name, []).append(value)
    root = (*chosen.get("root", []), "/")[0]
    arrange(root, [step for step in steps if step[0] in ("pin", "keep", "hide")])
    for text in chosen.get("limit", []):
        limit(text)
    for text in chosen.get("more", []):
        limit_processes(int(text, _BASE))
    give_up_powers()
    os.closerange(3, 1 << 20)
    for mode in chosen.get("landlock", []):
        restrict_files(mode, chosen.get("read", []), chosen.get("write", []))
    for code in chosen.get("filter", []):
        install(bytes.fromhex(code))
    for text in chosen.get("forward", []):
        port, _, path = text.partition(":")
        __import__("forward").start(int(port, _BASE), path)


def main() -> None:
    """Take the steps, then run the command in this process's place."""
    arguments = sys.argv[2:]
    end = arguments.index("--")
    command = arguments[end + 1 :]
    try:
        for number in (SIGPIPE, SIGXFSZ, SIGTERM):
            signal(number, SIG_DFL)
        confine([(name, value) for name, _, value in (step.partition("=") for step in arguments[:end])])
    except (OSError, ValueError) as error:
        _refuse(f"the fence could not be closed, so the command was not run: {error}", FAILED)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        _refuse(f"{command[0]}: {error.strerror}", 127 if error.errno == errno.ENOENT else FAILED)


def _refuse(text: str, code: int) -> None:
    os.write(2, f"plait: {text}\n".encode("utf-8", "replace"))
    os._exit(code)
