"""The process that `tests.helpers.warm` forks others from: `python -m tests.helpers.warm_server FD`.

It has loaded plait, and has neither a thread nor a file. On the socket FD it takes four bytes of length with the
descriptors of a process, then JSON `{program, cwd, env, is_session, fds}`, and answers with the id of the process.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from contextlib import suppress
from typing import Any, Final, NoReturn

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
        asked = json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        for module in asked["loads"]:
            importlib.import_module(module)
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
                return {**asked, "given": fds}
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
        is_raw = fd > 0 and bool(os.environ.get("PYTHONUNBUFFERED"))
        buffer = open(fd, "wb" if fd else "rb", buffering=0 if is_raw else -1, closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(
            buffer,
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=name == "stderr" or os.isatty(fd),
            write_through=is_raw,
        )
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


def ended(program: list[str], cwd: str) -> int:
    """Run the program to its end and return its exit code, as the interpreter comes to one."""
    try:
        play(program, cwd)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def leave(code: int) -> NoReturn:
    """End as the interpreter does, without its last step: to take apart what is loaded costs more than all the rest."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 120
    with suppress(OSError, AttributeError):
        sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    become(asked)
    leave(ended(asked["program"], asked["cwd"]))
