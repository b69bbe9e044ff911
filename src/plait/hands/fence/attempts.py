"""Tries everything that a fence forbids, from inside; a program of its own, which says as JSON what it got.

Floor: 2. Owns: the attempts; never: a module of plait, or anything that would do harm where an attempt succeeds.

Its argument is a JSON object with the targets. Each attempt ends with `open` and what was got, or `shut` and why not.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

Said = tuple[str, str]
_CONNECT_S = 2.0
_FORKS_MAX = 700
_SEEN = (errno.EPERM, errno.EACCES)


def _open(what: str) -> Said:
    return "open", what


def _shut(why: object) -> Said:
    return "shut", str(why)


def _attempt(act: Callable[[], object], got: str) -> Said:
    try:
        act()
    except (OSError, ValueError, MemoryError) as error:
        return _shut(getattr(error, "strerror", None) or repr(error))
    return _open(got)


def write(path: str) -> Said:
    """Make a file, and take it away again where that worked."""

    def act() -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(path)

    return _attempt(act, f"made {path}")


def change(path: str) -> Said:
    """Open a file for writing; nothing is written."""
    return _attempt(lambda: os.close(os.open(path, os.O_WRONLY)), f"{path} can be written to")


def read(path: str) -> Said:
    """Read a byte of a file, or a name of a directory."""

    def act() -> None:
        if os.path.isdir(path):
            if not os.listdir(path):
                raise OSError(errno.ENOENT, "it is empty")
            return
        with open(path, "rb") as file:
            if not file.read(1):
                raise OSError(errno.ENOENT, "it is empty")

    return _attempt(act, f"read {path}")


def leave(path: str) -> Said:
    """Make a file where it would be seen outside, and leave it: whoever asked looks for it."""
    return _attempt(lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)), f"made {path}")


def read_any(paths: list[str]) -> Said:
    """Read whichever of several can be."""
    for path in paths:
        said = read(path)
        if said[0] == "open":
            return said
    return _shut(f"none of {len(paths)} can be read")


def move(path: str) -> Said:
    """Rename something, and back where that worked."""

    def act() -> None:
        os.rename(path, path + ".moved")
        os.rename(path + ".moved", path)

    return _attempt(act, f"moved {path}")


def link(source: str, target: str) -> Said:
    """Give a file outside a name inside."""

    def act() -> None:
        os.link(source, target)
        os.unlink(target)

    return _attempt(act, f"linked {source}")


def connect(family: int, kind: int, address: object) -> Said:
    """Reach an address."""

    def act() -> None:
        with socket.socket(family, kind) as peer:
            peer.settimeout(_CONNECT_S)
            peer.connect(tuple(address) if isinstance(address, list) else address)  # type: ignore[arg-type]
            if kind == socket.SOCK_DGRAM:
                peer.send(b"out")

    return _attempt(act, f"reached {address}")


def family(number: int, kind: int = socket.SOCK_STREAM) -> Said:
    """Make a socket of a kind that is not for commands."""
    return _attempt(lambda: socket.socket(number, kind).close(), f"made a socket of family {number}")


def call(number: int) -> Said:
    """Do a system call with arguments that mean nothing; whatever gets as far as to say so was let through."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *(ctypes.c_long(0) for _ in range(6)))
    code = ctypes.get_errno()
    return _shut(os.strerror(code)) if result < 0 and code == errno.EPERM else _open(f"call {number} was let through")


def user_namespace() -> Said:
    """Become root of a namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) < 0:
        return _shut(os.strerror(ctypes.get_errno()))
    return _open("made a user namespace")


def foreign_call() -> Said:
    """Do a call by the numbers of another machine's programs (x32), in a child: it ends who tries."""
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return _shut("ended by SIGSYS") if os.WIFSIGNALED(status) else _open("it was let through")


def signal_to(pid: int) -> Said:
    """See whether a process could be signalled; none is sent."""
    return _attempt(lambda: os.kill(pid, 0), f"process {pid} can be signalled")


def sees(pid: int) -> Said:
    """Find a process by its id and its command line."""
    return _attempt(lambda: open(f"/proc/{pid}/cmdline", "rb").close(), f"process {pid} is seen")


def type_into_terminal() -> Said:
    """Type into a terminal."""

    def act() -> None:
        leader, follower = os.openpty()
        try:
            fcntl.ioctl(follower, 0x5412, b"x")
        finally:
            os.close(leader)
            os.close(follower)

    return _attempt(act, "typed into a terminal")


def terminal() -> Said:
    """Open the terminal of whoever runs this."""
    return _attempt(lambda: os.close(os.open("/dev/tty", os.O_RDWR)), "opened /dev/tty")


def become(user: int) -> Said:
    """Become another user."""
    return _attempt(lambda: os.setuid(user), f"became user {user}")


def status(name: str, wanted: str) -> Said:
    """Look at what the kernel says of this process."""
    with open("/proc/self/status") as file:
        value = next((line.split()[1] for line in file if line.startswith(name + ":")), "nothing")
    return _shut(f"{name} is {value}") if value == wanted else _open(f"{name} is {value}")


def descriptors() -> Said:
    """Look for open files that this process was not given."""
    found = []
    for fd in range(3, 256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return _open(f"descriptors {found} are open") if found else _shut("none is open")


def variable(name: str) -> Said:
    """Look for a variable."""
    return _open(f"{name} is set") if name in os.environ else _shut("not set")


def large_file(path: str, size: int) -> Said:
    """Make a file longer than allowed, without filling it."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        return _attempt(lambda: os.ftruncate(fd, size + 1), f"a file of {size + 1} bytes")
    finally:
        os.close(fd)
        os.unlink(path)


def much_memory(size: int) -> Said:
    """Ask for more memory than allowed, without using it."""
    import mmap

    return _attempt(lambda: mmap.mmap(-1, size + (1 << 20), flags=mmap.MAP_PRIVATE).close(), f"{size} bytes of memory")


def many_files(most: int) -> Said:
    """Look at the limit of open files."""
    value = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _shut(f"at most {value}") if value <= most else _open(f"up to {value} files")


def many_processes(most: int) -> Said:
    """Fork until it is refused, and never without end."""
    read_end, write_end = os.pipe()
    made, said = 0, _open("")
    while made < min(most + 16, _FORKS_MAX):
        try:
            child = os.fork()
        except OSError as error:
            said = _shut(f"{error.strerror} after {made}")
            break
        if child == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        made += 1
    os.close(write_end)
    for _ in range(made):
        os.wait()
    return said if said[0] == "shut" else _open(f"{made} processes at a time")


def _all(target: Mapping[str, Any]) -> dict[str, Callable[[], Said]]:
    local, outside = target["workspace"], target["outside"]
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    return {
        "write_system": lambda: write("/etc/plait-was-here"),
        "write_programs": lambda: write("/usr/bin/plait-was-here"),
        "write_outside": lambda: leave(f"{outside}/was-here"),
        "change_outside": lambda: change(target["secret"]),
        "link_outside": lambda: link(target["secret"], f"{local}/linked"),
        "read_outside": lambda: read(target["secret"]),
        "read_home": lambda: read_any(target["at_home"]),
        "read_passwords": lambda: read("/etc/shadow"),
        "read_environment": lambda: read(f"/proc/{target['pid']}/environ"),
        "read_memory": lambda: read(f"/proc/{target['pid']}/mem"),
        "read_through_root": lambda: read(f"/proc/{target['pid']}/root{target['secret']}"),
        "kernel_settings": lambda: change("/proc/sys/kernel/core_pattern"),
        "sees_processes": lambda: sees(target["pid"]),
        "signal_controller": lambda: signal_to(target["pid"]),
        "tcp": lambda: connect(socket.AF_INET, stream, target["tcp"]),
        "udp": lambda: connect(socket.AF_INET, datagram, ["192.0.2.1", 53]),
        "unix_socket": lambda: connect(socket.AF_UNIX, stream, target["socket"]),
        "abstract_socket": lambda: connect(socket.AF_UNIX, stream, "\0" + target["abstract"]),
        "packet_socket": lambda: family(17, socket.SOCK_RAW),
        "raw_socket": lambda: family(socket.AF_INET, socket.SOCK_RAW),
        "kernel_crypto_socket": lambda: family(38, socket.SOCK_SEQPACKET),
        "machine_socket": lambda: family(40),
        "user_namespace": user_namespace,
        "foreign_calls": foreign_call,
        "type_into_terminal": type_into_terminal,
        "terminal": terminal,
        "become_another": lambda: become(65_533 if os.getuid() == 0 else 0),
        "new_privileges": lambda: status("NoNewPrivs", "1"),
        "capabilities": lambda: status("CapEff", "0" * 16),
        "descriptors": descriptors,
        "variables": lambda: variable(target["variable"]),
        "git_hooks": lambda: write(f"{local}/.git/hooks/pre-commit"),
        "git_config": lambda: change(f"{local}/.git/config"),
        "git_moved": lambda: move(f"{local}/.git"),
        "nested_hooks": lambda: write(f"{local}/lib/.git/hooks/pre-commit"),
        "nested_settings": lambda: write(f"{local}/lib/.vscode/tasks.json"),
        "own_settings": lambda: write(f"{local}/.plait/hooks.json"),
        "read_only_path": lambda: write(f"{local}/read-only/file"),
        "file_size": lambda: large_file(f"{local}/large", target["file_bytes"]),
        "memory": lambda: much_memory(target["memory_bytes"]),
        "open_files": lambda: many_files(target["open_files"]),
        "processes": lambda: many_processes(target["processes"]),
        **{f"call:{name}": partial(call, number) for name, number in target["calls"].items()},
    }


def main() -> None:
    """Try everything, and leave somebody behind to see whether that one is ended."""
    target = json.loads(sys.argv[1])
    said = {name: attempt() for name, attempt in _all(target).items()}
    said["inside_write"] = write(f"{target['workspace']}/allowed")
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.close(fd)
        signal.alarm(30)
        signal.pause()
        os._exit(0)
    sys.stdout.write(json.dumps(said))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
