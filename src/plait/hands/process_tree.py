"""Everything that a command has started, found again however far it has run away, and stopped.

Floor: 2. Owns: who belongs to a command and how all of them die; never: starting one, or waiting for its output.

A process belongs to a command when it is in its session or process group, descends from it, or carries its mark in
the environment (which `setsid`, double forks and `nohup` keep). A process is known by its id and its start time, and
its signals go through a pidfd where there is one, so none reaches a stranger who got the id later. Where there is no
/proc, only the process group is known. What left session, group, parent and environment behind is not found: only a
fence holds that.

`supervisor` imports this module without its package, so it stands on the standard library alone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

MARK: Final = "PLAIT_TREE"
"""The variable in which a command and all that it starts carry their marks, separated by `:`."""

_POLL_S: Final = 0.01
_KILL_WAIT_S: Final = 2.0
_DEAD: Final = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as /proc shows it; `start` (in clock ticks since boot) tells it from a later one with its id."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    state: str

    @property
    def is_alive(self) -> bool:
        """False for one that has ended, whether or not somebody has fetched its status."""
        return self.state not in _DEAD


@dataclass(frozen=True, slots=True)
class Tree:
    """A command by what identifies it: its leader's id (also its session and group) and its mark."""

    leader: int
    """0 when only the mark is known."""
    mark: str
    reaper: int = 0
    """A process whose children all belong to it: those that it has started, and orphans that came to it."""

    def members(self) -> list[Process]:
        """Return every living process of the tree, the leader included; empty where there is no /proc."""
        table = {process.pid: process for process in _processes()}
        table.pop(os.getpid(), None)
        found = {pid for pid, process in table.items() if self._is_own(process)}
        grew = True
        while grew:
            children = {pid for pid, process in table.items() if process.parent in found} - found
            found |= children
            grew = bool(children)
        return [table[pid] for pid in sorted(found) if table[pid].is_alive]

    def terminate(self) -> None:
        """Ask all of them to end (TERM)."""
        _send_all(self.members(), signal.SIGTERM)
        self._signal_group(signal.SIGTERM)

    def kill(self) -> bool:
        """End the whole tree at once. Say whether nothing of it lives any more.

        Groups come first: the kernel signals a group in one step, a member that is just forking included, so no
        number of processes can outrun it. What has left the group is looked for until nothing is found.
        """
        deadline = time.monotonic() + _KILL_WAIT_S
        self._signal_group(signal.SIGKILL)
        while members := self.members():
            for group in {process.group for process in members} - {os.getpgrp()}:
                _send_group(group, signal.SIGKILL)
            _send_all(members, signal.SIGKILL)
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def wait_until_dead(self, timeout_s: float) -> bool:
        """Wait until nothing of the tree lives; say whether that came to be in time."""
        deadline = time.monotonic() + timeout_s
        while self.members():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _is_own(self, process: Process) -> bool:
        if self.leader and self.leader in {process.pid, process.group, process.session}:
            return True
        if self.reaper and process.parent == self.reaper:
            return True
        return bool(self.mark) and self.mark in _marks_of(process.pid)

    def _signal_group(self, number: signal.Signals) -> None:
        """Reach the group by its id too; its leader, alive or not yet fetched, keeps the id from being reused."""
        if self.leader:
            _send_group(self.leader, number)


def mark_of(environment: Mapping[str, str], mark: str) -> str:
    """Return the value of `MARK` for a command: the marks that are there already, and its own."""
    return ":".join(filter(None, (environment.get(MARK, ""), mark)))


def stop_marked(mark: str, grace_s: float = 0.0) -> bool:
    """End everything that carries `mark`: TERM, up to `grace_s` seconds, then KILL. Say whether all are dead.

    This is how what a session's commands have left running goes when the session is closed.
    """
    tree = Tree(0, mark)
    if grace_s > 0:
        tree.terminate()
        if tree.wait_until_dead(grace_s):
            return True
    return tree.kill()


def signal_process(pid: int, start: int, number: signal.Signals) -> bool:
    """Signal the process that began at `start` (clock ticks since boot) and no other; say whether it is there."""
    process = _look(pid)
    if process is None or process.start != start or not process.is_alive:
        return False
    _send(process, number)
    return True


def _send_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _send_all(members: Iterable[Process], number: signal.Signals) -> None:
    for process in members:
        _send(process, number)


def _send(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process, not one that got its id since."""
    with suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            if _look(process.pid) is not None:
                os.kill(process.pid, number)
            return
        fd = os.pidfd_open(process.pid)
        try:
            now = _look(process.pid)
            if now is not None and now.start == process.start:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)


def _processes() -> Iterator[Process]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdecimal():
            process = _look(int(name))
            if process is not None:
                yield process


def _look(pid: int) -> Process | None:
    """Read one process; the name in its status may hold any character, so fields are counted from its end."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    state, parent, group, session = fields[0].decode(), *map(int, fields[1:4])
    return Process(pid, parent, group, session, int(fields[19]), state)


def _marks_of(pid: int) -> frozenset[str]:
    prefix = f"{MARK}=".encode()
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read()
    except OSError:
        return frozenset()
    for variable in text.split(b"\0"):
        if variable.startswith(prefix):
            return frozenset(variable[len(prefix) :].decode("utf-8", "replace").split(":"))
    return frozenset()
