"""Runs several command lines of plait, each in a process of its own that is forked from one that has loaded plait.

A program: reads a JSON list of `{args, cwd, env, typed}` from standard input and prints a list of `[code, out, err]`,
the outputs in Latin-1. Most of the time that a command takes is loading; here it is spent once.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from typing import IO, Any

from plait.cli.main import main

LOADED_ONCE = ("entry", "group", "run_command", "turn")


def run(case: dict[str, Any]) -> tuple[int, str, str]:
    """Run one command line and return its exit code and what it wrote."""
    with tempfile.TemporaryFile() as typed, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        typed.write((case["typed"] or "").encode())
        typed.seek(0)
        pid = os.fork()
        if pid == 0:
            become(case, typed, out, err)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), _read(out), _read(err)


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
    json.dump([run(case) for case in json.load(sys.stdin)], sys.stdout)
