"""What the user has agreed to of one server, and what of it is news: a tool that came or changed is held back.

Floor: 3. Owns: the tools as they were agreed to, and how those of now differ; never: asking anybody.

The list that a first turn finds is agreed to by having declared the server. From then on a tool may go, come back as it
was, or become less (`narrowing`); anything else waits for a yes. What a model is shown of a tool that waits is what was
agreed to, so that the words of the change reach nobody but the user.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Final

from plait.core.values import dataclass
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.narrowing import is_within
from plait.tools.mcp.pins import Damaged, Pins
from plait.tools.mcp.shown import TOOLS_MAX, Listing, Shown, clean

_DIFF_LINES_MAX: Final = 400
_WAITING: Final = "Held back: the MCP server {server!r} has this tool since the user agreed to its others. A call asks."


@dataclass(frozen=True, slots=True)
class News:
    """A tool that is not what was agreed to."""

    server: str
    now: Shown
    before: Shown | None
    """As it was agreed to; None for one that is new."""
    damaged: str = ""
    """The file with what was agreed to, where it cannot be read."""

    @property
    def words(self) -> str:
        """What has happened, as a sentence without the server's own words."""
        tool = f"the tool {clean(self.now.own_name, 100)!r} of the MCP server {clean(self.server, 100)!r}"
        if self.damaged:
            return f"{tool} cannot be compared with what was agreed to: {self.damaged!r} cannot be read"
        if self.before is None:
            return f"{tool} is new since its others were agreed to"
        return f"{tool} has changed since it was agreed to ({' and '.join(self._parts())})"

    @property
    def diff(self) -> str:
        """The change, line by line."""
        before = [] if self.before is None else _lines(self.before)
        lines = [*difflib.unified_diff(before, _lines(self.now), "agreed to", "now", lineterm="", n=2)]
        left_out = len(lines) - _DIFF_LINES_MAX
        return "\n".join(lines if left_out <= 0 else [*lines[:_DIFF_LINES_MAX], f"… {left_out} more lines"])

    def _parts(self) -> list[str]:
        before, now = self.before, self.now
        assert before is not None
        parts = {
            "its description": before.description != now.description,
            "its schema": before.parameters != now.parameters,
            "what it says of its effects": before.hints != now.hints,
        }
        return [name for name, is_other in parts.items() if is_other] or ["its order"]


class Agreed:
    """One server's tools. Changed in the thread of a turn; read in any."""

    def __init__(self, config: ServerConfig, pins: Pins | None) -> None:
        """Read what is kept, where something keeps it."""
        self._config = config
        self._pins = pins
        self._damaged = ""
        self._tools: Mapping[str, Shown] | None = None
        try:
            self._tools = None if pins is None else pins.of(config)
        except Damaged as damaged:
            self._tools, self._damaged = {}, str(damaged)

    def begin(self, listing: Listing) -> None:
        """Agree to what a server has, where nothing was agreed to so far."""
        if self._tools is None and listing.tools:
            self._tools = {tool.own_name: tool for tool in listing.tools}
            self._keep()

    def news(self, tool: Shown | None) -> News | None:
        """Return what is new about a tool that a server lists; None where it is within what was agreed to."""
        if self._tools is None or tool is None:
            return None
        before = self._tools.get(tool.own_name)
        if before is not None and is_within(tool, before):
            return None
        return News(self._config.name, tool, before, self._damaged if before is None else "")

    def shown(self, listing: Listing) -> Listing:
        """Return what a model is shown of a list: of tools that wait, what was agreed to."""
        tools = tuple(tool if (news := self.news(tool)) is None else self._stand_in(news) for tool in listing.tools)
        return Listing(tools, listing.refused, {tool.own_name: tool.digest for tool in tools})

    def agree(self, tool: Shown, *, is_kept: bool) -> None:
        """Agree to a tool as it is; for later runs as well where that is kept."""
        tools = {**(self._tools or {}), tool.own_name: tool}
        for name in list(tools)[: -2 * TOOLS_MAX]:
            del tools[name]
        self._tools = tools
        if is_kept:
            self._keep_one(tool)

    def _stand_in(self, news: News) -> Shown:
        if news.before is not None:
            return news.before
        words = _WAITING.format(server=clean(self._config.name, 100))
        return Shown.of(self._config.name, news.now.own_name, (words, {"type": "object"}), {})

    def _keep(self) -> None:
        if self._pins is not None and self._tools is not None:
            self._pins.keep(self._config, self._tools)

    def _keep_one(self, tool: Shown) -> None:
        """Keep a yes beside what others have kept meanwhile, and without what counts for this run alone."""
        if self._pins is None:
            return
        try:
            kept = self._pins.of(self._config) or {}
        except Damaged:
            kept, self._damaged = {}, ""
        self._pins.keep(self._config, {**kept, tool.own_name: tool})


def _lines(tool: Shown) -> list[str]:
    """Return all that there is to know of a tool, as lines."""
    schema = json.dumps(tool.parameters, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
    hints = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in sorted(tool.hints.items())]
    return [*tool.description.split("\n"), *hints, *schema]
