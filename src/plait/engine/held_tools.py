"""Tools of MCP servers that are not what was agreed to, as a gate: a person is asked, shown what has changed.

Floor: 4. Owns: whose yes counts for such a tool; never: what has changed (`tools.mcp.agreed`), or asking.

A rule or a hook that allows calls of a tool was made for the tool as it was: neither agrees to it anew. A no of theirs
stays one.
"""

from __future__ import annotations

from collections.abc import Callable

from plait.core.cancel import Cancel
from plait.core.messages import ToolCall
from plait.engine.approval import Approver
from plait.engine.gates import Gate, Gates, GatesBefore
from plait.kernel.effects import Allow, Deny
from plait.kernel.tools import Tool
from plait.tools.mcp.holding import REFUSED, Holding


class HeldToolsGate(GatesBefore):
    """The gate of a conversation with MCP servers, before the one it has besides; see `Gates`."""

    def __init__(
        self,
        holding: Holding,
        approver: Approver | None,
        inner: Gates | None = None,
        *,
        tell: Callable[[], object] = lambda: None,
    ) -> None:
        """Judge for an approver; with None nobody is asked, and every such call is refused.

        `tell` is called in the turn's thread whenever there may be something new to be told of servers.
        """
        super().__init__(inner)
        self._holding = holding
        self._tell = tell
        self._approver = approver

    def before(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Gate:
        """Let the others speak; then have a person asked where the tool is not what was agreed to."""
        gate = super().before(call, tool, cancel)
        news = None if gate.word == "deny" or tool.category != "mcp" else self._holding.news(call.name)
        if news is None:
            return gate
        refusal = REFUSED.format(words=news.words)
        if self._approver is None:
            return Gate(gate.call, "deny", refusal)
        self._holding.agree(call.id, news, is_kept=not _agrees_unseen(self._approver))
        reasons = (news.words, *([gate.reason] if gate.word == "ask" and gate.reason else ()))
        return Gate(gate.call, "ask", f"{'; '.join(reasons)}\n{news.diff}", refusal=refusal)

    def permission(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Allow | Deny | None:
        """Leave the answer to whoever is asked; a hook can say no, and not agree to a tool."""
        said = super().permission(call, tool, cancel)
        if isinstance(said, Deny) or tool.category != "mcp" or self._holding.news(call.name) is None:
            return said
        return Allow(call) if _agrees_unseen(self._approver) else None

    def tell(self) -> None:
        """Tell of servers, and let the others tell what they have to tell."""
        self._tell()
        super().tell()


def _agrees_unseen(approver: Approver | None) -> bool:
    """Say whether an approver agrees without anybody looking, so that its yes is for this session alone."""
    return getattr(approver, "agrees_unseen", False) is True
