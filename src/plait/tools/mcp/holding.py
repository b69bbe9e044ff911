"""Which calls of servers' tools wait for the user, because the tool is not what was agreed to.

Floor: 3. Owns: what is news about a name now, and yeses on their way from whoever asked to the call; never: asking.

A call is looked at where it is sent, after the server was begun again and its list read again: what was agreed to a
moment ago may have changed since. So a yes is to one tool with one digest, by one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any, Final

from plait.core.messages import ToolResult
from plait.core.strict_json import dump
from plait.core.values import dataclass
from plait.tools.mcp.agreed import Agreed, News
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.pins import Pins
from plait.tools.mcp.server import Server
from plait.tools.mcp.shown import Listing, Shown

REFUSED: Final = "Not run: {words}. It is not used until the user agrees to it as it is now."
_ANOTHER: Final = (
    "Not run: the user has agreed to the tool {name!r} as it is now, and this call does not fit it: {wrong}. It says: "
    "{description}\nIts arguments: {schema}\nCall it again with what it takes, if that is still what is wanted."
)
_GRANTS_MAX: Final = 64
_READING_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Yes:
    """A yes to a tool as it is."""

    digest: str
    is_kept: bool


class Holding:
    """What is held back of some servers. Safe in any thread."""

    def __init__(
        self, configs: Sequence[ServerConfig], pins: Pins | None, tell: Callable[[News, bool], object]
    ) -> None:
        """Begin with what is kept; `tell` hears of each tool that was agreed to, and whether for later runs too."""
        self._agreed = {config.name: Agreed(config, pins) for config in configs}
        self._tell = tell
        self._named: Mapping[str, tuple[Server, str]] = {}
        self._yes: dict[str, _Yes] = {}
        self._told: set[tuple[str, str, str]] = set()

    def shown(self, server: Server, listing: Listing) -> Listing:
        """Return what a model is shown of a server from now on; the first list that is looked at is agreed to."""
        agreed = self._agreed[server.config.name]
        agreed.begin(listing)
        return agreed.shown(listing)

    def name(self, tools: Mapping[str, tuple[Server, str]]) -> None:
        """Take the names of all tools that can be called, each with its server and that one's name for it."""
        self._named = tools

    def fresh(self, server: Server, listing: Listing) -> list[News]:
        """Return what is held back of a server and was not told of yet."""
        found = [news for tool in listing.tools if (news := self._agreed[server.config.name].news(tool)) is not None]
        keys = [(news.server, news.now.own_name, news.now.digest) for news in found]
        fresh = [news for news, key in zip(found, keys, strict=True) if key not in self._told]
        self._told.update(keys)
        return fresh

    def news(self, name: str) -> News | None:
        """Return what is new about the tool of this name now; None for one that may be called.

        A list that was said to have changed is waited for a moment, in any thread but that of the servers.
        """
        server, own_name = self._named.get(name, (None, ""))
        if server is None:
            return None
        futures.wait(server.readings(), timeout=_READING_S)
        return self._agreed[server.config.name].news(_listed(server, own_name))

    def agree(self, call_id: str, news: News, *, is_kept: bool) -> None:
        """Let a call agree to its tool as it is told there, should the call come to run."""
        for old in list(self._yes)[:-_GRANTS_MAX]:
            self._yes.pop(old, None)
        self._yes[call_id] = _Yes(news.now.digest, is_kept)

    def refusal(
        self, server: Server, shown: Shown, call_id: str, arguments: Mapping[str, object], check: Any
    ) -> ToolResult | None:
        """Return why a call may not be sent now, or None; called on the loop, right before it is."""
        agreed, yes = self._agreed[server.config.name], self._yes.pop(call_id, None)
        news = agreed.news(_listed(server, shown.own_name))
        if news is None:
            return None
        if yes is None or yes.digest != news.now.digest:
            return _refused(REFUSED.format(words=news.words))
        agreed.agree(news.now, is_kept=yes.is_kept)
        self._tell(news, yes.is_kept)
        wrong = _wrong(check, news.now, arguments)
        return None if not wrong else _refused(_another(news.now, wrong))


def _listed(server: Server, own_name: str) -> Shown | None:
    return next((tool for tool in server.listing.tools if tool.own_name == own_name), None)


def _wrong(check: Any, tool: Shown, arguments: Mapping[str, object]) -> str | None:
    """Say what is wrong with arguments that were made for the tool as it was."""
    if check is None:
        return None
    try:
        found = check(dict(tool.parameters))
    except ValueError as error:
        return str(error)
    return str(found(arguments) or "") if callable(found) else None


def _another(tool: Shown, wrong: str) -> str:
    return _ANOTHER.format(
        name=tool.own_name, wrong=wrong, description=tool.description, schema=dump(dict(tool.parameters))
    )


def _refused(text: str) -> ToolResult:
    return ToolResult("", text, is_error=True, data={"ok": False, "error": text, "code": "not_agreed"})
