"""Starts Python programs as processes that are forked from one which has loaded plait already.

Most of what a command costs is loading, half a second of a processor each time. A warm process is in all else what a
cold one is: this process's own child, with its own id, session, folder, environment, descriptors and streams. Only
`/proc` still shows what it was forked from. Whatever an interpreter looks at when it starts makes it a cold one.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

PLAIT: Final = Path(sys.executable).with_name("plait")
REPOSITORY: Final = Path(__file__).resolve().parents[2]
_STARTING: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""How the variables begin that are looked at only when an interpreter starts."""
_LOADED_FOR_MCP: Final = ("plait.serve.mcp_server", "mcp.server", "mcp.client.client", "mcp.shared.message")
_SET_CHILD_SUBREAPER: Final = 36
_ONE_AT_A_TIME: Final = threading.Lock()


class Warm(subprocess.Popen[Any]):
    """`subprocess.Popen`, but `plait …`, `python -m …` and `python -c …` cost a fraction of their price."""

    # Where `Popen` starts what its constructor has prepared; all of its arguments come by position.
    def _execute_child(self, args: Any, *rest: Any) -> None:
        executable, preexec_fn, close_fds, pass_fds, cwd, env, _, _, is_shell = rest[:9]
        pipes, (gid, gids, uid, umask, is_session, group) = rest[9:15], rest[16:22]
        program = program_of(args)
        env = dict(os.environ) if env is None else env
        is_plain = (executable, preexec_fn, gid, gids, uid) == (None,) * 5 and (umask, group) == (-1, -1)
        if not program or not (is_plain and close_fds) or is_shell or _startup_of(env) != _server()[1]:
            super()._execute_child(args, *rest)  # type: ignore[misc]  # typeshed does not tell of it
            return
        streams = [own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        asked = {
            "program": program,
            "cwd": os.path.abspath(cwd or "."),
            "env": {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()},
            "is_session": bool(is_session),
            "fds": [0, 1, 2, *pass_fds],
            # Loaded by the first who wants it.
            "loads": _LOADED_FOR_MCP if any("mcp" in word for word in program) else [],
        }
        self.pid = _start(asked, [*streams, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run_warm(
    argv: Any, *, timeout: float, input: Any = None, check: bool = False, **more: Any
) -> subprocess.CompletedProcess[Any]:
    """Do as `subprocess.run` does, with a warm process."""
    if more.pop("capture_output", False):
        more.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if input is not None:
        more["stdin"] = subprocess.PIPE
    with Warm(argv, **more) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    ran = subprocess.CompletedProcess(argv, process.returncode, out, err)
    if check:
        ran.check_returncode()
    return ran


def program_of(args: Any) -> list[str]:
    """Return what a command line runs, as `tests.helpers.warm_server` takes it; nothing for what is not for it."""
    if isinstance(args, str | bytes | os.PathLike):
        return []
    first, *words = (os.fsdecode(arg) for arg in args)
    if first == str(PLAIT):
        return ["plait", first, *words]
    return words if first == sys.executable and words[:1] in (["-c"], ["-m"]) else []


def _startup_of(env: Mapping[Any, Any]) -> dict[str, str]:
    names = {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}
    names.pop("PYTHONUNBUFFERED", "")
    folders = names.pop("PYTHONPATH", "").split(os.pathsep)
    if any(os.path.exists(f"{folder}/{name}.py") for folder in folders for name in ("sitecustomize", "usercustomize")):
        return {"PYTHONPATH": "runs a program"}
    return {name: value for name, value in names.items() if name.startswith(_STARTING)}


def _start(asked: dict[str, Any], fds: list[int]) -> int:
    """Have a process forked and return its id. It is a child of this one: whoever adopts orphans is its parent."""
    body = json.dumps(asked).encode()
    with _ONE_AT_A_TIME:
        server, _ = _server()
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        assert 0 == prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(server, [len(body).to_bytes(4, "big")], fds)
            server.sendall(body)
            answer = server.recv(16)
        finally:
            prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert answer, "the process that forks the others is gone"
    return int(answer)


@cache
def _server() -> tuple[socket.socket, dict[str, str]]:
    """Return the connection to the process that forks the others, and what it was started with."""
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-m", "tests.helpers.warm_server", str(theirs.fileno())]
    process = subprocess.Popen(argv, cwd=REPOSITORY, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours, _startup_of(os.environ)
