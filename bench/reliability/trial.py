"""The harness: gives orders to a system's process, kills it, and asks it what it remembers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from bench.reliability.model import Item, Model

ROOT: Final = Path(__file__).resolve().parents[2]
PROBE: Final = "And what now?"


@dataclass(frozen=True)
class End:
    """How a life ended."""

    code: int
    """0: as planned; 1: with an error that its host saw; negative: by that signal."""
    error: str
    replies: tuple[str, ...]
    seconds: float

    @property
    def is_killed(self) -> bool:
        """Whether it was killed."""
        return self.code == -signal.SIGKILL


class Subject:
    """A system under test, in a process of its own interpreter."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        kind, _, variant = name.partition("-")
        env = {key: value for key, value in os.environ.items() if not key.upper().endswith(("_PROXY", "_API_KEY"))}
        env |= {"PYTHONPATH": str(ROOT), "AGENTKERNEL_STORE": variant or "file"}
        command = [python, "-m", "bench.reliability.subject", kind]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )

    def begin(self, out: Path, url: str, **order: Any) -> int:
        """Begin a life in the folder of the file that is to tell what came of it; return its process id."""
        assert self._process.stdin is not None
        out.unlink(missing_ok=True)
        self._process.stdin.write(json.dumps({"folder": str(out.parent), "out": str(out), "url": url, **order}) + "\n")
        self._process.stdin.flush()
        return int(self._said("pid"))

    def end(self, out: Path, began_s: float) -> End:
        """Wait for the end of the life that began."""
        code = int(self._said("exit"))
        told = json.loads(out.read_text()) if out.exists() else {}
        return End(code, told.get("error", ""), tuple(told.get("replies", ())), time.monotonic() - began_s)

    def _said(self, word: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().split()
        if line[:1] != [word]:
            raise SystemExit(f"the process of {self.name} has failed; run it by hand to see why: {self._process.args}")
        return line[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Trial:
    """One case: a folder, a conversation in it, and what the outside saw of it."""

    def __init__(self, subject: Subject, model: Model, folder: Path) -> None:
        self.subject, self.model, self.folder = subject, model, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._out = folder / f"out-{id(subject)}.json"

    def live(self, kill_after_s: float | None = None, **order: Any) -> End:
        """Live a life: the greeting and the task, or the `text` of the order; killed after so long."""
        began_s = time.monotonic()
        pid = self.subject.begin(self._out, self.model.url, **order)
        if kill_after_s is not None:
            self._kill(pid, began_s + kill_after_s)
        return self.subject.end(self._out, began_s)

    def _kill(self, pid: int, at_s: float) -> None:
        """Kill a life, unless it is over by then and its id perhaps somebody else's."""
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                time.sleep(max(0.0, at_s - time.monotonic()))
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)

    def remembered(self) -> tuple[End, list[Item]]:
        """Ask something more; return how that ended and what the request carried."""
        seen = len(self.model.requests)
        end = self.live(text=PROBE)
        return end, self.model.last() if len(self.model.requests) > seen else []

    def effects(self) -> Counter[str]:
        """Return how often each effect happened."""
        path = self.folder / "effects"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def copy(self, folder: Path) -> Trial:
        """Return another trial with the same files."""
        shutil.copytree(self.folder, folder)
        self.model.clear()
        return Trial(self.subject, self.model, folder)
