"""Runs the installed `plait` command as its users do: as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.helpers.warm import PLAIT as PLAIT, REPOSITORY as REPOSITORY, Warm

TIMEOUT_S: Final = 30.0


def environment(**more: str) -> dict[str, str]:
    """Return the environment of the test with variables added; an empty value takes one away."""
    merged = {**os.environ, **more}
    return {name: value for name, value in merged.items() if value}


def start(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, cold: bool = False, **more: Any
) -> Any:
    """Start `plait` without a terminal and return its process; streams are pipes unless told otherwise.

    A `cold` one is a whole new interpreter, as it is for a user.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    kind = subprocess.Popen if cold else Warm
    return kind([PLAIT, *arguments], cwd=cwd, env=env or environment(), start_new_session=True, **{**pipes, **more})


def plait(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    typed: str | None = None,
    **more: Any,
) -> Ran:
    """Run `plait` to its end."""
    if typed is not None:
        more["stdin"] = subprocess.PIPE
    return end_of(start(*arguments, cwd=cwd, env=env, **more), typed)


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
    """Run several command lines one after the other, each in a process of its own."""
    lines = [command if isinstance(command, Line) else Line(command, {}) for command in commands]
    return [plait(*map(os.fspath, line.args), cwd=cwd, env=environment(**line.env), typed=typed) for line in lines]


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
