"""Command lines rewritten by `rtk`, a program of the user's that makes the output of commands shorter.

Floor: 3. Owns: asking it, and keeping the command as it is whenever it does not answer; never: running the command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, RunOptions
from plait.hands.process import run

_TIMEOUT_S: Final = 2.0
_ANSWERS: Final = frozenset({0, 3})
"""Exit codes with which it has an answer."""
_BYTES_MAX: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Rtk:
    """The program, found once."""

    executable: str

    @classmethod
    def find(cls, search_path: str | None = None) -> Rtk | None:
        """Look for `rtk` on the PATH; relative entries, which are whoever's, are passed over. None without one."""
        path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
        for directory in filter(os.path.isabs, path.split(os.pathsep)):
            executable = os.path.join(directory, "rtk")
            if os.path.isfile(executable) and os.access(executable, os.X_OK):
                return cls(executable)
        return None

    def rewritten(self, command: str, cwd: str, environment: Mapping[str, str]) -> str:
        """Return the command line to run in place of `command`, or that one where rtk has no answer in time."""
        options = RunOptions(
            cwd=cwd,
            environment=environment,
            timeout_s=_TIMEOUT_S,
            grace_s=0.0,
            leftovers="kill",
            separates_errors=True,
            limits=CaptureLimits(head_bytes=_BYTES_MAX, tail_bytes=0),
        )
        try:
            done = run(Command((self.executable, "rewrite", command)), options)
        except Refusal:
            return command
        if done.timed_out or done.exit_code not in _ANSWERS or done.output.is_truncated:
            return command
        try:
            said = done.output.head_bytes.decode().strip()
        except UnicodeDecodeError:
            return command
        return command if not said or "\0" in said else said
