"""Attacks on a fence from inside: lines of bash that print GOT where they get what they want.

`@name@` stands for a target outside: see `test_x10_inside_the_fence.py`. No line does harm where the fence does not
hold: what it makes it takes away again, and what it changes it leaves as it was. Only the lines of `READS`, `WRITES`
(in folders of a test) and `REACHED` are ever run without a fence.
"""

from __future__ import annotations

from typing import Final


def _read(path: str) -> str:
    return f'grep -aq canary {path} && echo "GOT it"'


def _call(number: str, *arguments: str) -> str:
    """Do a system call; whatever is not refused for want of leave counts."""
    given = ", ".join(arguments or ["0"] * 6)
    return (
        "/usr/bin/python3 -ISc 'import ctypes, errno, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"n = {number}\n"
        f'if n is not None and libc.syscall(n, {given}) >= 0: print("GOT it")\n'
        "elif n is not None and ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES): "
        'print("GOT as far as", os.strerror(ctypes.get_errno()))\''
    )


def _number(x86: int, arm: int) -> str:
    return f'{{"x86_64": {x86}, "aarch64": {arm}}}.get(os.uname().machine)'


def _socket(code: str) -> str:
    return f"/usr/bin/python3 -ISc 'import socket\ntry:\n    {code}\n    print(\"GOT it\")\nexcept OSError: pass'"


READS: Final = {
    "a path": _read("@secret@"),
    "a link": 'ln -s @secret@ l1; grep -aq canary l1 && echo "GOT it"',
    "a chain of links": 'ln -s @outside@ l2; ln -s l2/secret l3; grep -aq canary l3 && echo "GOT it"',
    "dots": _read("../../outside/secret"),
    "its own root": _read("/proc/self/root@secret@"),
    "the controller's root": _read("/proc/@pid@/root@secret@"),
    "the controller's folder": _read("/proc/@pid@/cwd/../outside/secret"),
    "the controller's files": "grep -aq canary /proc/@pid@/fd/0 && echo GOT it",
    "the controller's environment": _read("/proc/@pid@/environ"),
    "anybody's environment": "for f in /proc/[0-9]*/environ; do grep -aq VICTIM_CANARY $f && echo GOT $f; done",
    "the controller's arguments": "tr '\\0' ' ' < /proc/@pid@/cmdline | grep 'sleep 600' && echo GOT it",
    "keys": _read("@home@/.ssh/id_ed25519"),
    "a cloud's credentials": _read("@home@/.aws/credentials"),
    "a forge's token": _read("@home@/.config/gh/hosts.yml"),
    "netrc": _read("@home@/.netrc"),
    "a browser's profile": _read("@home@/.mozilla/firefox/p/cookies.sqlite"),
    "the history of a shell": _read("@home@/.bash_history"),
    "a home": "ls -A @home@ | grep . && echo GOT it",
    "everything above": 'grep -rlaq canary ../.. 2>/dev/null && echo "GOT it"',
    "everything anywhere": "find @root@ -name '@name@' 2>/dev/null | grep . && echo GOT it",
    "the shared temporary folder": "ls /tmp /dev/shm | grep '@temporary@' && echo GOT it",
}
"""Without a fence each of them works."""
WRITES: Final = {
    "beside the workspace": "echo x > @outside@/made-1",
    "through dots": "echo x > ../../outside/made-2",
    "through a link": "ln -s @outside@ w1; echo x > w1/made-3",
    "through a link to a file": "ln -s @outside@/made-4 w2; echo x > w2",
    "through its own root": "echo x > /proc/self/root@outside@/made-5",
    "over a file": "echo x >> @secret@",
    "over a file by its hard link": "ln @secret@ h1 && echo x >> h1",
    "cutting a file": ": > @secret@",
    "renaming a file": "mv @secret@ @outside@/made-6",
    "taking a file in": "mv @secret@ taken",
    "removing": "rm -rf @outside@/*",
    "rights of a file": "chmod 777 @secret@",
    "times of a file": "touch -d @0 @secret@",
    "a shell's start": "echo evil >> @home@/.bashrc",
    "keys that may log in": "echo evil >> @home@/.ssh/authorized_keys",
    "what a login starts": "mkdir -p @home@/.config/autostart; echo evil > @home@/.config/autostart/e.desktop",
    "git's own settings": "git config --file @home@/.gitconfig core.pager evil",
    "the workspace's own name": "cd ..; mv $PWD @outside@/made-9",
    "unpacking": "mkdir p; ln -s @outside@ p/d; tar cf t.tar p/d; rm -r p; tar xf t.tar; echo x > p/d/made-7",
    "copying with links": "ln -s @outside@ w3; cp /etc/hostname w3/made-8",
}
"""Without a fence each of them changes something outside."""
SYSTEM: Final = {
    "the first process's root": _read("/proc/1/root@secret@"),
    "a system file": "echo x > /etc/plait-test && echo GOT it && rm /etc/plait-test",
    "a program": "cp /bin/true /usr/bin/plait-test && echo GOT it && rm /usr/bin/plait-test",
    "a cron table": "echo '# x' > /etc/cron.d/plait-test && echo GOT it && rm /etc/cron.d/plait-test",
    "passwords": "cat /etc/shadow | grep . && echo GOT it",
    "what a crash starts": "f=/proc/sys/kernel/core_pattern; cat $f > $f && echo GOT it",
    "the machine's switch": "echo h > /proc/sysrq-trigger && echo GOT it",
    "a control group": "mkdir /sys/fs/cgroup/plait-test && echo GOT it && rmdir /sys/fs/cgroup/plait-test",
    "the machine's memory": "head -c1 /dev/mem && echo GOT it",
    "a disk": "for d in /dev/sd* /dev/vd* /dev/nvme*; do [ -e $d ] && echo GOT $d; done",
    "a device of its own": "mknod d b 8 0 && echo GOT it",
    "the controller's end": "kill -0 @pid@ && grep sleep /proc/@pid@/comm && echo GOT it",
    "the controller's memory": "head -c1 /proc/@pid@/mem && echo GOT it",
    "the controller's hands": _call(_number(101, 117), "16", "@pid@", "0", "0"),
    "reading another's memory": _call(_number(310, 270), "@pid@", "0", "0", "0", "0", "0"),
    "a file by its handle": _call(_number(304, 265), "-100", "0", "0"),
}
NETWORK: Final = {
    "tcp": "echo canary > /dev/tcp/127.0.0.1/@tcp@ && echo GOT it",
    "tcp over IPv6": _socket('socket.create_connection(("::1", @tcp6@), 2)'),
    "tcp by a mapped address": _socket('socket.create_connection(("::ffff:127.0.0.1", @tcp@), 2)'),
    "tcp by the machine's own address": _socket('socket.create_connection(("@address@", @tcp_any@), 2)'),
    "udp": _socket('socket.socket(2, 2).sendto(b"canary", ("127.0.0.1", @udp@)); raise OSError'),
    "a name": "getent ahosts example.com && echo GOT it",
    "a cloud's metadata": _socket('socket.create_connection(("169.254.169.254", 80), 1)'),
    "a socket outside": _socket('socket.socket(1).connect("@unix@")'),
    "a socket through a link": "ln -s @unix@ s1; " + _socket('socket.socket(1).connect("s1")'),
    "an abstract socket": _socket('socket.socket(1).connect("\\0@abstract@")'),
    "a bus": '[ -n "$DBUS_SESSION_BUS_ADDRESS$DISPLAY$SSH_AUTH_SOCK$DOCKER_HOST" ] && echo GOT it',
    "sockets of services": "find /run /var/run -type s 2>/dev/null | grep . && echo GOT it",
    "raw": _socket("socket.socket(2, 3, 1)"),
    "packets": _socket("socket.socket(17, 3, 768)"),
    "cards of the machine": "tail -n +3 /proc/net/dev | grep -v '^ *lo:' && echo GOT it",
    "a virtual machine's": _socket("socket.socket(40, 1)"),
    "the kernel's cryptography": _socket("socket.socket(38, 5)"),
    "bluetooth": _socket("socket.socket(31, 3, 1)"),
    "rings of input and output": _call("425", "1", "0"),
    "a network of its own": "unshare -n true && echo GOT it",
}
REACHED: Final = ("tcp", "a socket outside", "a socket through a link", "an abstract socket", "a bus")
"""Without a fence these of the network's work."""
POWERS: Final = {
    "sudo": "sudo -n true && echo GOT it",
    "su": "su -c true nobody </dev/null && echo GOT it",
    "a program that becomes its owner": "cp /bin/bash b1; chmod 4755 b1; "
    "./b1 -p -c 'grep NoNewPrivs:.0 /proc/self/status && echo GOT it'",
    "powers": "grep -E 'Cap(Eff|Prm|Amb):' /proc/self/status | grep -v ':.0*$' && echo GOT it",
    "a user namespace": "unshare -U true && echo GOT it",
    "a user namespace as root": "unshare -r true && echo GOT it",
    "a mount namespace": "unshare -m true && echo GOT it",
    "a process namespace": "unshare -p -f true && echo GOT it",
    "the namespace of the first process": "nsenter -t 1 -m true && echo GOT it",
    "another's namespace": "nsenter -t @pid@ -n true && echo GOT it",
    "a new root": "chroot . /bin/true && echo GOT it; " + _call(_number(155, 41)),
    "a mount": "mkdir m; mount -t tmpfs none m && echo GOT it && umount m",
    "a mount of a folder": "mkdir m2 m3; mount --bind m2 m3 && echo GOT it && umount m3",
    "a mount in user space": "[ -e /dev/fuse ] && exec 3<>/dev/fuse && echo GOT it",
    "taking a mount away": "cd ..; umount -l $PWD && echo GOT it",
    "making all writable again": "mount -o remount,rw / && echo GOT it",
    "opening a tree": _call("428", "-100", "0", "0"),
    "moving a mount": _call("429", "0", "0", "0", "0", "0"),
    "a mount by descriptors": _call("430", "0", "0"),
    "keys of the kernel": _call(_number(248, 217)),
    "programs in the kernel": _call(_number(321, 280), "0", "0", "0"),
    "performance counters": _call(_number(298, 241), "0", "0", "-1", "-1", "0"),
    "faults in user space": _call(_number(323, 282), "0"),
    "another kernel": _call(_number(246, 104)),
    "a module": _call(_number(175, 105)),
    "a restart": _call(_number(169, 142), "0", "0", "0"),
    "swap": _call(_number(167, 224), "0", "0"),
    "the clock": 'date -s "$(date)" && echo GOT it',
    "the host's name": 'hostname "$(hostname)" && echo GOT it',
    "the user's terminal": "(exec 3<>/dev/tty) 2>/dev/null && echo GOT it",
    "typing into a terminal": "/usr/bin/python3 -ISc 'import fcntl, os\nleader, follower = os.openpty()\n"
    'fcntl.ioctl(follower, 0x5412, b"x")\nprint("GOT it")\'',
    "raising a limit": "ulimit -Hn 1000000 && echo GOT it",
}
ENVIRONMENT: Final = (
    *("LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT NODE_OPTIONS".split()),
    *("NODE_PATH BASH_ENV ENV PROMPT_COMMAND SHELLOPTS PERL5OPT PERL5LIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS".split()),
    *("GIT_DIR GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_GLOBAL GIT_CONFIG_COUNT GIT_EXEC_PATH GIT_ASKPASS".split()),
    *("SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS DISPLAY XAUTHORITY DOCKER_HOST KUBECONFIG XDG_RUNTIME_DIR".split()),
    *("OPENAI_API_KEY ANTHROPIC_API_KEY AWS_SECRET_ACCESS_KEY AWS_PROFILE GITHUB_TOKEN NPM_TOKEN DATABASE_URL".split()),
    *("HTTPS_PROXY ALL_PROXY GOOGLE_APPLICATION_CREDENTIALS PLAIT_API_KEY PLAIT_HOME TMPDIR HOME MANPAGER".split()),
)
"""Names of the controller's environment that load something, lead somewhere, or hold a secret."""
