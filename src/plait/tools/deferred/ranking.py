"""Which tools fit a query best: the same query and the same tools always give the same order.

Floor: 3. Owns: the order and the choice within ceilings, as pure functions; never: a model's words beyond the query.

A tool whose whole name is in the query comes first; then whoever has most of the query's words at the beginning of a
word of its name; then whoever has most of them anywhere in name and description; then the order of registration.
Words of one or two letters say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from plait.core.exchange import ToolSchema
from plait.core.messages import Message
from plait.kernel.deferral import SEARCH_TOOL, Deferral, active, fitting

_WORD_CHARS_MIN: Final = 3
_NAME: Final = re.compile(r"[\w.:/-]+")
_WORD: Final = re.compile(r"[^\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def rank(query: str, tools: Sequence[ToolSchema]) -> list[str]:
    """Return the names of the tools that have something of the query, the best first."""
    names = frozenset(_NAME.findall(query.lower()))
    words = [word for word in dict.fromkeys(_WORD.findall(query.lower())) if len(word) >= _WORD_CHARS_MIN]
    scores = [(_score(tool, names, words), tool.name) for tool in tools]
    # Sorting keeps the order of registration among equals.
    return [name for score, name in sorted(scores, key=lambda each: each[0], reverse=True) if any(score)]


def chosen(
    names: Iterable[str], tools: Sequence[ToolSchema], deferral: Deferral, history: Sequence[Message], count_max: int
) -> list[ToolSchema]:
    """Return what a search may load of the tools that it found: known ones, each once, within every ceiling.

    Args:
        tools: all tools of the conversation.
        history: up to the answer that made this search; other searches in it may load their share.
        count_max: how many at most, beside what the ceilings say.
    """
    limits = deferral.limits
    deferred = {tool.name: tool for tool in tools if tool.deferred}
    found = [deferred[name] for name in dict.fromkeys(names) if name in deferred]
    found = found[: min(count_max, limits.max_selected_tools)]
    loaded = active(deferral, tools, history)
    kept = loaded if deferral.keeps else ()
    shown = [tool for tool in tools if not tool.deferred] + list(kept)
    new = [tool for tool in found if tool not in kept]
    share = _share(new, shown, deferral, _searches(history))
    return [tool for tool in found if tool in kept or tool in share]


def _share(
    new: Sequence[ToolSchema], shown: Sequence[ToolSchema], deferral: Deferral, searches: int
) -> Sequence[ToolSchema]:
    """Return what of some tools fits, when so many searches of one answer load as much each."""
    for count in range(len(new), 0, -1):
        first = new[:count]
        if len(list(fitting([*first] * searches, shown, deferral.limits))) == count * searches:
            return first
    return ()


def _searches(history: Sequence[Message]) -> int:
    calls = history[-1].tool_calls if history else ()
    return max(1, sum(call.name == SEARCH_TOOL for call in calls))


def _score(tool: ToolSchema, names: frozenset[str], words: Sequence[str]) -> tuple[bool, int, int]:
    parts = [part.lower() for whole in _WORD.findall(tool.name) for part in _HUMP.split(whole)]
    text = f"{tool.name} {tool.description}".lower()
    return (
        tool.name.lower() in names,
        sum(any(part.startswith(word) for part in parts) for word in words),
        sum(word in text for word in words),
    )
