"""The common shapes of the common facts, read at once.

Floor: 0. Owns: speed; never: a shape that the general reader (`core.codec`) would refuse, or read otherwise.

A long conversation is nearly all of these. Each function looks at the exact shape it knows, key for key and type for
type, and returns None for everything else, which is then read field by field, with an error that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from plait.core.facts import Fact, MessageAdded, RoundClosed, ToolEnd, ToolStart, TurnEnd, TurnStart
from plait.core.messages import Message, Part, Role, StopReason, Text, ToolCall, ToolResult
from plait.core.usage import Usage

ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant", "tool": "tool", "summary": "summary"}
STOPS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end_turn",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "pause": "pause",
}


def usual_stop(message: Message) -> StopReason | None:
    """Return the stop that goes without saying: calls, the end of the turn, or none for who is no model."""
    if message.role != "assistant":
        return None
    return "tool_calls" if message.tool_calls else "end_turn"


def _message(data: dict[str, Any]) -> MessageAdded | None:
    stated, told, origin, used = data.get("role"), data.get("parts"), data.get("origin"), data.get("usage")
    sent = data.get("sent")
    known = (type(stated) is str) + (type(told) is list) + (type(origin) is str) + (type(used) is dict)
    known += type(sent) is str
    role = ROLES.get(stated) if type(stated) is str else None
    if role is None or type(told) is not list or known != len(data):
        return None
    usage = None if used is None else _usage(used)
    if usage is None is not used:
        return None
    parts: list[Part] = []
    has_calls = False
    for each in told:
        if type(each) is not dict:
            return None
        if len(each) == 1 and type(text := each.get("text")) is str:
            parts.append(Text(text))
        elif len(each) == 3 and (call := _call(each)) is not None:
            parts.append(call)
            has_calls = True
        else:
            return None
    stop: StopReason | None = None
    if role == "assistant":
        stop = "tool_calls" if has_calls else "end_turn"
    return MessageAdded(Message(role, tuple(parts), origin or ""), usage, stop, sent or "")


def _call(data: dict[str, Any]) -> ToolCall | None:
    call_id, name, raw = data.get("call"), data.get("name"), data.get("raw")
    if type(call_id) is not str or type(name) is not str or type(raw) is not str:
        return None
    return ToolCall(call_id, name, raw)


def _usage(data: dict[str, Any]) -> Usage | None:
    get = data.get
    read, said, cached, kept, thought = (
        get("input"), get("output"), get("cache_read"), get("cache_write"), get("reasoning")
    )  # fmt: skip
    counts = (type(read) is int) + (type(said) is int) + (type(cached) is int)
    counts += (type(kept) is int) + (type(thought) is int)
    return Usage(read, said, cached, kept, thought) if counts == len(data) else None


def _tool_start(data: dict[str, Any]) -> ToolStart | None:
    call_id = data.get("call")
    return ToolStart(call_id) if len(data) == 1 and type(call_id) is str else None


def _tool_end(data: dict[str, Any]) -> ToolEnd | None:
    call_id, content = data.get("call"), data.get("content")
    if len(data) == 2 and type(call_id) is str and type(content) is str:
        return ToolEnd(ToolResult(call_id, content))
    return None


def _round(data: dict[str, Any]) -> RoundClosed | None:
    of = data.get("of")
    return RoundClosed(of) if len(data) == 1 and type(of) is int else None


def _turn_start(data: dict[str, Any]) -> TurnStart | None:
    return None if data else TurnStart()


def _turn_end(data: dict[str, Any]) -> TurnEnd | None:
    reason = data.get("reason")
    return TurnEnd(reason) if len(data) == 1 and type(reason) is str else None


QUICK: Final[Mapping[str, Callable[[dict[str, Any]], Fact | None]]] = {
    "message": _message,
    "tool_start": _tool_start,
    "tool_end": _tool_end,
    "round": _round,
    "turn_start": _turn_start,
    "turn_end": _turn_end,
}
"""JSON name of a fact → its quick reader."""
