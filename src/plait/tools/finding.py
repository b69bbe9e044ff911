"""Finding files by name and lines by content.

Floor: 3. Owns: what these tools answer; never: the descent, ignore rules, engines.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from plait.core.values import dataclass
from plait.hands.searching.listing import FoundPaths, find_paths
from plait.hands.searching.ripgrep import Ripgrep
from plait.hands.searching.search import Match, SearchQuery, SearchResult, search
from plait.hands.searching.walk import WalkRules
from plait.kernel.tools import ToolContext
from plait.tools.answer import Answer
from plait.tools.definitions import PATHS_MAX, RESULTS_MAX
from plait.tools.places import Places
from plait.tools.spill import Spill

_NOTES_CHARS: Final = 400
_MAGIC: Final = frozenset("*?[{")
_STOPPED: Final = {
    "deadline": "[stopped: it took too long; look in a smaller directory]",
    "entries": "[stopped: there are too many entries; look in a smaller directory]",
    "cancelled": "[stopped: cancelled]",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search is for."""

    pattern: str
    path: str = "."
    glob: str | None = None
    context: int = 0
    ignore_case: bool = False
    max_results: int | None = None

    @property
    def query(self) -> SearchQuery:
        """The search as hands take it."""
        return SearchQuery(
            self.pattern,
            ignores_case=self.ignore_case,
            include=self.glob or "",
            context=self.context,
            results_max=RESULTS_MAX if self.max_results is None else self.max_results,
        )


@dataclass(frozen=True)
class Finding:
    """The search tools of one session; each answers with text and data, or raises `Refusal`."""

    places: Places
    spill: Spill
    chars_max: int
    """Size of a result; 0 is no limit."""
    hides: Callable[[str], bool] | None = None
    """Says of an absolute path, links followed, that its content is not searched: what rules keep from being read."""

    @functools.cached_property
    def ripgrep(self) -> Ripgrep | None:
        """ripgrep, when the user has it; looked for once."""
        return Ripgrep.find(os.environ.get("PATH", os.defpath), avoid=self.places.root)

    def glob(self, pattern: str, path: str = ".", call: ToolContext | None = None) -> Answer:
        """Return the sorted paths that fit a pattern, which may itself say where to begin."""
        return self._listed(self._find(pattern, path, call), "(no matches)")

    def find_files(self, pattern: str, path: str = ".", call: ToolContext | None = None) -> Answer:
        """Return the same in the kernel's words."""
        return self._listed(self._find(pattern, path, call), f"(no files match {pattern!r})")

    def search_files(self, wanted: Wanted, call: ToolContext | None = None) -> Answer:
        """Return `path:line:text` for each line that matches, and lines around it as `path-line-text`."""
        found = search(self.places, wanted.query, path=wanted.path, rules=self._searched(call), ripgrep=self.ripgrep)
        notes = list(_notes_on(found, wanted))
        text = "\n".join(shown_matches(found.matches)) or f"(no matches for {wanted.pattern!r})"
        fitted = self.spill.fit(text, self.chars_max and max(1, self.chars_max - _NOTES_CHARS))
        data = {
            "matches": len(found.matches),
            "scanned_files": found.scanned_files,
            "skipped_directories": found.skipped_directories,
            "stopped": found.stopped or ("results" if found.is_truncated else ""),
        }
        return "\n".join((fitted.text, *notes)), data | fitted.data

    def _find(self, pattern: str, path: str, call: ToolContext | None) -> FoundPaths:
        path, pattern = split_pattern(pattern, path)
        return find_paths(self.places, pattern, path=path, rules=self._rules(call), results_max=PATHS_MAX)

    def _listed(self, found: FoundPaths, nothing: str) -> Answer:
        lines = list(found.paths) or [nothing]
        if found.is_truncated:
            lines.append(f"[stopped at {len(found.paths)} paths; use a narrower pattern]")
        if found.stopped:
            lines.append(_STOPPED[found.stopped])
        if not found.paths and found.ignored:
            lines.append(f"[{found.ignored} entries that .gitignore names were passed over]")
        data = {"total": len(found.paths), "skipped_directories": found.skipped_directories}
        fitted = self.spill.fit("\n".join(lines), self.chars_max)
        return fitted.text, data | {"stopped": found.stopped or ("results" if found.is_truncated else "")} | fitted.data

    def _rules(self, call: ToolContext | None) -> WalkRules:
        return WalkRules(forbidden=self.places.forbidden(), cancel=None if call is None else call.cancel)

    def _searched(self, call: ToolContext | None) -> WalkRules:
        rules, hides = self._rules(call), self.hides
        if hides is None:
            return rules
        folders: dict[str, str] = {}

        def admit(path: str, is_directory: bool) -> bool:
            folder, name = os.path.split(os.path.join(self.places.root, path))
            real = folders.get(folder)
            if real is None:
                real = folders[folder] = os.path.realpath(folder)
            return not hides(os.path.join(real, name))

        return replace(rules, admit=admit)


def split_pattern(pattern: str, path: str) -> tuple[str, str]:
    """Return where to begin and the pattern below it, for a pattern that leads elsewhere: `/a/*`, `~/*`, `../*`."""
    names = pattern.split("/")
    if len(names) < 2 or names[0] not in {"", "~", ".."}:
        return path, pattern
    literal = list(itertools.takewhile(lambda name: not _MAGIC.intersection(name), names[:-1]))
    begin = "/".join(literal) or "/"
    rest = "/".join(names[len(literal) :])
    return (f"{path}/{begin}" if names[0] == ".." and path != "." else begin), rest


def shown_matches(matches: Iterable[Match]) -> Iterator[str]:
    """Return matches as ripgrep prints them: neighbouring lines once, `--` between what does not touch."""
    for number, (path, group) in enumerate(itertools.groupby(matches, key=lambda match: match.path)):
        lines: dict[int, tuple[str, str]] = {}
        for match in group:
            for offset, text in enumerate(match.before, match.line - len(match.before)):
                lines.setdefault(offset, ("-", text))
            lines[match.line] = (":", match.text)
            for offset, text in enumerate(match.after, match.line + 1):
                lines.setdefault(offset, ("-", text))
        has_context = any(mark == "-" for mark, _ in lines.values())
        last = 0
        for line in sorted(lines):
            is_apart = line != last + 1 if last else number > 0
            if has_context and is_apart:
                yield "--"
            mark, text = lines[line]
            yield f"{path}{mark}{line}{mark}{text}"
            last = line


def _notes_on(found: SearchResult, wanted: Wanted) -> Iterator[str]:
    if found.is_truncated:
        yield f"[stopped at {len(found.matches)} matches; there are more]"
    if found.stopped:
        yield _STOPPED[found.stopped]
    if not found.matches and not found.scanned_files and found.filtered_files:
        yield f"[none of the {found.filtered_files} files there fits {wanted.glob!r}]"
    if found.skipped_large:
        yield f"[{found.skipped_large} file(s) were too large to search]"
    if not found.matches and found.ignored:
        yield f"[{found.ignored} entries that .gitignore names were passed over]"
