"""The kernel face's sandboxes: a command in a process group of its own, or in a container.

Floor: 2. Owns: what each of them runs and answers; never: a fence (`hands.fence`), which neither of them is.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from uuid import uuid4

from plait.core.errors import Refusal, SandboxError
from plait.core.values import dataclass
from plait.hands.capture import Captured, CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.environment import child_environment
from plait.hands.process import run

Ran = tuple[int, str, str]
"""Exit code, standard output, standard error."""
Runner = Callable[[Sequence[str], float], Ran]
"""Runs a program of the container engine for at most so many seconds."""

IMAGE: Final = "python:3.12-slim"
TIMED_OUT: Final = 124
MISSING: Final = 127
_SIGNALLED: Final = 128
_START_S: Final = 120.0
_STOP_S: Final = 30.0
_BEYOND_S: Final = 5.0
_LIMITS: Final = CaptureLimits(head_bytes=1 << 20, tail_bytes=1 << 20)
_ENGINES: Final = ("docker", "podman")


class Sandbox(Protocol):
    """Runs the commands of an agent."""

    def run(self, command: str, *, cwd: str | os.PathLike[str] | None = None, timeout: float = 60) -> Ran:
        """Run a command line and return how it ended; never raises for what it does, nor for a missing engine."""
        ...

    def close(self) -> None:
        """Let go of what was started."""
        ...


@dataclass(slots=True)
class LocalSandbox:
    """Runs commands on this machine, as its user. It confines nothing but the command's life: see `unconfined`."""

    working_dir: str | os.PathLike[str] = "."

    @property
    def unconfined(self) -> tuple[str, ...]:
        """What a command can do all the same, as sentences for whoever has to know."""
        return (
            "it reads and writes every file that its user can",
            "it reaches the network and every socket of this machine",
            "it sees and signals other processes of its user",
            "it has no limit of memory, processes or disk",
        )

    def run(self, command: str, *, cwd: str | os.PathLike[str] | None = None, timeout: float = 60) -> Ran:
        """Run a command line; its environment has no credentials, its input is empty, its tree dies with the time."""
        options = RunOptions(
            cwd=os.fspath(cwd or self.working_dir),
            environment=child_environment(os.environ),
            timeout_s=timeout,
            separates_errors=True,
            leftovers="kill",
            limits=_LIMITS,
        )
        try:
            return _ran(run(Command.shell(command), options), timeout)
        except Refusal as refusal:
            return MISSING, "", refusal.message

    def close(self) -> None:
        """Nothing is kept."""


class DockerSandbox:
    """Runs commands in one container, which is started with the first of them and removed with `close`.

    The container has no capabilities, no new privileges, no network unless named, a file system of its own that
    cannot be written to, and the working directory. File tools work outside of it. Safe in any thread.
    """

    def __init__(
        self,
        working_dir: str | os.PathLike[str] = ".",
        *,
        image: str = IMAGE,
        network: str = "none",
        memory: str = "512m",
        cpus: str = "1.0",
        pids_limit: int = 256,
        workdir: str = "/workspace",
        container_name: str | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.working_dir = os.path.realpath(working_dir)
        self.image, self.network, self.memory, self.cpus = image, network, memory, cpus
        self.pids_limit, self.workdir = pids_limit, workdir
        self.container_name = container_name or f"plait-{uuid4().hex[:12]}"
        self._runner = runner
        self._lock = threading.Lock()
        self._is_started = False

    def start(self) -> None:
        """Start the container, unless it is; raise `SandboxError` where that fails."""
        with self._lock:
            if self._is_started:
                return
            code, _, errors = self._call(self.start_argv(), _START_S)
            if code:
                raise SandboxError(
                    f"docker sandbox unavailable: {errors.strip() or f'exit code {code}'}",
                    hint="install docker or podman and let this user run it, or use another sandbox",
                )
            self._is_started = True

    def run(self, command: str, *, cwd: str | os.PathLike[str] | None = None, timeout: float = 60) -> Ran:
        """Run a command line in the container; `cwd` is the container's own working directory in any case."""
        try:
            self.start()
        except SandboxError as error:
            return MISSING, "", error.message
        line = f"timeout {timeout:g} sh -c {shlex.quote(command)}"
        return self._call(("exec", "-w", self.workdir, self.container_name, "sh", "-c", line), timeout + _BEYOND_S)

    def close(self) -> None:
        """Remove the container, if it was started."""
        with self._lock:
            if self._is_started:
                self._is_started = False
                self._call(("rm", "-f", self.container_name), _STOP_S)

    def start_argv(self) -> tuple[str, ...]:
        """Return the arguments that start the container, without the engine's name."""
        user = f"{os.getuid()}:{os.getgid()}" if hasattr(os, "getuid") else "1000:1000"
        return (
            *("run", "-d", "--rm", "--name", self.container_name, "--network", self.network),
            *("--memory", self.memory, "--cpus", self.cpus, "--pids-limit", str(self.pids_limit)),
            *("--security-opt", "no-new-privileges", "--cap-drop", "ALL", "--user", user),
            *("--read-only", "--tmpfs", "/tmp", "--env", "HOME=/tmp", "--init"),
            *("-v", f"{self.working_dir}:{self.workdir}", "-w", self.workdir),
            *(self.image, "sleep", "infinity"),
        )

    def _call(self, arguments: Sequence[str], timeout_s: float) -> Ran:
        if self._runner is not None:
            return self._runner(("docker", *arguments), timeout_s)
        from plait.hands.fence.ground import find_program

        found = next((path for name in _ENGINES if (path := find_program(name, os.environ, self.working_dir))), None)
        if found is None:
            return MISSING, "", "neither docker nor podman is installed"
        options = RunOptions(
            cwd="/",
            environment=child_environment(os.environ),
            timeout_s=timeout_s,
            separates_errors=True,
            limits=_LIMITS,
        )
        try:
            return _ran(run(Command((found, *arguments)), options), timeout_s)
        except Refusal as refusal:
            return MISSING, "", refusal.message


def make_sandbox(
    kind: str, working_dir: str | os.PathLike[str] = ".", *, image: str = IMAGE, network: str = "none"
) -> Sandbox:
    """Return a sandbox: `docker`, or `local`. Raises `ValueError` for another kind."""
    if kind == "docker":
        return DockerSandbox(working_dir, image=image, network=network)
    if kind == "local":
        return LocalSandbox(working_dir)
    raise ValueError(f"no sandbox is called {kind!r}; there are 'local' and 'docker'")


def _ran(done: Finished, timeout_s: float) -> Ran:
    output, errors = _text(done.output), "" if done.errors is None else _text(done.errors)
    if done.timed_out:
        return TIMED_OUT, output, f"{errors}\n[timed out after {timeout_s:g}s]".lstrip("\n")
    code = _SIGNALLED + done.signal if done.signal is not None else done.exit_code
    return MISSING if code is None else code, output, errors


def _text(output: Captured) -> str:
    return output.bounded("the rest was not kept").text
