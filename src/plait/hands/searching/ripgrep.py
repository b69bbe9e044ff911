"""ripgrep as a search engine: found by running it, told exactly which files, asked only for lines and columns.

Floor: 2. Owns: its command line and its output; never: which files, what is shown of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.planted import repository_around
from plait.hands.process import run
from plait.hands.searching.patterns import SearchPattern
from plait.hands.searching.python_search import SearchStopped
from plait.hands.searching.regex_worker import LINE_END, Hit

_FLAGS: Final = (
    *("--no-config", "--no-messages", "--color=never", "--threads=1", "--text", "--encoding=none"),
    *("--no-heading", "--with-filename", "--line-number", "--column", "--null", "--max-columns=1"),
    *("--regex-size-limit=200M", "--dfa-size-limit=200M"),
)
_OUTPUT_BYTES_MAX: Final = 16 * 1024 * 1024
_FOUND: Final = 0
_NOTHING_FOUND: Final = 1
_ERROR: Final = 2
_PROBE_S: Final = 5.0


class RipgrepFailed(Exception):
    """ripgrep could not do it; the other engine can."""


@dataclass(frozen=True, slots=True)
class Ripgrep:
    """A ripgrep that answered when it was asked for its version."""

    executable: str

    @classmethod
    def find(cls, search_path: str, avoid: str = "") -> Ripgrep | None:
        """Look for `rg` on a PATH and run it once; None without one.

        Relative entries of the PATH and those inside `avoid` (the workspace), or the repository around it, are passed
        over: what lies there is not the user's choice of program.
        """
        avoid = repository_around(avoid) if avoid else ""
        for directory in filter(os.path.isabs, search_path.split(os.pathsep)):
            executable = os.path.realpath(os.path.join(directory, "rg"))
            is_usable = os.path.isfile(executable) and os.access(executable, os.X_OK)
            is_planted = avoid and (_is_within(directory, avoid) or _is_within(executable, avoid))
            if is_usable and not is_planted and _answers(executable):
                return cls(executable)
        return None

    def search(
        self,
        pattern: SearchPattern,
        directory: str,
        paths: Sequence[str],
        *,
        hits_max: int,
        deadline_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[tuple[int, Hit]]:
        """Return, for each hit, the index of its path and the hit, in the order of `paths` and lines.

        At most `hits_max` hits a file.

        `paths` are relative to `directory`. Raises `SearchStopped`, `RipgrepFailed`, or `Refusal` for a pattern that
        grows too large.
        """
        arguments = (*_FLAGS, f"--max-count={hits_max}", "-e", pattern.rust, "--", *(f"./{path}" for path in paths))
        options = RunOptions(
            cwd=directory,
            environment={"PATH": os.defpath, "LC_ALL": "C"},
            timeout_s=deadline_s,
            grace_s=0.0,
            separates_errors=True,
            limits=CaptureLimits(head_bytes=_OUTPUT_BYTES_MAX, tail_bytes=0),
            output_bytes_max=_OUTPUT_BYTES_MAX,
        )
        try:
            finished = run(Command((self.executable, *arguments)), options, cancel)
        except Refusal as refusal:
            raise RipgrepFailed(refusal.message) from refusal
        _judge(finished, pattern)
        indexes = {b"./" + os.fsencode(path): index for index, path in enumerate(paths)}
        return ((indexes[path], hit) for path, hit in _parse(finished.output.head_bytes) if path in indexes)


def _is_within(path: str, directory: str) -> bool:
    real, root = os.path.realpath(path), os.path.realpath(directory)
    return real == root or real.startswith(f"{root.rstrip('/')}/")


def _answers(executable: str) -> bool:
    options = RunOptions(cwd="/", environment={"PATH": os.defpath}, timeout_s=_PROBE_S, grace_s=0.0)
    try:
        finished = run(Command((executable, "--no-config", "--version")), options)
    except Refusal:
        return False
    return finished.exit_code == 0 and finished.output.head_bytes.startswith(b"ripgrep ")


def _judge(finished: Finished, pattern: SearchPattern) -> None:
    """Raise what the end of ripgrep means, unless its output can be used."""
    if finished.end == "overflowed":
        return  # more hits than anybody asked for; the first of them are there
    if finished.end != "exited":
        raise SearchStopped
    if finished.exit_code == _ERROR and finished.errors is not None and b"regex" in finished.errors.head_bytes:
        raise Refusal(
            "INVALID_INPUT",
            f"the pattern {pattern.source!r} grows too large",
            hint="use smaller repetitions, or fewer of them",
            details={"pattern": pattern.source},
        )
    if finished.exit_code not in {_FOUND, _NOTHING_FOUND, _ERROR}:
        raise RipgrepFailed(f"ripgrep ended with {finished.exit_code}, signal {finished.signal}")


def _parse(output: bytes) -> Iterator[tuple[bytes, Hit]]:
    """Read records of `path NUL line : column : anything LF`; a path may hold anything but NUL.

    An empty match at the end of a line comes without its column.
    """
    at = 0
    while (nul := output.find(b"\0", at)) >= 0:
        end = output.find(b"\n", nul)
        if end < 0:
            return  # the last record was cut off
        line, *rest = output[nul + 1 : end].split(b":", 2)
        has_column = len(rest) == 2 and rest[0].isdigit()
        yield output[at:nul], (int(line), int(rest[0]) - 1 if has_column else LINE_END)
        at = end + 1
