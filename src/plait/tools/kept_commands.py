"""Commands that outlive this process: what is recorded before one, where it leaves its end, and when that is forgotten.

Floor: 3. Owns: the intent of a command, and what is told of one that never began or is lost; never: a command's answer.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Self

from plait.core.cancel import Cancel
from plait.core.messages import ToolResult
from plait.core.values import dataclass
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.process import attach, run_supervised
from plait.kernel.tools import as_result
from plait.tools.answer import Reply

if TYPE_CHECKING:
    from plait.hands.launcher import Launcher
    from plait.hands.spool import Spool

JOBS: Final = "jobs"
"""The folder of background jobs in a session's spool."""
_END_S: Final = 0.5
LOST: Final = (
    "Unknown: whoever watched over the command was killed before it ended. What was left of it has been stopped; it "
    "may have done all, part or nothing of its work. Check before repeating it."
)
NEVER: Final = (
    "Not run: the process that was to run this command ended before the command began. Repeat the call if it is still "
    "wanted."
)
RESTARTED: Final = (
    "Unknown: the machine was restarted before the end of this command was recorded. It may have done all, part or "
    "nothing of its work. Check before repeating it."
)
_UNTOLD: Final = (
    "Unknown: there is no record that this command began, and on this system none that it did not. It may have done "
    "all, part or nothing of its work. Check before repeating it."
)
_AFTER_RESTART: Final = (
    "[the machine was restarted after this command had ended: what it wrote shortly before may be lost]"
)


@dataclass(frozen=True, slots=True)
class KeptIntent:
    """What is recorded before a command begins: where its end will be found, and until when it may run."""

    entry: str
    """Its entry in the spool, which names the supervisor's process, its start time and its session."""
    timeout_s: float
    boot: str
    """The start of the machine at which it begins; what is not in the spool after another one may have been there."""

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        return {"spool": self.entry, "timeout_s": self.timeout_s, "boot": self.boot}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Read back what `to_dict` gave."""
        return cls(str(data["spool"]), float(str(data["timeout_s"])), str(data["boot"]))


@dataclass
class KeptCommands:
    """The commands of one session, with their spool. Safe in any thread."""

    spool: Spool
    launcher: Launcher
    boot: str
    """The start of the machine at which this process runs."""
    starts_ahead: bool = True
    """A supervisor waits for the next command, so that it begins sooner."""
    is_taken_over: bool = False
    """True once a command was begun or looked after here; before that, what an earlier process has left is not ours."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: set[str] = field(default_factory=set)
    """Entries whose end was told, and perhaps not recorded yet."""
    _recorded: set[str] = field(default_factory=set)
    """Entries whose end will have been recorded when the next command begins."""

    @classmethod
    def over(cls, folder: str | os.PathLike[str]) -> Self | None:
        """Return the commands of a folder; None where no supervisor can be started."""
        if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
            return None
        from plait.hands.launcher import Launcher  # its modules exist on POSIX only
        from plait.hands.spool import Spool, boot_id

        spool = Spool(folder)
        return cls(spool, Launcher(spool.mark), boot_id())

    @property
    def mark(self) -> str:
        """What all of these commands carry, in whatever process they were started."""
        return self.spool.mark

    def intend(self, limit_s: float) -> Mapping[str, object] | None:
        """Return what is recorded before a command begins; None where its end cannot be kept."""
        try:
            self.spool.prepare()
        except OSError:
            return None
        self.is_taken_over = True
        with self._lock:
            # The calls before this one have their results: these are appended, and durable before this one begins.
            self._recorded |= self._told
            self._told.clear()
        if self.starts_ahead:
            self.launcher.prepare()
        return KeptIntent(self.spool.new_name(), limit_s, self.boot).to_dict()

    def run(self, command: Command, options: RunOptions, intent: KeptIntent, cancel: Cancel | None) -> Finished:
        """Run a command under a supervisor. Raises `Refusal` when it cannot be started."""
        self._forget()
        try:
            return run_supervised(command, options, self.spool.entry(intent.entry), self.launcher, cancel)
        finally:
            with self._lock:
                self._told.add(intent.entry)
            if self.starts_ahead:
                self.launcher.prepare_soon()

    def settle(self, intent: KeptIntent, options: RunOptions, cancel: Cancel) -> Finished | ToolResult:
        """Return what came of a command that an earlier process started, waiting for its end if it still runs.

        One that has not begun never will. Raises `Refusal` when it could not be started.
        """
        self.is_taken_over = True
        entry = self.spool.entry(intent.entry)
        is_restarted = intent.boot != self.boot
        record = entry.read()
        if is_restarted and not record.is_safe:
            return ToolResult("", RESTARTED, status="unknown")
        if not record.began and not entry.is_held():
            if not intent.boot:
                # Where starts of the machine are not told apart, a record may have been lost with the last one.
                return ToolResult("", _UNTOLD, status="unknown")
            if entry.withdraw():
                return ToolResult("", NEVER, data={"ok": False, "recovered": "not_run"}, status="cancelled")
        done = attach(entry, options, cancel)
        return replace(done, note=_AFTER_RESTART) if is_restarted else done

    def sweep(self, keep: Collection[str]) -> None:
        """Remove what commands left, but for the entries of calls that have no result yet."""
        self.spool.sweep(keep)

    def close(self) -> None:
        """Let go of supervisors. What commands left stays: the last results may not be recorded yet."""
        self.launcher.close()

    def _forget(self) -> None:
        with self._lock:
            recorded, self._recorded = self._recorded, set()
        for name in recorded:
            entry = self.spool.entry(name)
            if entry.is_held():
                with self._lock:
                    self._recorded.add(name)  # it is still being synced
            else:
                entry.remove()


def end_all(spool: str | os.PathLike[str]) -> None:
    """End whatever runs of a session that is gone: its commands, its background jobs, what they have left."""
    from plait.hands.process_tree import stop_marked
    from plait.hands.spool import Spool

    for folder in (os.fspath(spool), os.path.join(spool, JOBS)):
        stop_marked(Spool(folder).mark, _END_S)


def recovered(reply: Reply) -> ToolResult:
    """Return the answer of a command as it would have been in time, marked for programs as found out later."""
    result = as_result("", reply)
    return replace(result, data={**(result.data or {}), "recovered": "ended"})
