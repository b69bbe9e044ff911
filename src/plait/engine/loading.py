"""How a conversation comes by tools that are not shown at once: by which of the ways, with which search.

Floor: 4. Owns: the names of the ways, the tools and terms that one comes to; never: a search, a wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from plait.core.errors import UnknownToolLoading
from plait.core.messages import Message
from plait.core.values import dataclass
from plait.kernel.deferral import ActivationLimits, Deferral, Loading, active, announcement, declared_in
from plait.kernel.effects import Boundary, Plan
from plait.kernel.tools import Tool, ToolTable
from plait.tools.deferred.search import Searching, SearchLimits, Selector, with_search

EAGER: Final = "eager"
_WAYS: Final[Mapping[str, Loading | None]] = MappingProxyType(
    {
        EAGER: None,
        "none": None,
        "kimi": "kimi",
        "system-message-tools": "kimi",
        "glm": "glm",
        "defer-loading-tool-reference": "glm",
        "grow": "grow",
    }
)
RESULTS_MAX: Final = 3
"""Tools that one search of a session loads."""
SEARCH: Final = SearchLimits(max_query_bytes=4_096, max_results=RESULTS_MAX, max_result_bytes=8_192)
ACTIVATION: Final = ActivationLimits(
    max_selected_tools=RESULTS_MAX, max_active_tools=512, max_schema_bytes=2 * 1024 * 1024
)


@dataclass(frozen=True, slots=True)
class Arranged:
    """Tools as a table takes them, and the terms on which the deferred ones are loaded."""

    tools: tuple[Tool, ...]
    deferral: Deferral | None = None


def loading_of(name: str | None) -> Loading | None:
    """Return a way by any of its names; None for the way that shows all tools at once.

    Raises:
        UnknownToolLoading: there is no way of that name.
    """
    if name is None:
        return None
    if name not in _WAYS:
        raise UnknownToolLoading(f"there is no way {name!r} to load tools", hint=f"it is one of: {', '.join(_WAYS)}")
    return _WAYS[name]


def arranged(tools: Iterable[Tool], loading: Loading | None, selector: Selector | None = None) -> Arranged:
    """Return tools with the search that finds the deferred ones; without any, or eagerly, all are shown."""
    given = tuple(tools)
    if loading is None or not any(tool.deferred for tool in given):
        return Arranged(tuple(replace(tool, deferred=False) if tool.deferred else tool for tool in given))
    deferral = Deferral(loading, ACTIVATION)
    return Arranged(tuple(with_search(given, Searching(deferral, SEARCH, selector))), deferral)


def announced(plan: Plan, at: Boundary, history: Sequence[Message], tools: ToolTable) -> Plan:
    """Return a plan that also declares, where that is the way, what searches have loaded and nobody declared yet."""
    deferral = tools.deferral
    if deferral is None or deferral.loading != "kimi" or at.phase != "step" or plan.stop or plan.final_reply:
        return plan
    if (there := plan.replace) is not None:
        history = [*history[: there.start], *there.messages, *history[there.end :]]
    known = declared_in(history)
    new = [tool for tool in active(deferral, tools.schemas, history) if tool.name not in known]
    if not new:
        return plan
    from plait.wire.chat.encode import tool_dict
    from plait.wire.profile import WireProfile

    entries = [tool_dict(replace(tool, deferred=False), WireProfile()) for tool in new]
    return replace(plan, inject=(announcement(entries), *plan.inject))
