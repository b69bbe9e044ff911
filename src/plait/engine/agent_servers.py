"""The MCP servers of an agent: its own tools and theirs, as one list that changes between runs only.

Floor: 4. Owns: that list; never: a server (`tools.mcp`).
"""

from __future__ import annotations

import os

from plait.core.cancel import Cancel
from plait.core.events import Notice
from plait.engine.calls import CHARS_PER_TOKEN
from plait.engine.gates import Gates
from plait.engine.held_tools import HeldToolsGate
from plait.engine.hosts.stage import Policy
from plait.engine.observers import Observers
from plait.engine.validation import compile_schema
from plait.kernel.tools import Tool
from plait.tools.mcp.answers import Bounds
from plait.tools.mcp.config import servers_of
from plait.tools.mcp.servers import Servers, ServersOptions
from plait.tools.portal import Portal


class AgentServers:
    """Begins servers with an agent's first run and gives it their tools."""

    def __init__(self, given: object, own: tuple[Tool, ...], portal: Portal, result_tokens_max: int) -> None:
        """Begin none yet; raise `ConfigError` for a declaration that cannot be used."""
        options = ServersOptions(bounds=Bounds(result_tokens_max * CHARS_PER_TOKEN), check=compile_schema)
        self.servers = Servers(servers_of(given, os.environ), options, portal=portal)
        self._own = own
        self._found: tuple[Tool, ...] = ()
        self._all = own

    def tools(self, cancel: Cancel | None = None) -> tuple[Tool, ...]:
        """Wait for the servers, each its time, and return all tools; the same object when nothing has changed."""
        self.servers.settle(cancel)
        return self._present()

    async def atools(self) -> tuple[Tool, ...]:
        """Do what `tools` does, on any loop."""
        await self.servers.asettle()
        return self._present()

    def gate(self, policy: Policy) -> Gates:
        """Return the gate for tools that are not what was agreed to; a plan, which is judged whole, agrees to none."""
        return HeldToolsGate(self.servers.holding, None if policy.plan_mode else policy.approver, policy.gates)

    def tell(self, observers: Observers) -> None:
        """Tell what there is to tell of the servers."""
        for event in self.servers.take_notices():
            observers.publish(Notice(event.type, dict(event)))

    def _present(self) -> tuple[Tool, ...]:
        found = self.servers.tools(tuple(tool.name for tool in self._own))
        if found is not self._found:
            self._found, self._all = found, (*self._own, *found)
        return self._all
