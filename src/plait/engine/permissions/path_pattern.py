"""Which files a rule means: patterns as in `.gitignore`, from the workspace, from home or from the root.

Floor: 4. Owns: where a pattern is anchored; never: following links (whoever judges hands in where a path leads).
"""

from __future__ import annotations

import os
from typing import Any

from plait.core.values import dataclass


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern beneath an anchor."""

    anchor: str
    _spec: Any
    _holds_anchor: bool

    @classmethod
    def of(cls, pattern: str, *, root: str, home: str) -> PathPattern:
        """Read a pattern.

        `//etc/**` is from the root of the machine, `~/.ssh` from home, everything else from the workspace: `/docs/*`
        and `./docs/*` from its top, `*.pem` and `secrets` anywhere in it. A directory means all that is in it.
        """
        from pathspec import GitIgnoreSpec  # only where a rule names files

        text, anchor = pattern.strip(), root
        if text.startswith("//"):
            text, anchor = text[1:], "/"
        elif text == "~" or text.startswith("~/"):
            text, anchor = text[1:] or "/", home
        elif text.startswith("./"):
            text = text[1:]
        elif text in (".", "**"):
            text = "/"
        # A rule has no `!` and no comments: such a name is a name.
        text = f"\\{text}" if text[:1] in ("!", "#") else text
        is_all = text in ("/", "/**")
        return cls(os.path.normpath(anchor), GitIgnoreSpec.from_lines(["*" if is_all else text]), is_all)

    def holds(self, path: str) -> bool:
        """Say whether the pattern means an absolute path, or a directory that it is in."""
        path = os.path.normpath(path)
        if path == self.anchor:
            return self._holds_anchor
        stem = self.anchor if self.anchor.endswith("/") else f"{self.anchor}/"
        if not path.startswith(stem):
            return False
        below = path[len(stem) :]
        # As a directory as well: `build/` means build, whatever it turns out to be.
        return bool(self._spec.match_file(below) or self._spec.match_file(f"{below}/"))
