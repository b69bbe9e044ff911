"""Facts and messages as plain JSON, both ways, strictly.

Floor: 0. Owns: the JSON names of fact types and fields; never: lines, checksums or files.

Fields that hold their default are left out, so a record costs what it says. Decoding accepts exactly what
encoding writes: an unknown type, an unknown field, a missing field or a wrong type is `FactInvalid`, because a
log that is half understood would be half lost. `decode(encode(fact)) == fact` holds for every fact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, TypeVar

from plait.core.codec_quick import QUICK, ROLES, STOPS, usual_stop
from plait.core.facts import (
    Asked,
    Decided,
    Fact,
    MessageAdded,
    Observation,
    Reset,
    RetryScheduled,
    RoundClosed,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
    is_observation,
)
from plait.core.messages import (
    Control,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    ResultStatus,
    Text,
    ToolCall,
    ToolResult,
)
from plait.core.usage import TOKEN_FIELDS, Usage

T = TypeVar("T")

Json = dict[str, object]

STATUSES: Final[Mapping[str, ResultStatus]] = {
    "ok": "ok",
    "error": "error",
    "denied": "denied",
    "cancelled": "cancelled",
    "unknown": "unknown",
}


class FactInvalid(ValueError):
    """A record does not hold a fact of this version; the message names the type and the field."""


def encode_fact(fact: Fact) -> tuple[str, Json]:
    """Return the JSON type name and data of a fact."""
    if isinstance(fact, Observation):
        return fact.type, dict(fact.data)
    name, write = _WRITERS[type(fact)]
    return name, write(fact)


def decode_fact(name: str, data: Mapping[str, object]) -> Fact:
    """Return the fact; raise `FactInvalid` for anything that `encode_fact` would not have written."""
    if type(name) is not str:
        raise FactInvalid(f"{name!r} is no type of a fact")
    quick = QUICK.get(name)
    if quick is not None and type(data) is dict and (fact := quick(data)) is not None:
        return fact
    read = _READERS.get(name)
    if read is None and not is_observation(name):
        raise FactInvalid(f"unknown fact type {name!r}: written by a newer plait, or not a journal of plait's")
    reader = _Reader(name, data)
    if read is None:
        return Observation(name, reader.rest())
    fact = read(reader)
    reader.done()
    return fact


def encode_message(message: Message) -> Json:
    """Return a message as `{role, parts, origin}`, losing nothing."""
    data: Json = {"role": message.role}
    if message.parts:
        data["parts"] = [_encode_part(part) for part in message.parts]
    if message.origin:
        data["origin"] = message.origin
    return data


def decode_message(data: object) -> Message:
    """Return the message; raise `FactInvalid` for anything that `encode_message` would not have written."""
    reader = _Reader("message", data)
    message = _message(reader)
    reader.done()
    return message


class _Reader:
    """Takes fields out of a mapping, once each, with their types checked."""

    def __init__(self, what: str, data: object) -> None:
        if not isinstance(data, Mapping):
            raise FactInvalid(f"{what}: an object is wanted, not {type(data).__name__}")
        self._what = what
        self._data = dict(data)

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def text(self, name: str, default: str | None = None) -> str:
        value = self._take(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def text_or_none(self, name: str) -> str | None:
        value = self._data.pop(name, None)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        value = self._take(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "a whole number")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def mapping(self, name: str) -> Mapping[str, object]:
        value = self._take(name, None)
        if not isinstance(value, Mapping):
            raise self._wrong(name, "an object")
        return value

    def mapping_or_none(self, name: str) -> Mapping[str, object] | None:
        return self.mapping(name) if name in self._data else None

    def each(self, name: str, decode: Callable[[object], T]) -> tuple[T, ...]:
        """Take an array, empty where it was left out, and decode its items; an error names the one it was in."""
        value = self._data.pop(name, ())
        if not isinstance(value, (list, tuple)):
            raise self._wrong(name, "an array")
        items: list[T] = []
        for index, item in enumerate(value):
            try:
                items.append(decode(item))
            except FactInvalid as error:
                raise FactInvalid(f"{self._what}.{name}[{index}]: {error}") from None
        return tuple(items)

    def rest(self) -> Json:
        """Take everything that is left, whatever it is."""
        rest, self._data = self._data, {}
        return rest

    def done(self) -> None:
        if self._data:
            raise FactInvalid(f"{self._what}: unknown field {min(self._data)!r}")

    def fail(self, name: str, wanted: str) -> FactInvalid:
        return self._wrong(name, wanted)

    def _take(self, name: str, default: object) -> object:
        value = self._data.pop(name, default)
        if value is None:
            raise FactInvalid(f"{self._what}: the field {name!r} is missing")
        return value

    def _wrong(self, name: str, wanted: str) -> FactInvalid:
        return FactInvalid(f"{self._what}: the field {name!r} must be {wanted}")


def _lean(data: Json) -> Json:
    """Leave out what decoding supplies: None, "", False, empty lists. For optional fields only."""
    return {key: value for key, value in data.items() if value}


def _encode_part(part: Part) -> Json:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, ToolCall):
        return _encode_call(part)
    if isinstance(part, ToolResult):
        return {"result": part.call_id, **_result_fields(part)}
    if isinstance(part, Reasoning):
        return (
            {"reasoning": part.text} if part.opaque is None else {"reasoning": part.text, "opaque": dict(part.opaque)}
        )
    if isinstance(part, Image):
        return {"image": part.data, "media_type": part.media_type, "kind": part.kind}
    if isinstance(part, Opaque):
        return {"wire": part.wire, "payload": dict(part.payload)}
    return {"control": part.kind}


def _encode_call(call: ToolCall) -> Json:
    data: Json = {"call": call.id, "name": call.name, "raw": call.raw}
    if call.custom:
        data["custom"] = True
    if call.extra is not None:
        data["extra"] = dict(call.extra)
    return data


def _decode_part(data: object) -> Part:
    reader = _Reader("part", data)
    part = _part(reader, data if isinstance(data, Mapping) else {})
    reader.done()
    return part


def _part(reader: _Reader, data: Mapping[str, object]) -> Part:
    if "text" in data:
        return Text(reader.text("text"))
    if "call" in data:
        return _call(reader)
    if "result" in data:
        return _result(reader, reader.text("result"))
    if "reasoning" in data:
        return Reasoning(reader.text("reasoning"), reader.mapping_or_none("opaque"))
    if "image" in data:
        return _image(reader, "image")
    if "wire" in data:
        return Opaque(reader.text("wire"), reader.mapping("payload"))
    if "control" in data:
        return Control(reader.text("control"))
    raise FactInvalid(f"part: none of the known kinds, but {sorted(data)}")


def _call(reader: _Reader) -> ToolCall:
    return ToolCall(
        reader.text("call"),
        reader.text("name"),
        reader.text("raw"),
        reader.flag("custom", False),
        reader.mapping_or_none("extra"),
    )


def _image(reader: _Reader, data_field: str) -> Image:
    data, media_type, kind = reader.text(data_field), reader.text("media_type"), reader.text("kind")
    if kind not in ("base64", "url"):
        raise reader.fail("kind", "base64 or url")
    return Image(data, media_type, "url" if kind == "url" else "base64")


def _result_fields(result: ToolResult) -> Json:
    data: Json = {"content": result.content} if result.content else {}
    if result.status != "ok":
        data["status"] = result.status
    if result.data is not None:
        data["data"] = dict(result.data)
    if result.images:
        data["images"] = [image.to_dict() for image in result.images]
    return data


def _result(reader: _Reader, call_id: str) -> ToolResult:
    status = STATUSES.get(reader.text("status", "ok"))
    if status is None:
        raise reader.fail("status", "one of " + ", ".join(STATUSES))
    content, data = reader.text("content", ""), reader.mapping_or_none("data")
    images = reader.each("images", _result_image)
    return ToolResult(call_id, content, status != "ok", data, status, images)


def _result_image(data: object) -> Image:
    reader = _Reader("image", data)
    image = _image(reader, "data")
    reader.done()
    return image


def _message(reader: _Reader) -> Message:
    role = ROLES.get(reader.text("role"))
    if role is None:
        raise reader.fail("role", "one of " + ", ".join(ROLES))
    return Message(role, reader.each("parts", _decode_part), reader.text("origin", ""))


def encode_usage(usage: Usage) -> Json:
    """Return a usage with unreported fields left out; money is text."""
    data: Json = {name: value for name in TOKEN_FIELDS if (value := getattr(usage, name)) is not None}
    if usage.cost is not None:
        data["cost"] = str(usage.cost)
    if usage.currency != "USD":
        data["currency"] = usage.currency
    if usage.computed:
        data["computed"] = True
    if usage.estimated:
        data["estimated"] = sorted(usage.estimated)
    if usage.priced:
        data["priced"] = True
    return data


def decode_usage(data: Mapping[str, object]) -> Usage:
    """Return the usage; raise `FactInvalid` for anything that `encode_usage` would not have written."""
    reader = _Reader("usage", data)
    counts = {name: reader.number(name) if name in data else None for name in TOKEN_FIELDS}
    cost = _decimal(reader) if "cost" in data else None
    currency, computed = reader.text("currency", "USD"), reader.flag("computed", False)
    estimated, priced = frozenset(reader.each("estimated", _name)), reader.flag("priced", False)
    reader.done()
    return Usage(**counts, cost=cost, currency=currency, computed=computed, estimated=estimated, priced=priced)


def _name(data: object) -> str:
    if not isinstance(data, str):
        raise FactInvalid("text is wanted")
    return data


def _decimal(reader: _Reader) -> Decimal:
    text = reader.text("cost")
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or str(value) != text:
        raise reader.fail("cost", "a decimal number as text")
    return value


def _maybe_usage(reader: _Reader) -> Usage | None:
    data = reader.mapping_or_none("usage")
    return None if data is None else decode_usage(data)


def _write_message(fact: MessageAdded) -> Json:
    data = encode_message(fact.message)
    if fact.usage is not None:
        data["usage"] = encode_usage(fact.usage)
    if fact.stop != usual_stop(fact.message):
        data["stop"] = fact.stop
    if fact.sent:
        data["sent"] = fact.sent
    return data


def _read_message(reader: _Reader) -> MessageAdded:
    usage, is_usual, stop_name = _maybe_usage(reader), "stop" not in reader, reader.text_or_none("stop")
    stop = None if stop_name is None else STOPS.get(stop_name)
    if stop_name is not None and stop is None:
        raise reader.fail("stop", "one of " + ", ".join(STOPS))
    message, sent = _message(reader), reader.text("sent", "")
    return MessageAdded(message, usage, usual_stop(message) if is_usual else stop, sent)


def _write_reset(fact: Reset) -> Json:
    data: Json = {"start": fact.start, "end": fact.end, "why": fact.why}
    data["messages"] = [encode_message(message) for message in fact.messages]
    if fact.usage is not None:
        data["usage"] = encode_usage(fact.usage)
    if fact.sizes is not None:
        data["tokens_before"], data["tokens_after"] = fact.sizes
    return data


def _read_reset(reader: _Reader) -> Reset:
    start, end, why = reader.number("start"), reader.number("end"), reader.text("why")
    before, after = reader.number("tokens_before", -1), reader.number("tokens_after", -1)
    messages, usage = reader.each("messages", decode_message), _maybe_usage(reader)
    return Reset(start, end, messages, why, usage, None if before < 0 or after < 0 else (before, after))


def _write_retry(fact: RetryScheduled) -> Json:
    data: Json = {"attempt": fact.attempt, "delay_ms": fact.delay_ms, "kind": fact.kind}
    data |= _lean({"message": fact.message, "purpose": fact.purpose})
    if fact.usage is not None:
        data["usage"] = encode_usage(fact.usage)
    return data


def _read_retry(reader: _Reader) -> RetryScheduled:
    return RetryScheduled(
        reader.number("attempt"),
        reader.number("delay_ms"),
        reader.text("kind"),
        reader.text("message", ""),
        _maybe_usage(reader),
        reader.text("purpose", ""),
    )


def _write_turn_end(fact: TurnEnd) -> Json:
    data: Json = {"reason": fact.reason, **_lean({"detail": fact.detail})}
    return data if fact.usage is None else data | {"usage": encode_usage(fact.usage)}


def _write_tool_start(fact: ToolStart) -> Json:
    intent = None if fact.intent is None else dict(fact.intent)
    fields = {"call": fact.call_id, "arguments": fact.arguments, "intent": intent}
    return {key: value for key, value in fields.items() if value is not None}


def _write_decided(fact: Decided) -> Json:
    data: Json = {"call": fact.call_id, "allow": fact.allow, **_lean({"reason": fact.reason})}
    return data if fact.arguments is None else data | {"arguments": fact.arguments}


# One row a fact type: its JSON name, how it is written, how it is read.
_TABLE: Final[Sequence[tuple[type, str, Callable[..., Json], Callable[[_Reader], Fact]]]] = (
    (
        TurnStart,
        "turn_start",
        lambda fact: _lean({"resumed": fact.resumed, "sender": fact.sender}),
        lambda read: TurnStart(read.flag("resumed", False), read.text("sender", "")),
    ),
    (MessageAdded, "message", _write_message, _read_message),
    (
        Asked,
        "asked",
        lambda fact: {"call": fact.call_id, "request": fact.request, **_lean({"question": fact.question})},
        lambda read: Asked(read.text("call"), read.text("request"), read.text("question", "")),
    ),
    (
        Decided,
        "decided",
        _write_decided,
        lambda read: Decided(
            read.text("call"), read.flag("allow"), read.text("reason", ""), read.text_or_none("arguments")
        ),
    ),
    (
        ToolStart,
        "tool_start",
        _write_tool_start,
        lambda read: ToolStart(read.text("call"), read.text_or_none("arguments"), read.mapping_or_none("intent")),
    ),
    (
        ToolEnd,
        "tool_end",
        lambda fact: {"call": fact.result.call_id, **_result_fields(fact.result)},
        lambda read: ToolEnd(_result(read, read.text("call"))),
    ),
    (RoundClosed, "round", lambda fact: {"of": fact.of}, lambda read: RoundClosed(read.number("of"))),
    (Reset, "reset_messages", _write_reset, _read_reset),
    (RetryScheduled, "retry_scheduled", _write_retry, _read_retry),
    (
        TurnEnd,
        "turn_end",
        _write_turn_end,
        lambda read: TurnEnd(read.text("reason"), read.text("detail", ""), _maybe_usage(read)),
    ),
)
_WRITERS: Final[Mapping[type, tuple[str, Callable[..., Json]]]] = {
    kind: (name, write) for kind, name, write, _ in _TABLE
}
_READERS: Final[Mapping[str, Callable[[_Reader], Fact]]] = {name: read for _, name, _, read in _TABLE}
