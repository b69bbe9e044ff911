"""Answers of Responses endpoints, streamed or not.

Floor: 1. Owns: what a typed event and an output item mean; never: the rules every wire shares.

An item is known by its place in the output, not by its id: gateways give it a new id on every event. What an item's
`done` event says wins over the fragments before it; the list in the last event only fills what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from plait.core.events import DeltaKind, Piece
from plait.core.messages import Opaque, Part, Reasoning, Text, ToolCall
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.wire.answer import Answer, finish_of
from plait.wire.calls import text_of_arguments
from plait.wire.decoder import Decoder, failure_in, place_of
from plait.wire.errors.failure import Failure
from plait.wire.profile import DecodeOptions, WireProfile
from plait.wire.usage import read_usage

_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Types of items that are calls, and the field that holds what the tool gets."""
_LAST = ("completed", "incomplete", "failed", "cancelled", "done")
_ITEM_OF_EVENT: Final = {
    "response.output_text": "message",
    "response.refusal": "message",
    "response.reasoning_summary_text": "reasoning",
    "response.reasoning_text": "reasoning",
    "response.function_call_arguments": "function_call",
    "response.custom_tool_call_input": "custom_tool_call",
}
"""Events that bring fragments, and the type of item they belong to."""
_SHOWN_AS: Mapping[str, DeltaKind] = {
    "response.output_text": "content",
    "response.reasoning_summary_text": "reasoning",
    "response.reasoning_text": "reasoning",
    "response.function_call_arguments": "tool_arguments",
    "response.custom_tool_call_input": "tool_arguments",
}
_WHOLE_IN: Final = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "text",
    "response.reasoning_text": "text",
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
"""The field of an event's `done` that repeats all its fragments."""


class ResponsesDecoder(Decoder):
    """Decodes one Responses answer, whether the server streams, answers with JSON, or fails inside a 200."""

    def __init__(self, profile: WireProfile, options: DecodeOptions | None = None) -> None:
        super().__init__(ResponsesAssembler(), profile, options or DecodeOptions())


@dataclass(slots=True)
class _Item:
    """One item of the output, as far as it came."""

    kind: str
    id: str = ""
    call_id: str = ""
    name: str = ""
    fragments: dict[str, list[str]] = field(default_factory=dict)
    """Texts by the event that brings them."""
    done: Mapping[str, Any] | None = None

    def text(self, *events: str) -> str:
        return "".join(text for event in events for text in self.fragments.get(event, ()))


class ResponsesAssembler:
    """Puts the events of one answer together."""

    def __init__(self) -> None:
        self.is_terminated = False
        self.call_count = 0
        self._items: list[_Item] = []
        self._by_place: dict[int, _Item] = {}
        self._raw_finish: str | None = None
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._details: dict[str, object] = {}

    @property
    def has_finish(self) -> bool:
        """True once an event said why the answer ended."""
        return self._raw_finish is not None

    def take_text(self, document: object, pieces: list[Piece]) -> bool:
        """Take an event that is one piece of text: nearly every event is."""
        if not isinstance(document, dict) or document.get("type") != "response.output_text.delta":
            return False
        place, text = place_of(document.get("output_index")), document.get("delta")
        item = None if place is None else self._by_place.get(place)
        if item is None or item.kind != "message" or not isinstance(text, str):
            return False
        item.fragments.setdefault("response.output_text", []).append(text)
        pieces.append(("content", text))
        return True

    def take(self, document: Mapping[str, object], pieces: list[Piece]) -> bool:
        """Take one event, or the whole response of a server that does not stream."""
        kind = document.get("type")
        if not isinstance(kind, str):
            return self._take_whole(document, pieces)
        response = document.get("response")
        if isinstance(response, dict):
            self._take_response(response, kind.removeprefix("response."), pieces)
            return True
        event, _, step = kind.rpartition(".")
        item = document.get("item")
        if event == "response.output_item" and isinstance(item, dict):
            self._take_item(item, place_of(document.get("output_index")), is_done=step == "done", pieces=pieces)
        elif event in _ITEM_OF_EVENT:
            self._take_fragment(event, document, is_done=step == "done", pieces=pieces)
        return kind.startswith("response.")

    def close(self, pieces: list[Piece]) -> None:
        """Nothing is held back on this wire."""

    def answer(self) -> Answer:
        """Return the answer."""
        refusals = [text for item in self._items if item.kind == "message" and (text := _refusal(item))]
        echoed = [item.done for item in self._items if item.done is not None and _is_echoed(item)]
        return Answer(
            parts=tuple(part for item in self._items if (part := _part(item)) is not None),
            refusal="".join(refusals) or None,
            finish=finish_of(self._raw_finish),
            raw_finish=self._raw_finish,
            usage=self._usage,
            failure=self._failure,
            details=self._details,
            replay={"reasoning_items": echoed} if echoed else None,
        )

    def _take_whole(self, document: Mapping[str, object], pieces: list[Piece]) -> bool:
        status = document.get("status")
        if not isinstance(document.get("output"), list):
            return False
        self._take_response(document, status if isinstance(status, str) else "completed", pieces)
        return True

    def _take_response(self, response: Mapping[str, object], step: str, pieces: list[Piece]) -> None:
        if not self._details:
            self._details = {key: response[key] for key in ("id", "model") if response.get(key)}
        self._usage = read_usage(response.get("usage")) or self._usage
        if step not in _LAST:
            return
        self.is_terminated = True
        status = response.get("status")
        # Relays end every answer with the same event; the response in it says how it really ended.
        step = status if step in ("completed", "done") and status in _LAST else step
        self._raw_finish = "completed" if step == "done" else step
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        if step == "incomplete" and isinstance(reason, str):
            self._raw_finish = reason
        error = response.get("error")
        if error:
            self._failure = failure_in(error)
        output = response.get("output")
        if isinstance(output, list):
            self._fill_from([item for item in output if isinstance(item, dict)], pieces)

    def _fill_from(self, output: list[dict[str, Any]], pieces: list[Piece]) -> None:
        """Take from the last event's list what no event before it brought."""
        for place, item in enumerate(output):
            own = self._items[place] if place < len(self._items) else None
            if own is None:
                self._take_item(item, None, is_done=True, pieces=pieces)
            elif own.done is None and own.kind == item.get("type"):
                own.done = item

    def _take_item(self, item: dict[str, Any], place: int | None, *, is_done: bool, pieces: list[Piece]) -> None:
        own = self._item_at(place, _text(item.get("id")))
        if own is None or self._is_another(own, item, is_done=is_done):
            own = self._open(_text(item.get("type")), place)
        own.id = _text(item.get("id")) or own.id
        own.call_id = own.call_id or _text(item.get("call_id"))
        own.name = own.name or _text(item.get("name"))
        if is_done and own.done is None:
            own.done = item
            if not own.fragments:
                pieces += _shown(own)

    def _is_another(self, own: _Item, item: Mapping[str, object], *, is_done: bool) -> bool:
        """Say whether an item event at the place of `own` is about another item: some servers count all as 0."""
        if own.kind != item.get("type"):
            return True
        if own.kind in _CALLS:
            return bool(own.call_id) and own.call_id != item.get("call_id")
        return not is_done and own.done is not None and own.id != item.get("id")

    def _take_fragment(self, event: str, document: Mapping[str, object], *, is_done: bool, pieces: list[Piece]) -> None:
        kind = _ITEM_OF_EVENT[event]
        place = place_of(document.get("output_index"))
        own = self._item_at(place, _text(document.get("item_id")))
        if own is None or own.kind != kind:
            own = self._open(kind, place)
        text = document.get(_WHOLE_IN[event] if is_done else "delta")
        if not isinstance(text, str) or not text or own.done is not None or (is_done and own.fragments.get(event)):
            return
        own.fragments.setdefault(event, []).append(text)
        if event in _SHOWN_AS:
            pieces.append((_SHOWN_AS[event], text))

    def _item_at(self, place: int | None, id: str) -> _Item | None:
        if place is not None:
            return self._by_place.get(place)
        named = next((item for item in reversed(self._items) if id and item.id == id), None)
        return named or (self._items[-1] if self._items and not id else None)

    def _open(self, kind: str, place: int | None) -> _Item:
        item = _Item(kind)
        self.call_count += kind in _CALLS
        self._items.append(item)
        if place is not None:
            self._by_place[place] = item
        return item


def _part(item: _Item) -> Part | None:
    if item.kind in _CALLS:
        return _call(item)
    if item.kind == "reasoning":
        text = _thought(item)
        opaque = {"item": item.done} if item.done is not None and _is_echoed(item) else None
        return Reasoning(text, opaque) if text or opaque else None
    if item.kind == "message":
        text = _words(item)
        return Text(text) if text else None
    return Opaque("responses", item.done) if item.done is not None else None


def _call(item: _Item) -> ToolCall | None:
    done = item.done or {}
    name = item.name or _text(done.get("name"))
    if not name:
        return None
    raw, _ = text_of_arguments(done.get(_CALLS[item.kind]))
    raw = raw or item.text("response.function_call_arguments", "response.custom_tool_call_input")
    is_custom = item.kind == "custom_tool_call"
    return ToolCall(item.call_id, name, raw if is_custom or raw.strip() else "{}", is_custom)


def _words(item: _Item) -> str:
    parts = _texts(item.done.get("content"), "output_text", "text") if item.done is not None else ""
    return parts or item.text("response.output_text")


def _refusal(item: _Item) -> str:
    parts = _texts(item.done.get("content"), "refusal", "refusal") if item.done is not None else ""
    return parts or item.text("response.refusal")


def _thought(item: _Item) -> str:
    done = item.done or {}
    text = _texts(done.get("summary"), "summary_text", "text") or _texts(done.get("content"), "reasoning_text", "text")
    return text or item.text("response.reasoning_summary_text") or item.text("response.reasoning_text")


def _texts(parts: object, kind: str, name: str) -> str:
    if isinstance(parts, str):
        return parts if kind == "output_text" else ""
    if not isinstance(parts, list):
        return ""
    return "".join(_text(part.get(name)) for part in parts if isinstance(part, dict) and part.get("type") == kind)


def _is_echoed(item: _Item) -> bool:
    """Only a thought that carries its own content can be sent back to a server that stores nothing."""
    return item.kind == "reasoning" and item.done is not None and bool(item.done.get("encrypted_content"))


def _shown(item: _Item) -> list[Piece]:
    """Return what an item shows that came without fragments."""
    shown: list[Piece] = []
    if item.kind == "message":
        shown.append(("content", _words(item)))
    elif item.kind == "reasoning":
        shown.append(("reasoning", _thought(item)))
    elif item.kind in _CALLS and item.done is not None:
        shown.append(("tool_arguments", text_of_arguments(item.done.get(_CALLS[item.kind]))[0]))
    return [(kind, text) for kind, text in shown if text]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
