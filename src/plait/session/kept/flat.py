"""Records of a journal or a capture in the shape that older programs know: flat, with chat messages in them.

Floor: 5. Owns: that shape; never: reading or writing it anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from plait.core.codec import decode_fact, encode_fact
from plait.core.facts import SIDE_CALL, MessageAdded, Observation, Reset, ToolEnd, ToolStart
from plait.core.messages import Message, ToolCall
from plait.core.side_calls import side_call_of
from plait.core.strict_json import JsonInvalid
from plait.wire.chat.encode import message_dicts
from plait.wire.profile import WireProfile

Json = dict[str, Any]

_SHAPE: Final = WireProfile(reasoning_echo="always", custom_tools=True, tool_messages=True)
_OUTCOMES: Final = {"denied": "hook_deny", "error": "error", "unknown": "error", "cancelled": "error"}
_NESTED: Final = {
    "model_request": "request",
    "model_request_attempt": "attempt",
    "model_response_frame": "frame",
    "model_response": "response",
}


class CallRecord(dict[str, object]):
    """A record of a call's start or end, which knows the call."""

    call: ToolCall | None = None


def flat(record: Mapping[str, object]) -> Json:
    """Return a record as agentknit's journals and sinks had it: `{type, …}` without `data`.

    What a sink or `SessionJournal` was given knows the call that a `tool_start` or a `tool_end` is about; in a record
    that was read from a file, name and arguments of a call stand in the message before, and not here.

    Raises:
        ValueError: it is no record.
    """
    kind, data = record.get("type"), record.get("data", {})
    if not isinstance(kind, str) or not isinstance(data, Mapping):
        raise ValueError(f"{dict(record)!r} is no record: it lacks a type")
    side = side_call_of(Observation(kind, data)) if kind == SIDE_CALL else None
    if side is not None:
        return _flat_side_call(*side)
    return {"type": kind} | _flat(kind, data, record)


def chat_items(messages: Sequence[Message]) -> list[Json]:
    """Return messages as chat-completions messages."""
    return [item for message in messages for item in message_dicts(message, _SHAPE)]


def _flat_side_call(call: ToolCall, fact: ToolStart | ToolEnd) -> Json:
    """Return a call that a program made as those of the model are told."""
    kind, data = encode_fact(fact)
    record = CallRecord()
    record.call = call
    return {"type": kind} | _flat(kind, data, record)


def _flat(kind: str, data: Mapping[str, object], record: Mapping[str, object]) -> Json:
    if kind in _NESTED:
        inner = dict(data)
        purpose = inner.pop("purpose", "step")
        return {_NESTED[kind]: inner} | ({} if purpose == "step" else {"purpose": purpose})
    if kind not in ("message", "tool_start", "tool_end", "reset_messages"):
        return dict(data)
    fact = decode_fact(kind, data)
    if isinstance(fact, MessageAdded):
        items = chat_items([fact.message])
        return {"msg": items[0] if len(items) == 1 else items}
    if isinstance(fact, Reset):
        told = {"reason": fact.why, "messages": chat_items(fact.messages)}
        return {**told, "start": fact.start, "end": fact.end}
    call = record.call if isinstance(record, CallRecord) else None
    name = {} if call is None else {"name": call.name}
    if isinstance(fact, ToolStart):
        return {"call_id": fact.call_id, **name, **_arguments(call, fact.arguments)}
    assert isinstance(fact, ToolEnd)
    outcome = _OUTCOMES.get(fact.result.status)
    told = {"call_id": fact.result.call_id, **name, "result": fact.result.content}
    return told if outcome is None else {**told, "outcome": outcome}


def _arguments(call: ToolCall | None, raw: str | None) -> Json:
    if call is None and raw is None:
        return {}
    found = ToolCall("", "", raw) if raw is not None else call
    assert found is not None
    try:
        return {"args": found.arguments}
    except JsonInvalid:
        return {"args": found.raw}
