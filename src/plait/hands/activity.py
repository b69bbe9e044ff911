"""How much a tree of processes has done: its processor time and its input and output, as the system counts them.

Floor: 2. Owns: reading the counts; never: which processes are meant.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from plait.core.values import dataclass
from plait.hands.process_tree import Process

COUNTED: Final[tuple[str, ...]] = ("rchar", "wchar", "read_bytes", "write_bytes")
"""Bytes through read and write calls, and bytes that reached a disk."""
_TIMES: Final = slice(11, 15)
"""utime, stime, cutime and cstime among the fields behind a process's name: children count once they were fetched."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What was done so far. What a process did whose end nobody fetched is missing."""

    cpu_s: float = 0.0
    io_bytes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def since(self, before: Activity) -> Activity:
        """Return what was done after `before`."""
        more = {name: max(0, self.io_bytes[name] - before.io_bytes[name]) for name in COUNTED}
        return Activity(max(0.0, self.cpu_s - before.cpu_s), more)

    @property
    def is_idle(self) -> bool:
        """Say whether nothing was done that shows."""
        return self.cpu_s < 0.01 and not any(self.io_bytes.values())


def activity_of(processes: Iterable[Process]) -> Activity:
    """Return what these processes, and their children that have ended, have done; zeros where there is no /proc."""
    total: dict[str, int] = dict.fromkeys(COUNTED, 0)
    cpu_s = 0.0
    for process in processes:
        cpu_s += _cpu_s(process.pid)
        for name, count in _io(process.pid).items():
            total[name] += count
    return Activity(cpu_s, total)


def _cpu_s(pid: int) -> float:
    text = _read(f"/proc/{pid}/stat")
    if b")" not in text:
        return 0.0
    ticks = sum(map(int, text[text.rindex(b")") + 2 :].split()[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _io(pid: int) -> dict[str, int]:
    lines = (line.partition(":") for line in _read(f"/proc/{pid}/io").decode("ascii", "replace").splitlines())
    return {name: int(value) for name, _, value in lines if name in COUNTED}


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
