"""Which tools the next request of a line declares, where some are shown only once a search has loaded them.

Floor: 2. Owns: the list of a request and when it changes; never: what is loaded (`kernel.deferral`), a wire's shapes.

`kimi` declares what was never deferred, and the rest in messages: its list never changes. `glm` declares all, what is
deferred with a mark; a tool loses the mark when a compaction took away the result that referred to it. With `grow` the
list is what is loaded, the latest at its end. Where the list changes the prefix does, too; nothing else changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plait.core.errors import ConfigError
from plait.core.exchange import ToolSchema, View
from plait.core.messages import Message
from plait.kernel.deferral import active, carried_names, loads_tools
from plait.kernel.ports import Setup
from plait.wire.profile import WireProfile


class Shown:
    """The tools that a line's requests declare; `tools` is the same object until it says something else."""

    def __init__(self, setup: Setup) -> None:
        self._all = setup.tools
        self._deferral = setup.deferral
        self._seen: tuple[int, int] | None = None
        """Epoch and length of the view that was looked at last."""
        self.tools = self._of(())

    def take(self, view: View) -> bool:
        """Look at what a request shows; say whether it declares other tools than the one before it."""
        if self._deferral is None or self._deferral.loading == "kimi":
            return False
        is_same = self._seen is not None and self._seen[0] == view.epoch and self._seen[1] <= view.length
        start = self._seen[1] if is_same and self._seen is not None else 0
        self._seen = (view.epoch, view.length)
        if is_same and not any(loads_tools(view.history[index]) for index in range(start, view.length)):
            return False
        before, self.tools = self.tools, self._of(view.history[: view.length])
        return self.tools != before

    def _of(self, messages: Sequence[Message]) -> tuple[ToolSchema, ...]:
        deferral = self._deferral
        if deferral is None:
            return self._all
        if deferral.loading == "glm":
            bare = carried_names(deferral, messages)
            return tuple(replace(tool, deferred=False) if tool.name in bare else tool for tool in self._all)
        plain = tuple(tool for tool in self._all if not tool.deferred)
        if deferral.loading == "kimi":
            return plain
        loaded = active(deferral, self._all, messages)
        return (*plain, *(replace(tool, deferred=False) for tool in loaded))


def wire_for(wire: WireProfile, setup: Setup) -> WireProfile:
    """Return the profile of a line that loads tools so.

    Raises:
        ConfigError: the wire has no such way.
    """
    loading = None if setup.deferral is None else setup.deferral.loading
    takes = {"kimi": ("chat",), "glm": ("chat", "anthropic")}.get(loading or "", (wire.wire,))
    if wire.wire not in takes or (loading is not None and wire.calls == "inline"):
        raise ConfigError(
            f"the way {loading!r} to load tools does not work here: requests go out as {wire.wire} messages"
            + (", and calls are text" if wire.calls == "inline" else ""),
            hint="use tool_loading='grow', or 'eager' to show all tools at once",
        )
    return replace(wire, tool_messages=loading == "kimi", tool_references=loading == "glm")
