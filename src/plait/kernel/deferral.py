"""Tools that are not shown at once: which of them a conversation has loaded, as its messages alone say.

Floor: 1. Owns: the receipt of a search, what receipts come to within the ceilings; never: a search, a wire.

A search leaves a receipt in the data of its result: the names that it chose, for which surface and run. What is loaded
is a function of the tools and of the messages, so that a resume, a replay and another process come to the same.
Where a compaction takes results away, their receipts stay, in a message that says nothing to any model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from plait.core.errors import REFUSAL_STATUS
from plait.core.exchange import RECEIPT_VERSION, TOOLS_LOADED, TOOLS_MARK, ToolSchema, loaded_receipt
from plait.core.messages import Control, Message, Opaque, ToolCall, ToolResult
from plait.core.strict_json import dump
from plait.core.values import dataclass

Loading = Literal["kimi", "glm", "grow"]
"""How an endpoint is told of tools that were loaded: `kimi` in a system message that declares them, `glm` by a
reference to what was declared with a mark from the beginning, `grow` by a longer list of tools in later requests."""

SEARCH_TOOL: Final = "search_tools"
CARRIED: Final = "plait"
"""The wire of parts that carry receipts on: no endpoint's, so that they are sent to none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationLimits:
    """How much may be loaded; they hold for every request."""

    max_selected_tools: int
    """Tools that one search loads."""
    max_active_tools: int
    """Tools that a request shows, those that are always shown included."""
    max_schema_bytes: int
    """UTF-8 bytes of the names, descriptions and schemas of all tools that a request shows."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """The terms on which a conversation loads tools."""

    loading: Loading
    limits: ActivationLimits
    surface: str = ""
    run: str = ""
    """Receipts count on their own surface and in their own run only."""
    keeps: bool = True
    """What was loaded stays so; else the last message with a receipt says alone what is."""


def receipt(names: Sequence[str], deferral: Deferral) -> dict[str, object]:
    """Return what a search puts into the data of its result."""
    return loaded_receipt(names, deferral.surface, deferral.run)


def schema_bytes(tool: ToolSchema) -> int:
    """Return how many bytes a tool's name, description and schema take as compact JSON."""
    grammar = tool.parameters if tool.custom_format is None else tool.custom_format
    return len(dump([tool.name, tool.description, grammar]).encode())


def selected(deferral: Deferral, messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the names that searches have chosen and that count now, in the order in which they came."""
    names: dict[str, None] = {}
    for message in messages:
        found = list(_receipts(message, deferral))
        if found and not deferral.keeps:
            names.clear()
        for chosen in found:
            names.update(dict.fromkeys(chosen))
    return tuple(names)


def active(deferral: Deferral, tools: Sequence[ToolSchema], messages: Iterable[Message]) -> tuple[ToolSchema, ...]:
    """Return the deferred tools that are loaded, in the order in which they came; whatever is too much stays out."""
    deferred = {tool.name: tool for tool in tools if tool.deferred}
    shown = [tool for tool in tools if not tool.deferred]
    chosen = [deferred[name] for name in selected(deferral, messages) if name in deferred]
    return tuple(fitting(chosen, shown, deferral.limits)) if chosen else ()


def fitting(
    chosen: Iterable[ToolSchema], shown: Sequence[ToolSchema], limits: ActivationLimits
) -> Iterator[ToolSchema]:
    """Yield the tools that fit beside those that are shown already, in their order."""
    count, size = len(shown), sum(map(schema_bytes, shown))
    for tool in chosen:
        its = schema_bytes(tool)
        if count < limits.max_active_tools and size + its <= limits.max_schema_bytes:
            count, size = count + 1, size + its
            yield tool


def not_loaded(call: ToolCall, deferral: Deferral, history: Sequence[Message]) -> ToolResult:
    """Return the result of a call to a tool that is known and not loaded."""
    if call.name in selected(deferral, history):
        message = f"the tool {call.name!r} cannot be loaded: no more tools may be"
        hint = "go on with the tools that are loaded"
    else:
        message = f"the tool {call.name!r} is not loaded"
        hint = f"find it with {SEARCH_TOOL} and call it in your next answer"
    code: Final = "SEARCH_REQUIRED"
    data = {"ok": False, "error": message, "code": code, "status": REFUSAL_STATUS[code], "hint": hint, "details": {}}
    text = f"ERROR: {message[:1].upper()}{message[1:]}. {hint[:1].upper()}{hint[1:]}."
    return ToolResult(call.id, text, is_error=True, data=data)


def loads_tools(message: Message) -> bool:
    """Say whether a message has anything to do with which tools are loaded."""
    return any(_touches(part) for part in message.parts)


def is_mute(message: Message) -> bool:
    """Say whether a message loads tools and is nobody's word: no task, no answer."""
    return message.role == "user" and loads_tools(message) and not message.content and not message.images


def declared_in(messages: Iterable[Message]) -> frozenset[str]:
    """Return the names of tools that system messages have declared."""
    return frozenset(name for message in messages for part in message.parts for name in _declared(part))


def announcement(entries: Sequence[Mapping[str, object]]) -> Message:
    """Return the message that declares tools in the middle of a conversation, as chat completions have it."""
    told = {"role": "system", "tools": [dict(entry) for entry in entries]}
    return Message("user", (Opaque("chat", told), Control(TOOLS_MARK)))


def carried(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return what has to stay of messages that go, so that no loaded tool is lost."""
    return tuple(kept for message in messages if (kept := _carried(message)) is not None)


def carried_names(deferral: Deferral, messages: Iterable[Message]) -> frozenset[str]:
    """Return the names whose search is gone from the conversation, so that no result refers to them any more."""
    return frozenset(selected(deferral, (message for message in messages if message.role != "tool")))


def _carried(message: Message) -> Message | None:
    if message.role != "tool":
        return message if is_mute(message) else None
    found = [dict(told) for result in message.tool_results if (told := _told(result)) is not None]
    return Message("user", (Opaque(CARRIED, {TOOLS_LOADED: found}), Control(TOOLS_MARK))) if found else None


def _receipts(message: Message, deferral: Deferral) -> Iterator[tuple[str, ...]]:
    """Yield the names of each receipt of a message that counts."""
    for part in message.parts:
        told: object = _told(part) if isinstance(part, ToolResult) else None
        if isinstance(part, Opaque) and part.wire == CARRIED:
            told = part.payload.get(TOOLS_LOADED)
        for each in told if isinstance(told, list) else [told]:
            names = _names(each, deferral)
            if names is not None:
                yield names
        if names := tuple(_declared(part)):
            yield names


def _names(told: object, deferral: Deferral) -> tuple[str, ...] | None:
    if not isinstance(told, Mapping) or told.get("version") != RECEIPT_VERSION:
        return None
    if (told.get("surface"), told.get("run")) != (deferral.surface, deferral.run):
        return None
    names = told.get("names")
    return tuple(map(str, names)) if isinstance(names, (list, tuple)) else None


def _told(result: ToolResult) -> Mapping[str, object] | None:
    told = (result.data or {}).get(TOOLS_LOADED) if result.status == "ok" else None
    return told if isinstance(told, Mapping) else None


def _touches(part: object) -> bool:
    if isinstance(part, ToolResult):
        return _told(part) is not None
    is_carried = isinstance(part, Opaque) and part.wire == CARRIED and TOOLS_LOADED in part.payload
    return is_carried or any(_declared(part))


def _declared(part: object) -> Iterator[str]:
    """Yield the names of tools that a system message declares."""
    if not isinstance(part, Opaque) or part.wire != "chat" or part.payload.get("role") != "system":
        return
    tools = part.payload.get("tools")
    for entry in tools if isinstance(tools, (list, tuple)) else ():
        body = entry.get("function", entry) if isinstance(entry, Mapping) else None
        if isinstance(body, Mapping) and isinstance(body.get("name"), str):
            yield body["name"]
