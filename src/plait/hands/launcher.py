"""Supervisors of commands, started: a program of its own for each, the next one while there is time for it.

Floor: 2. Owns: the processes of supervisors and that none is left unfetched; never: what one is ordered to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

from plait.core.errors import Refusal
from plait.hands import supervisor
from plait.hands.process_tree import MARK, mark_of
from plait.hands.refusals import refusal_from

_NEEDED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", MARK)
"""What an interpreter may need to start; the command's own environment comes with the order."""
_PROGRAM: Final = "import sys; sys.path.append(sys.argv[1]); import supervisor; supervisor.main()"
"""As a module and not as a script, so that it need not be compiled each time; the standard library goes first."""
_FETCH_S: Final = 2.0


class Started:
    """A supervisor that was started here, and the bell that it rings."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._orders = process.stdin
        self._bell = process.stdout
        self.bell_fd = process.stdout.fileno()

    def order(self, order: bytes) -> None:
        """Hand it its one order. Raises `Refusal` when it is not there to take it."""
        rest = memoryview(order)
        try:
            while rest:
                rest = rest[os.write(self._orders.fileno(), rest) :]
        except OSError as error:
            self.kill()
            raise Refusal(
                "INTERNAL_SERVER_ERROR",
                f"the command could not be started: its supervisor ended ({error.strerror})",
                hint="try again",
            ) from error
        finally:
            self._orders.close()

    def terminate(self) -> None:
        """Ask it to stop its command and to record that."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once; its command lives on."""
        self._process.kill()

    def let_go(self) -> None:
        """Listen no longer: the bell rings into the void, and an order that was not given is none."""
        self._orders.close()
        self._bell.close()

    def fetch(self, timeout_s: float | None) -> bool:
        """Fetch its end, if it comes in time; say whether it did. None waits for as long as it takes."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.returncode is not None


class Launcher:
    """Starts supervisors for one session. Safe in any thread."""

    def __init__(self, mark: str) -> None:
        """`mark` is carried by supervisors and by what they run, so that all of it ends with the session."""
        self._mark = mark
        self._lock = threading.Lock()
        self._ready: Started | None = None
        self._running: list[Started] = []
        self._is_closed = False

    def prepare(self) -> None:
        """Have a supervisor ready for the next command; starting one takes longer than most commands."""
        with self._lock:
            if self._ready is None and not self._is_closed:
                self._ready = self._start()

    def prepare_soon(self) -> None:
        """The same, without waiting for it, and fetch the ends of used ones: the last answer is not to be held up."""

        def prepare() -> None:
            with suppress(Refusal):  # whoever takes one next is told
                self.prepare()
            with self._lock:
                used = list(self._running)
            for started in used:
                started.fetch(_FETCH_S)

        threading.Thread(target=prepare, name="plait-supervisor", daemon=True).start()

    def take(self) -> Started:
        """Return a supervisor that waits for its order. Raises `Refusal`."""
        with self._lock:
            started, self._ready = self._ready or self._start(), None
            self._running = [running for running in self._running if not running.fetch(0)]
            self._running.append(started)
            return started

    def start_apart(self) -> Started:
        """Start one that `close` neither waits for nor ends; whoever asked fetches its end. Raises `Refusal`."""
        return self._start()

    def close(self) -> None:
        """Let the one that waits go, and fetch the ends of those that were used."""
        with self._lock:
            running, self._running = self._running, []
            self._is_closed = True
            if self._ready is not None:
                self._ready.let_go()
                running.append(self._ready)
                self._ready = None
        for started in running:
            if not started.fetch(_FETCH_S):
                started.kill()
                started.fetch(_FETCH_S)

    def _start(self) -> Started:
        environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
        environment[MARK] = mark_of(environment, self._mark)
        try:
            process = subprocess.Popen(
                (sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, os.path.dirname(supervisor.__file__)),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise refusal_from(error, "the command", "run") from error
        return Started(process)
