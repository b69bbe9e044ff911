"""Listing, globbing and searching by the strict rules: what the host refuses is not there.

Floor: 3. Owns: what is asked and what is answered; never: the descent.
"""

from __future__ import annotations

import functools
import os

from plait.core.values import dataclass
from plait.hands.searching.globs import compile_glob
from plait.hands.searching.listing import FoundPaths, Listing, find_paths, list_entries
from plait.hands.searching.ripgrep import Ripgrep
from plait.hands.searching.search import SearchQuery, SearchResult, search
from plait.hands.searching.walk import WalkRules
from plait.hands.workspace import Workspace
from plait.kernel.tools import ToolContext
from plait.tools.answer import Answer
from plait.tools.coding.limits import CodingLimits
from plait.tools.coding.permission import Permission
from plait.tools.files import one_line
from plait.tools.finding import shown_matches

_NOTHING = "(nothing)"


@dataclass(frozen=True)
class CodingFinding:
    """The strict search tools. A tree that is empty and one that is refused give the same answer."""

    workspace: Workspace
    permission: Permission
    limits: CodingLimits

    @functools.cached_property
    def ripgrep(self) -> Ripgrep | None:
        """ripgrep, when the host has it; looked for once."""
        return Ripgrep.find(os.environ.get("PATH", os.defpath), avoid=str(self.workspace.root))

    def list_directory(self, path: str = ".") -> Answer:
        """List a directory; one that searches pass over is listed with a mark."""
        listing = Listing((), 0)
        if self._may(path, "list_directory"):
            listing = list_entries(self.workspace, path, self._rules(None), entries_max=self.limits.entries)
        lines = [
            f"{one_line(entry.name)}{'/' if entry.kind == 'directory' else ''}{' (excluded)' if entry.is_noise else ''}"
            for entry in listing.entries
        ]
        if listing.left_out:
            lines.append(f"[{listing.left_out} more entries]")
        data: dict[str, object] = {
            "entries": [
                {"name": entry.name, "type": entry.kind, "excluded": entry.is_noise} for entry in listing.entries
            ],
            "truncated": listing.left_out > 0,
        }
        return "\n".join(lines) or _NOTHING, data

    def glob(self, pattern: str, path: str = ".", call: ToolContext | None = None) -> Answer:
        """Find paths that fit a pattern: `*` within a name, `**/` across directories."""
        found = FoundPaths((), False, 0, 0, "")
        begin = "/".join(name for name in (path, *compile_glob(pattern).base) if name != ".") or "."
        if self._may(path, "glob", begin=begin, pattern=pattern):
            rules = self._rules(call)
            found = find_paths(self.workspace, pattern, path=path, rules=rules, results_max=self.limits.results)
        data: dict[str, object] = {
            "paths": list(found.paths),
            "skipped_directories": found.skipped_directories,
            "truncated": found.is_truncated or bool(found.stopped),
        }
        return "\n".join(found.paths) or _NOTHING, data

    def search_files(
        self,
        pattern: str,
        path: str = ".",
        *,
        regex: bool = False,
        include: str = "",
        context: int = 0,
        call: ToolContext | None = None,
    ) -> Answer:
        """Find lines that hold a text, or match a regular expression; `include` fits the whole path."""
        query = SearchQuery(
            pattern,
            is_literal=not regex,
            include=include,
            include_anchored=True,
            context=context,
            results_max=self.limits.results,
        )
        found: SearchResult | None = None
        if self._may(path, "search_files", pattern=pattern, regex=regex, include=include):
            found = search(self.workspace, query, path=path, rules=self._rules(call), ripgrep=self.ripgrep)
        if found is None:
            return _NOTHING, {"matches": [], "scanned_files": 0, "skipped_directories": 0, "truncated": False}
        data: dict[str, object] = {
            "matches": [{"path": match.path, "line": match.line, "column": match.column} for match in found.matches],
            "scanned_files": found.scanned_files,
            "skipped_directories": found.skipped_directories,
            "truncated": found.is_truncated or bool(found.stopped),
        }
        text = "\n".join(shown_matches(found.matches)) or _NOTHING
        if not found.matches and not found.scanned_files and found.filtered_files:
            text = f"{text}\n[no file fits the filter {include!r}]"
        return text, data

    def _may(self, path: str, tool: str, *, begin: str = "", **details: object) -> bool:
        """Say whether a place is open to the model; raise `Refusal` when the call itself is not allowed.

        `begin` is where below `path` the tool begins, so that every directory is asked about once.
        """
        shown = self.workspace.locate(path).shown
        if not self.permission.allows_path(self.workspace.locate(begin).shown if begin else shown):
            return False
        self.permission.require(tool, path=shown, **details)
        return True

    def _rules(self, call: ToolContext | None) -> WalkRules:
        return WalkRules(
            admit=lambda path, _is_directory: self.permission.allows(path),
            respects_ignore_files=False,
            deadline_s=self.limits.search_s,
            cancel=None if call is None else call.cancel,
        )
