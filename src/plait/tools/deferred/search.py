"""The tool with which a model finds tools that are not shown, and loads them.

Floor: 3. Owns: its description, its words, its receipt; never: the order of what it finds, what a receipt comes to.

It runs nothing and changes nothing: what it loads is told by the receipt in its result alone.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from plait.core.errors import Refusal
from plait.core.exchange import ToolSchema
from plait.core.messages import ToolResult
from plait.core.values import dataclass
from plait.kernel.deferral import SEARCH_TOOL, Deferral, receipt, schema_bytes
from plait.kernel.tools import Tool, ToolContext, as_result
from plait.tools.answer import refused
from plait.tools.deferred.ranking import chosen, rank

ALIAS: Final = "tool_search"
_DESCRIPTION: Final = (
    "Find tools that are not shown yet, by what you want to do or by their names, and load them. What is found can be "
    "called from your next answer on; before that, calls to it fail."
)
_PARAMETERS: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do, or its name."}},
    "required": ["query"],
}
_ABOUT_CHARS_MAX: Final = 100

Selector = Callable[[str, list[dict[str, Any]]], "Iterable[str] | Awaitable[Iterable[str]]"]
"""Gets the query and the tools that are not shown, as entries of a chat-completions list; returns names, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """How much one search may ask and say."""

    max_query_bytes: int
    max_results: int
    max_result_bytes: int


@dataclass(frozen=True, slots=True)
class SearchEvidence:
    """What is told of a search or of a request's tools, for measuring: numbers and places, nobody's words."""

    kind: Literal["search", "step"]
    surface: str
    run: str
    found: int
    """Names that the search gave; 0 for a step."""
    tools: int
    """Tools that were loaded by the search, or that the request shows."""
    schema_bytes: int
    """Of these tools."""


Observe = Callable[[SearchEvidence], None]


@dataclass(frozen=True, slots=True)
class Searching:
    """How a conversation's tools are searched."""

    deferral: Deferral
    limits: SearchLimits
    selector: Selector | None = None
    observe: Observe | None = None


def with_search(tools: Iterable[Tool], how: Searching) -> list[Tool]:
    """Return tools with the one that finds the deferred ones of its conversation, which stands first."""
    search = _Search(how)
    fn: Callable[..., Any] = search.run_async if inspect.iscoroutinefunction(how.selector) else search.run
    own = Tool(SEARCH_TOOL, _DESCRIPTION, fn, _PARAMETERS, parallel_safe=True, idempotent=True)
    return [own, replace(own, name=ALIAS, alias_of=SEARCH_TOOL), *tools]


class _Search:
    """Searches the tools that stand around a call."""

    def __init__(self, how: Searching) -> None:
        self._how = how

    def run(self, query: str, call: ToolContext) -> ToolResult | Awaitable[ToolResult]:
        """Search with a plain function, or with the built-in order."""
        try:
            self._check(query)
        except Refusal as refusal:
            return refused(refusal)
        if self._how.selector is None:
            return self._answer(rank(query, _deferred(call)), call)
        names = self._how.selector(query, [_entry(tool) for tool in _deferred(call)])
        return self._later(names, call) if inspect.isawaitable(names) else self._answer(names, call)

    async def run_async(self, query: str, call: ToolContext) -> ToolResult:
        """Search with a coroutine function."""
        found = self.run(query, call)
        return await found if inspect.isawaitable(found) else found

    async def _later(self, names: Awaitable[Iterable[str]], call: ToolContext) -> ToolResult:
        return self._answer(await names, call)

    def _check(self, query: str) -> None:
        size, most = len(query.encode("utf-8", "surrogatepass")), self._how.limits.max_query_bytes
        if not query.strip():
            raise Refusal("INVALID_INPUT", "the query is empty", hint="say what the tool should do")
        if size > most:
            raise Refusal("TOO_LARGE", f"the query has {size} bytes", hint=f"use {most} at most")

    def _answer(self, given: Iterable[str], call: ToolContext) -> ToolResult:
        deferral, limits = self._how.deferral, self._how.limits
        names = [given] if isinstance(given, str) else [str(name) for name in given]
        known = {tool.name for tool in _deferred(call)}
        found = [name for name in dict.fromkeys(names) if name in known]
        may = chosen(found, call.tools, deferral, call.history, limits.max_results)
        text, loaded = _worded(may, limits.max_result_bytes)
        if self._how.observe is not None:
            size = sum(map(schema_bytes, loaded))
            told = SearchEvidence("search", deferral.surface, deferral.run, len(found), len(loaded), size)
            self._how.observe(told)
        if not loaded:
            return as_result("", _nothing(bool(found)))
        left = len(found) - len(loaded)
        data = {**receipt([tool.name for tool in loaded], deferral), "left_out": left}
        return as_result("", (text, data))


def _deferred(call: ToolContext) -> list[ToolSchema]:
    return [tool for tool in call.tools if tool.deferred]


def _entry(tool: ToolSchema) -> dict[str, Any]:
    """Return a tool as an entry of a chat-completions list; a copy, with which a selector may do as it likes."""
    if tool.custom_format is not None:
        grammar = copy.deepcopy(dict(tool.custom_format))
        return {"type": "custom", "name": tool.name, "description": tool.description, "format": grammar}
    parameters = copy.deepcopy(dict(tool.parameters))
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _worded(tools: Sequence[ToolSchema], bytes_max: int) -> tuple[str, Sequence[ToolSchema]]:
    """Return what is said of tools, and those of which it can be said: with a word about each, else by name alone."""
    for count in range(len(tools), 0, -1):
        for about in (_about, _name):
            text = "\n".join(["Loaded; call them from your next answer on:", *map(about, tools[:count])])
            if len(text.encode()) <= bytes_max:
                return text, tools[:count]
    return "", ()


def _name(tool: ToolSchema) -> str:
    return f"- {tool.name}"


def _about(tool: ToolSchema) -> str:
    words = " ".join(tool.description.split())
    short = words if len(words) <= _ABOUT_CHARS_MAX else f"{words[: _ABOUT_CHARS_MAX - 1]}…"
    return f"- {tool.name}: {short}" if short else _name(tool)


def _nothing(is_full: bool) -> str:
    if is_full:
        return "Tools were found, but no more can be loaded in this conversation. Go on with those that are."
    return "No tool fits. Try other words, or go on with the tools that are shown."
