"""A small real model behind its own HTTP server, in a process of its own.

Floor: 7. Owns: that process, from start to death; never: what is asked of it.

The process prints its URL as one line. It ends when its standard input does, so that it cannot outlive whoever
started it; it is ended by SIGKILL, because the server in it does not heed the first SIGTERM.
"""

from __future__ import annotations

import importlib
import os
import select
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from plait.core.errors import ConfigError

PACKAGE: Final = "xllamacpp"
REQUIREMENT: Final = "xllamacpp==2026.4.8672.1"
CONTEXT_TOKENS: Final = 4096
_START_TIMEOUT_S: Final = 60.0


class LocalServer:
    """Serves a model file on loopback for as long as the `with` block lasts."""

    def __init__(self, weights: Path) -> None:
        self._weights = weights
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        """Base URL of the API: `http://127.0.0.1:PORT/v1`."""

    def __enter__(self) -> Self:
        argv = [sys.executable, "-m", "plait.cli.demo.local_server", str(self._weights)]
        # A file, because nobody reads the server's log while it serves, and a full pipe would stop it.
        with tempfile.TemporaryFile() as log:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True)
            try:
                self.url = f"{self._first_line(log)}/v1"
            except BaseException:
                self._kill()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def _first_line(self, log: IO[bytes]) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _START_TIMEOUT_S)
        line = self._process.stdout.readline() if ready else b""
        if line:
            return line.decode().strip()
        log.seek(0)
        last = log.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        reason = " ".join(last) if ready else f"not within {_START_TIMEOUT_S:.0f} s"
        raise ConfigError(f"the local model's server did not start: {reason or 'it said nothing'}")

    def _kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def serve(weights: str) -> None:
    """Serve a model file, print the URL, and return when standard input ends; runs in the server's process."""
    xllamacpp: Any = importlib.import_module(PACKAGE)
    options = xllamacpp.CommonParams()
    options.model.path = weights
    options.chat_template = (resources.files("plait.cli.demo") / "chat_template.jinja").read_text(encoding="utf-8")
    options.use_jinja = True
    options.hostname = "127.0.0.1"
    options.port = 0
    options.webui = False
    options.warmup = False
    options.n_parallel = 1
    options.n_ctx = CONTEXT_TOKENS
    # More threads spin while they wait for one another, and are slower on a busy machine.
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(options)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    while os.read(0, 1024):
        pass


if __name__ == "__main__":
    serve(sys.argv[1])
    os._exit(0)
