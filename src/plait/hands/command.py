"""What a command is, how it is run, and how it ended.

Floor: 2. Owns: the values around a command; never: running it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal

from plait.core.values import dataclass
from plait.hands.capture import Captured, CaptureLimits
from plait.hands.process_tree import stop_marked

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence

_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")

StreamName = Literal["stdout", "stderr"]
OnOutput = Callable[[str, StreamName], None]
"""Called with each piece of text as it arrives, in a thread of the command's own."""
Ended = Literal["exited", "timed_out", "cancelled", "overflowed", "lost"]
"""Why a command is over: by itself, or what stopped it. `lost`: whoever watched over it is gone, and nobody knows."""
Leftovers = Literal["leave", "kill"]
"""What happens to processes that are still there when the command itself has ended by itself.

`leave`: they go on, with their output read and forgotten. `kill`: the whole tree dies before `run` returns.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments; never a string that something would take apart."""

    argv: tuple[str, ...]

    @classmethod
    def shell(cls, text: str) -> Command:
        """A command line for bash (or sh, where there is no bash), without any start-up files."""
        shell = next((path for path in _SHELLS if os.access(path, os.X_OK)), _SHELLS[-1])
        return cls((shell, "-c", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a command is run."""

    cwd: str
    environment: Mapping[str, str]
    """The whole environment; see `child_environment`."""
    input: bytes | None = None
    """What it can read on stdin, which then ends; None is nothing."""
    timeout_s: float | None = 120.0
    grace_s: float = 2.0
    """Between TERM and KILL, when the command is stopped."""
    leftovers: Leftovers = "leave"
    separates_errors: bool = False
    """Keep stderr apart; otherwise both streams are one, in the order in which they were written."""
    limits: CaptureLimits = field(default_factory=CaptureLimits)
    spill_path: str | None = None
    """A file, not there yet, that takes the whole output when it does not fit in memory."""
    errors_spill_path: str | None = None
    output_bytes_max: int | None = None
    """Stop the command when it has written more; None lets it write on, kept or not."""
    mark: str = ""
    """Carried by everything the command starts, beside a mark of its own; `stop_marked` finds them by it."""
    on_output: OnOutput | None = None
    fence: Fence | None = None
    """Stands around the command; `environment` is already what may pass into it."""

    def fenced(self, command: Command) -> Command:
        """Return what is started for a command."""
        return command if self.fence is None else self.fence.wrap(command)


@dataclass(frozen=True, slots=True)
class Leftover:
    """Processes that a finished command has left running, known by their mark."""

    mark: str

    def stop(self, grace_s: float = 0.0) -> bool:
        """End them; say whether none lives any more."""
        return stop_marked(self.mark, grace_s)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it wrote."""

    end: Ended
    exit_code: int | None
    """None when a signal ended it, or when it never started."""
    signal: int | None
    output: Captured
    errors: Captured | None
    """stderr, when it was kept apart."""
    duration_s: float
    leftover: Leftover | None = None
    """What still holds the output open, when that was left alone."""
    note: str = ""
    """What a reader has to know besides."""

    @classmethod
    def never_started(cls, options: RunOptions) -> Finished:
        """What comes of a command that was cancelled before it began."""
        empty = Captured(b"", b"", 0)
        return cls("cancelled", None, None, empty, empty if options.separates_errors else None, 0.0)

    @property
    def timed_out(self) -> bool:
        """True when the time limit stopped it."""
        return self.end == "timed_out"

    @property
    def cancelled(self) -> bool:
        """True when the cancel signal stopped it, or came before it could start."""
        return self.end == "cancelled"
