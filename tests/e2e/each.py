"""Runs command lines of plait, each in a process of its own that is forked from one that has loaded plait.

A program: reads a line of JSON `{args, cwd, env, typed, timeout_s}` from standard input and answers with a line
`[code, out, err]`, the outputs in Latin-1, the code null where the time was over. Most of the time that a command
takes is loading; here it is spent once.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
from typing import IO, Any

from plait.cli.main import main

LOADED_ONCE = ("entry", "group", "run_command", "turn")


def run(case: dict[str, Any]) -> tuple[int | None, str, str]:
    """Run one command line and return its exit code and what it wrote; it is killed when that takes too long."""
    with tempfile.TemporaryFile() as typed, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        typed.write((case["typed"] or "").encode())
        typed.seek(0)
        pid = os.fork()
        if pid == 0:
            become(case, typed, out, err)
        return _code_of(pid, case["timeout_s"]), _read(out), _read(err)


def _code_of(pid: int, timeout_s: float) -> int | None:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def become(case: dict[str, Any], typed: IO[bytes], out: IO[bytes], err: IO[bytes]) -> None:
    """Turn this process into the command; does not return."""
    code: object = 1
    try:
        os.setsid()
        for number, file in enumerate((typed, out, err)):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
        os.environ.clear()
        os.environ.update(case["env"])
        os.chdir(case["cwd"])
        tempfile.tempdir = None  # where temporary files go is the command's affair again
        sys.argv = ["plait", *case["args"]]
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("latin-1")


if __name__ == "__main__":
    for module in LOADED_ONCE:
        importlib.import_module(f"plait.cli.{module}")
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
