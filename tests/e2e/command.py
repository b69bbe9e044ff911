"""Runs the installed `plait` command as its users do: as a process of its own."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

PLAIT: Final = Path(sys.executable).with_name("plait")
REPOSITORY: Final = Path(__file__).resolve().parents[2]
TIMEOUT_S: Final = 30.0
STARTING: Final = frozenset({"LC_ALL", "LANG", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONCOERCECLOCALE", "PYTHONPATH"})
"""Variables that an interpreter looks at only when it starts."""
_ONE_AT_A_TIME: Final = threading.Lock()


def environment(**more: str) -> dict[str, str]:
    """Return the environment of the test with variables added; an empty value takes one away."""
    merged = {**os.environ, **more}
    return {name: value for name, value in merged.items() if value}


def start(*arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, **more: Any) -> Any:
    """Start `plait` without a terminal and return its process; streams are pipes unless told otherwise."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [PLAIT, *arguments], cwd=cwd, env=env or environment(), start_new_session=True, **{**pipes, **more}
    )


def plait(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    typed: str | None = None,
    **more: Any,
) -> Ran:
    """Run `plait` to its end; what needs streams of its own or another interpreter gets a whole new process."""
    env = environment() if env is None else env
    if not more and all(env.get(name) == os.environ.get(name) for name in STARTING):
        return _forked(Line(arguments, {}), cwd or Path.cwd(), env, typed)
    if typed is not None:
        more["stdin"] = subprocess.PIPE
    process = start(*arguments, cwd=cwd, env=env, **more)
    return end_of(process, typed)


def end_of(process: Any, typed: str | None = None, *, timeout_s: float = TIMEOUT_S) -> Ran:
    """Wait for a started command; it is killed with its whole session when that takes too long."""
    try:
        out, err = process.communicate(None if typed is None else typed.encode(), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"plait did not end:\n{out!r}\n{err!r}") from None
    return Ran(process.returncode, out or b"", err or b"")


class Line(NamedTuple):
    """A command line with variables of its own."""

    args: Sequence[str]
    env: Mapping[str, str]


def plait_each(*commands: Sequence[str] | Line, cwd: Path, typed: str | None = None) -> list[Ran]:
    """Run several command lines one after the other, each in a process of its own, and load plait only once."""
    lines = [command if isinstance(command, Line) else Line(command, {}) for command in commands]
    return [_forked(line, cwd, environment(**line.env), typed) for line in lines]


@cache
def _forking() -> Any:
    """Return the process that forks command lines; it ends with this one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.each"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    atexit.register(process.communicate)
    return process


def _forked(line: Line, cwd: Path, env: Mapping[str, str], typed: str | None) -> Ran:
    arguments = [os.fspath(argument) for argument in line.args]
    case = {"args": arguments, "cwd": str(cwd), "env": {**env}, "typed": typed, "timeout_s": TIMEOUT_S}
    process = _forking()
    with _ONE_AT_A_TIME:
        process.stdin.write(json.dumps(case).encode() + b"\n")
        process.stdin.flush()
        code, out, err = json.loads(process.stdout.readline())
    assert code is not None, f"plait did not end:\n{out}\n{err}"
    return Ran(code, out.encode("latin-1"), err.encode("latin-1"))


class Ran:
    """How a command ended. It never shows a traceback, however it ended."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out_bytes = out
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")
        assert "Traceback" not in self.out + self.err, self

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        (line,) = self.out.splitlines()
        document: dict[str, Any] = json.loads(line)
        return document

    @property
    def lines(self) -> Sequence[dict[str, Any]]:
        """Stdout as lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    def __repr__(self) -> str:
        return f"[exit {self.code}]\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def wait_until(holds: Any, what: str, timeout_s: float = 10.0) -> None:
    """Wait until `holds()` is true."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, f"waited in vain for {what}"
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Say whether a process still runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False
