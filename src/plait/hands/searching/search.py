"""Finding lines in files: the same answers with ripgrep and without it.

Floor: 2. Owns: which files are searched, in which order, and what a result holds; never: how a result is shown.

The descent chooses the files, an engine finds the lines in them, and what is returned is read again here, from files
opened beneath the base. So neither engine decides what is ignored, and no link that is swapped under one of them
brings a byte from elsewhere into a result.
Binary files (a NUL byte in the first 8 KiB, UTF-16 included) and files above `file_bytes_max` are passed over.
"""

from __future__ import annotations

import itertools
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands import beneath
from plait.hands.searching.globs import Glob, compile_glob
from plait.hands.searching.listing import descent, prefix_of, readable
from plait.hands.searching.patterns import SearchPattern, compile_pattern
from plait.hands.searching.python_search import PythonSearch, SearchStopped
from plait.hands.searching.regex_worker import LINE_END, Hit
from plait.hands.searching.ripgrep import Ripgrep, RipgrepFailed
from plait.hands.searching.walk import Stopped, Walk, WalkRules
from plait.hands.workspace import Files, OpenDirectory, Pinned

RESULTS_MAX: Final = 1_000
_BINARY_BYTES: Final = 8_192
_CHUNK_BYTES: Final = 1 << 20
_BATCHES: Final = (64, 256, 1_024, 4_096)
"""Files for the first calls of ripgrep, and for all that follow: early hits should come early."""
_BATCH_CHARS_MAX: Final = 400_000

Engine = Literal["ripgrep", "python"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What to look for."""

    pattern: str
    is_literal: bool = False
    ignores_case: bool = False
    include: str = ""
    """A glob over the path below the base; without `/` it may match a name at any depth, see `include_anchored`."""
    include_anchored: bool = False
    """`include` fits the whole path as shown, from the workspace on, wherever the search begins."""
    context: int = 0
    """Lines to give before and after each hit."""
    results_max: int = 100
    file_bytes_max: int = 32 * 1024 * 1024
    line_chars_max: int = 500


@dataclass(frozen=True, slots=True)
class Match:
    """One line that matched."""

    path: str
    line: int
    """From 1."""
    column: int
    """Character, from 1, at which the first match in the line begins."""
    text: str
    """Without its line end; a long line is cut around the match, with `…` where it was cut."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The matches in order of path and line, and what was not looked at."""

    matches: tuple[Match, ...]
    scanned_files: int
    """Files that the filter and the host let through, up to where the search ended."""
    filtered_files: int
    """Files that `include` left out."""
    skipped_large: int
    skipped_directories: int
    ignored: int
    is_truncated: bool
    """True when there are more matches than `results_max`."""
    stopped: Stopped
    """What ended the search early, apart from the number of results."""
    engine: Engine


def search(
    files: Files, query: SearchQuery, *, path: str = ".", rules: WalkRules | None = None, ripgrep: Ripgrep | None = None
) -> SearchResult:
    """Find the lines that match, in one file or in all files below a directory.

    Uses `ripgrep` when it is given, Python otherwise. Raises `Refusal` for what cannot be used as pattern or path.
    Cancel: `rules.cancel` and `rules.deadline_s` end it early, with what was found until then.
    """
    rules = rules or WalkRules()
    pattern = compile_pattern(query.pattern, is_literal=query.is_literal, ignores_case=query.ignores_case)
    with files.pin(path) as pinned:
        status = pinned.status()
        if status is None:
            raise Refusal("NOT_FOUND", f"no such path: {pinned.shown!r}", hint="list the directory above it")
        if stat.S_ISDIR(status.st_mode):
            with pinned.open_directory() as directory:
                return _search_below(_Search(query, pattern, rules), files, directory, ripgrep)
        pinned.open_file().close()  # what is no regular file is refused here
        return _search_one(_Search(query, pattern, rules), pinned, status.st_size, ripgrep)


def _search_below(run: _Search, files: Files, directory: OpenDirectory, ripgrep: Ripgrep | None) -> SearchResult:
    walk = descent(files, directory, run.rules)
    base = _Base(directory.fd, prefix_of(directory))
    if ripgrep is None or not base.address():
        run.by_python(base, run.candidates(walk, base))
        return run.result(walk, "python")
    run.by_ripgrep(ripgrep, base, run.candidates(walk, base))
    return run.result(walk, "ripgrep")


def _search_one(run: _Search, pinned: Pinned, size_bytes: int, ripgrep: Ripgrep | None) -> SearchResult:
    base = _Base(pinned.fd, pinned.shown[: len(pinned.shown) - len(pinned.name)])
    candidate = _Candidate(pinned.name, pinned.shown, pinned.fd)
    glob = run.include() if run.query.include_anchored else None
    if glob is not None and not glob.matches(pinned.shown):
        run.filtered = 1
    elif size_bytes > run.query.file_bytes_max:
        run.skipped_large = 1
    elif ripgrep is None or not base.address():
        run.by_python(base, iter((candidate,)))
    else:
        run.by_ripgrep(ripgrep, base, iter((candidate,)))
        return run.result(None, "ripgrep")
    return run.result(None, "python")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file to search: its path below the base, its path as shown, and a directory that is open while it is asked."""

    path: str
    shown: str
    directory_fd: int


@dataclass(frozen=True, slots=True)
class _Base:
    """Where a search begins: an opened directory."""

    fd: int
    prefix: str

    def read(self, candidate: _Candidate, bytes_max: int, *, is_held: bool) -> bytes | None:
        """Read a text file; None for what is binary, larger, gone or not ours to read.

        `is_held`: the candidate's directory is still open; otherwise its path is walked again, beneath the base.
        """
        try:
            fd = self._open(candidate, is_held=is_held)
        except (OSError, beneath.Escaped):
            return None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            data = os.read(fd, _BINARY_BYTES)
            if b"\0" in data:
                return None
            return _read_rest(fd, data, bytes_max)
        except OSError:
            return None
        finally:
            os.close(fd)

    def _open(self, candidate: _Candidate, *, is_held: bool) -> int:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | beneath.NO_LINK
        if is_held:
            return os.open(candidate.path.rpartition("/")[2], flags, dir_fd=candidate.directory_fd)
        spot = beneath.NameByName(self.fd, (), follows_links=False).find(tuple(candidate.path.split("/")))
        try:
            return os.open(spot.name, flags, dir_fd=spot.fd)
        finally:
            os.close(spot.fd)

    def address(self) -> str:
        """A path that leads a child process to this very directory, or `` where there is none."""
        return f"/proc/self/fd/{self.fd}" if sys.platform == "linux" else ""


@dataclass(slots=True)
class _Search:
    """One search while it runs: what was found and counted so far."""

    query: SearchQuery
    pattern: SearchPattern
    rules: WalkRules
    matches: list[Match] = field(default_factory=list[Match])
    scanned: int = 0
    filtered: int = 0
    skipped_large: int = 0
    is_truncated: bool = False
    stopped: Stopped = ""
    _started_at: float = field(default_factory=time.monotonic)

    def include(self) -> Glob | None:
        """Return which files are searched; None for all."""
        include, is_anchored = self.query.include, self.query.include_anchored
        return compile_glob(include, at_any_depth=not is_anchored, splits_base=False) if include else None

    def candidates(self, walk: Walk, base: _Base) -> Iterator[_Candidate]:
        """Yield the files to search, in order."""
        glob, lead = self.include(), base.prefix if self.query.include_anchored else ""
        for found in walk:
            if found.kind != "file":
                continue
            if glob is not None and not glob.matches(lead + found.path):
                self.filtered += 1
                continue
            try:
                size_bytes = os.stat(found.name, dir_fd=found.directory_fd, follow_symlinks=False).st_size
            except OSError:
                continue
            if size_bytes > self.query.file_bytes_max:
                self.skipped_large += 1
                continue
            yield _Candidate(found.path, base.prefix + found.path, found.directory_fd)

    def by_python(self, base: _Base, candidates: Iterator[_Candidate], *, is_held: bool = True) -> None:
        """Search with Python."""
        with PythonSearch(
            self.pattern, hits_max=self._wanted + 1, deadline_s=self._time_left(), cancel=self.rules.cancel
        ) as engine:
            for candidate in candidates:
                self.scanned += 1
                data = base.read(candidate, self.query.file_bytes_max, is_held=is_held)
                if data is None:
                    continue
                try:
                    hits = engine.find(data)
                except SearchStopped:
                    self._stop()
                    return
                self._take(candidate, data, hits)
                if self.is_truncated:
                    return

    def by_ripgrep(self, ripgrep: Ripgrep, base: _Base, candidates: Iterator[_Candidate]) -> None:
        """Search with ripgrep, and with Python what ripgrep fails at."""
        sizes = itertools.chain(_BATCHES, itertools.repeat(_BATCHES[-1]))
        while batch := _batch(candidates, next(sizes)):
            try:
                found = ripgrep.search(
                    self.pattern,
                    base.address(),
                    [candidate.path for candidate in batch],
                    hits_max=self._wanted + 1,
                    deadline_s=self._time_left(),
                    cancel=self.rules.cancel,
                )
            except SearchStopped:
                self._stop()
                return
            except RipgrepFailed:
                self.by_python(base, iter(batch), is_held=False)
            else:
                self._take_batch(base, batch, found)
            if self.is_truncated or self.stopped:
                return

    def result(self, walk: Walk | None, engine: Engine) -> SearchResult:
        """Return what was found."""
        return SearchResult(
            matches=tuple(self.matches),
            scanned_files=self.scanned,
            filtered_files=self.filtered,
            skipped_large=self.skipped_large,
            skipped_directories=walk.skipped_directories if walk else 0,
            ignored=walk.ignored if walk else 0,
            is_truncated=self.is_truncated,
            stopped=self.stopped or (walk.stopped if walk else ""),
            engine=engine,
        )

    @property
    def _wanted(self) -> int:
        return min(max(1, self.query.results_max), RESULTS_MAX)

    def _take_batch(self, base: _Base, batch: list[_Candidate], found: Iterable[tuple[int, Hit]]) -> None:
        before = self.scanned
        self.scanned += len(batch)
        for index, group in itertools.groupby(found, key=lambda pair: pair[0]):
            data = base.read(batch[index], self.query.file_bytes_max, is_held=False)
            if data is not None:
                self._take(batch[index], data, [hit for _, hit in group])
            if self.is_truncated:
                self.scanned = before + index + 1
                return

    def _take(self, candidate: _Candidate, data: bytes, hits: list[Hit]) -> None:
        """Add the matches of one file, until there are more than wanted."""
        if not hits:
            return
        room = self._wanted - len(self.matches)
        lines = data.split(b"\n", hits[-1][0] + self.query.context)
        if lines[-1] == b"":
            lines.pop()  # behind the last line end there is no line
        for hit in hits:
            if hit[0] > len(lines):
                continue  # the file has become shorter since the engine saw it
            if not room:
                self.is_truncated = True
                return
            room -= 1
            self.matches.append(self._match(readable(candidate.shown), lines, hit))

    def _match(self, path: str, lines: list[bytes], hit: Hit) -> Match:
        number, byte = hit
        context, chars_max = self.query.context, self.query.line_chars_max
        line = lines[number - 1]
        text, column = _cut(line, len(line) if byte == LINE_END else byte, chars_max)
        before = tuple(_cut(line, 0, chars_max)[0] for line in lines[max(0, number - 1 - context) : number - 1])
        after = tuple(_cut(line, 0, chars_max)[0] for line in lines[number : number + context])
        return Match(path, number, column, text, before, after)

    def _time_left(self) -> float | None:
        if self.rules.deadline_s is None:
            return None
        return max(0.01, self._started_at + self.rules.deadline_s - time.monotonic())

    def _stop(self) -> None:
        is_cancelled = self.rules.cancel is not None and self.rules.cancel.reason is not None
        self.stopped = "cancelled" if is_cancelled else "deadline"


def _batch(candidates: Iterator[_Candidate], count_max: int) -> list[_Candidate]:
    """Take so many candidates that their paths fit on one command line."""
    batch: list[_Candidate] = []
    size = 0
    for candidate in candidates:
        batch.append(candidate)
        size += len(candidate.path) + 16
        if len(batch) >= count_max or size > _BATCH_CHARS_MAX:
            break
    return batch


def _read_rest(fd: int, start: bytes, bytes_max: int) -> bytes | None:
    pieces = [start]
    size = len(start)
    while piece := os.read(fd, _CHUNK_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            return None
    return b"".join(pieces)


def _cut(line: bytes, byte: int, chars_max: int) -> tuple[str, int]:
    """Return a line as text and the column of a byte in it; a long line is cut around that column."""
    text = line.removesuffix(b"\r").decode("utf-8", "replace")
    column = len(line[:byte].decode("utf-8", "replace")) + 1
    if text.startswith("\ufeff"):
        text, column = text[1:], max(1, column - 1)
    if len(text) <= chars_max:
        return text, column
    start = max(0, min(column - 1 - chars_max // 4, len(text) - chars_max))
    end = start + chars_max
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}", column
