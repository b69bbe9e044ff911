"""The process that `tests.helpers.warm` forks others from: `python -m tests.helpers.warm_server FD`.

It has loaded plait, and has neither a thread nor a file. On the socket FD it takes four bytes of length with the
descriptors of a process, then JSON `{program, cwd, env, is_session, fds}`, and answers with the id of the process.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import time
import types
from typing import Any, Final

LOADED: Final = (
    "plait.cli.group",
    "plait.cli.entry",
    "plait.cli.main",
    "plait.cli.run_command",
    "plait.cli.resume_command",
    "plait.cli.mcp_command",
    "plait.cli.turn",
    "plait.testing",
    "ssl",
)
FDS_MAX: Final = 16


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork a process for each that is asked for; return only in those, with what was asked."""
    gc.collect()
    gc.freeze()
    while True:
        head, fds, _, _ = socket.recv_fds(connection, 4, FDS_MAX)
        if not head:
            os._exit(0)
        body = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        gate, opening = os.pipe()
        hearing, telling = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                for fd in (opening, hearing, telling):
                    os.close(fd)
                connection.close()
                os.read(gate, 1)  # ends when nobody is between it and its parent any more
                return {**json.loads(body), "given": fds}
            os.write(telling, b"%d" % pid)
            os._exit(0)
        os.waitpid(between, 0)
        answer = os.read(hearing, 16)
        for fd in (gate, opening, hearing, telling, *fds):
            os.close(fd)
        connection.sendall(answer)


def become(asked: dict[str, Any]) -> None:
    """Make this process what was asked for."""
    if asked["is_session"]:
        os.setsid()
    high = [os.dup2(fd, 200 + number) for number, fd in enumerate(asked["given"])]
    os.closerange(3, 200)
    for fd, number in zip(high, asked["fds"], strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    tempfile.tempdir = None
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        is_lines = name == "stderr" or os.isatty(fd)
        mode = "r" if fd == 0 else "w"
        stream = open(fd, mode, encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=is_lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def play(program: list[str], cwd: str) -> None:
    """Run the program as the interpreter does: `-c CODE …`, `-m MODULE …` or `plait SCRIPT …`."""
    form, what, *words = program
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if form == "-m":
        sys.path[0] = cwd
        sys.argv = [what, *words]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif form == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *words]
        exec(compile(what, "<string>", "exec"), vars(main))
    else:
        sys.path[0] = os.path.dirname(what)
        sys.argv = [what, *words]
        from plait.cli.main import main as command

        sys.exit(command())


if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    become(asked)
    play(asked["program"], asked["cwd"])
