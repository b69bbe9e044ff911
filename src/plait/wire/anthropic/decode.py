"""Answers of Anthropic Messages endpoints, streamed or not.

Floor: 1. Owns: what an event and a content block mean; never: the rules every wire shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from plait.core.events import DeltaKind, Piece
from plait.core.messages import Opaque, Part, Reasoning, Text, ToolCall
from plait.core.strict_json import JsonInvalid, parse
from plait.core.values import dataclass
from plait.wire.answer import Answer, finish_of
from plait.wire.calls import text_of_arguments
from plait.wire.decoder import Decoder, place_of
from plait.wire.profile import DecodeOptions, WireProfile
from plait.wire.usage import read_usage

_TEXT_OF_DELTA: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "signature_delta": "signature",
}
_SHOWN_AS: Mapping[str, DeltaKind] = {
    "text_delta": "content",
    "thinking_delta": "reasoning",
    "input_json_delta": "tool_arguments",
}


class AnthropicDecoder(Decoder):
    """Decodes one Messages answer, whether the server streams, answers with JSON, or fails inside a 200."""

    def __init__(self, profile: WireProfile, options: DecodeOptions | None = None) -> None:
        super().__init__(AnthropicAssembler(), profile, options or DecodeOptions())


@dataclass(slots=True)
class _Block:
    """One content block, as far as it came."""

    start: Mapping[str, Any]
    texts: dict[str, list[str]] = field(default_factory=dict)
    """Fragments by the kind of delta that brings them."""
    citations: list[object] = field(default_factory=list)
    is_stopped: bool = False

    @property
    def kind(self) -> str:
        return str(self.start.get("type"))

    def text(self, delta: str) -> str:
        return "".join(self.texts.get(delta, ()))

    def whole(self, name: str, delta: str) -> str:
        """Return a field: what the block began with, and the fragments after it."""
        begun = self.start.get(name)
        return (begun if isinstance(begun, str) else "") + self.text(delta)


class AnthropicAssembler:
    """Puts the events of one answer together."""

    def __init__(self) -> None:
        self.is_terminated = False
        self.call_count = 0
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._raw_finish: str | None = None
        self._usage: dict[str, object] = {}
        self._details: dict[str, object] = {}

    @property
    def has_finish(self) -> bool:
        """True once an event said why the answer ended."""
        return self._raw_finish is not None

    def take_text(self, document: object, pieces: list[Piece]) -> bool:
        """Take an event that is one piece of text: nearly every event is."""
        if not isinstance(document, dict) or document.get("type") != "content_block_delta":
            return False
        block, delta = self._by_index.get(place_of(document.get("index")) or 0), document.get("delta")
        if block is None or not isinstance(delta, dict) or delta.get("type") != "text_delta":
            return False
        text = delta.get("text")
        if not isinstance(text, str):
            return False
        block.texts.setdefault("text_delta", []).append(text)
        if text:
            pieces.append(("content", text))
        return True

    def take(self, document: Mapping[str, object], pieces: list[Piece]) -> bool:
        """Take one event, or the whole message of a server that does not stream."""
        kind, index = document.get("type"), place_of(document.get("index")) or 0
        if kind == "content_block_delta":
            self._take_delta(index, document.get("delta"), pieces)
        elif kind == "content_block_start":
            self._start_block(index, document.get("content_block"), pieces)
        elif kind == "content_block_stop":
            if index in self._by_index:
                self._by_index[index].is_stopped = True
        elif kind == "message_start":
            self._take_message(document.get("message"), pieces)
        elif kind == "message_delta":
            self._take_end(document.get("delta"), document.get("usage"))
        elif kind == "message_stop":
            self.is_terminated = True
        elif kind == "message" or (kind is None and isinstance(document.get("content"), list)):
            self._take_message(document, pieces)
            self.is_terminated = True
        else:
            return kind == "ping"
        return True

    def close(self, pieces: list[Piece]) -> None:
        """Nothing is held back on this wire."""

    def answer(self) -> Answer:
        """Return the answer."""
        is_paused = self._raw_finish == "pause_turn"
        return Answer(
            parts=tuple(part for block in self._blocks if (part := _part(block)) is not None),
            finish=finish_of(self._raw_finish),
            raw_finish=self._raw_finish,
            usage=read_usage(self._usage, excludes_cached=True),
            is_paused=is_paused,
            details=self._details,
            replay=_replay(self._blocks, is_paused=is_paused),
        )

    def _take_message(self, message: object, pieces: list[Piece]) -> None:
        if not isinstance(message, dict):
            return
        if not self._details:
            self._details = {key: message[key] for key in ("id", "model") if message.get(key)}
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._start_block(index, block, pieces)
        self._take_end(message, message.get("usage"))

    def _take_end(self, delta: object, usage: object) -> None:
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(reason, str) and reason:
            self._raw_finish = reason
        for name, value in usage.items() if isinstance(usage, dict) else ():
            old = self._usage.get(name)
            # Counts only grow; a relay that knows some of them only at the start sends 0 at the end.
            if isinstance(value, int) and isinstance(old, int):
                self._usage[name] = max(old, value)
            elif value is not None:
                self._usage[name] = value

    def _start_block(self, index: int, block: object, pieces: list[Piece]) -> None:
        if not isinstance(block, dict):
            return
        own = self._by_index.get(index)
        if (
            own is not None
            and not own.is_stopped
            and own.start.get("id") == block.get("id")
            and own.kind == block.get("type")
        ):
            return  # a gateway that reconnects begins its blocks again
        started = _Block(block)
        self.call_count += started.kind == "tool_use"
        self._blocks.append(started)
        self._by_index[index] = started
        if started.kind in ("text", "thinking"):
            text = started.whole(started.kind, f"{started.kind}_delta")
            if text:
                pieces.append(("content" if started.kind == "text" else "reasoning", text))

    def _take_delta(self, index: int, delta: object, pieces: list[Piece]) -> None:
        if not isinstance(delta, dict):
            return
        kind = str(delta.get("type"))
        if kind == "citations_delta" and index in self._by_index:
            self._by_index[index].citations.append(delta.get("citation"))
        text = delta.get(_TEXT_OF_DELTA.get(kind, ""))
        if not isinstance(text, str) or not text:
            return
        block = self._by_index.get(index) or self._open(index, kind)
        block.texts.setdefault(kind, []).append(text)
        if kind in _SHOWN_AS and block.kind in ("text", "thinking", "tool_use"):
            pieces.append((_SHOWN_AS[kind], text))

    def _open(self, index: int, delta: str) -> _Block:
        """Begin a block whose start was never sent."""
        block = _Block({"type": {"text_delta": "text", "thinking_delta": "thinking"}.get(delta, "")})
        self._blocks.append(block)
        self._by_index[index] = block
        return block


def _part(block: _Block) -> Part | None:
    if block.kind == "text":
        text = block.whole("text", "text_delta")
        return Text(text) if text else None
    if block.kind == "thinking":
        text, signature = block.whole("thinking", "thinking_delta"), _signature(block)
        return Reasoning(text, {"signature": signature} if signature else None) if text or signature else None
    if block.kind == "redacted_thinking":
        return Reasoning("", {"data": block.start.get("data")})
    if block.kind == "tool_use":
        name = block.start.get("name")
        return (
            ToolCall(str(block.start.get("id") or ""), name, _input(block)) if isinstance(name, str) and name else None
        )
    return Opaque("anthropic", _whole_block(block)) if block.kind else None


def _input(block: _Block) -> str:
    """Return the input of a call: its fragments as they came, else the object it began with."""
    text = block.text("input_json_delta")
    if not text.strip():
        text, _ = text_of_arguments(block.start.get("input"))
    return text or "{}"


def _whole_block(block: _Block) -> dict[str, object]:
    """Return a block as the provider wants it back."""
    if block.kind == "text":
        begun = {} if block.start.get("citations") is None else {"citations": block.start["citations"]}
        cited = {"citations": block.citations} if block.citations else begun
        return {"type": "text", "text": block.whole("text", "text_delta"), **cited}
    if block.kind == "thinking":
        thinking = {"thinking": block.whole("thinking", "thinking_delta"), "signature": _signature(block)}
        return {"type": "thinking", **thinking}
    whole = dict(block.start)
    text = block.text("input_json_delta")
    if text.strip():
        try:
            whole["input"] = parse(text)
        except JsonInvalid:
            whole["input"] = {}
    return whole


def _is_echoed(block: _Block) -> bool:
    """A thought whose signature never came would be refused."""
    return block.kind == "redacted_thinking" or (block.kind == "thinking" and _signature(block) != "")


def _signature(block: _Block) -> str:
    return block.whole("signature", "signature_delta")


def _replay(blocks: list[_Block], *, is_paused: bool) -> Mapping[str, object] | None:
    if is_paused:
        return {"content": [_whole_block(block) for block in blocks]}
    kept = [_whole_block(block) for block in blocks if _is_echoed(block)]
    if len(kept) == 1:
        return {str(kept[0]["type"]): {name: value for name, value in kept[0].items() if name != "type"}}
    return {"thinking_blocks": kept} if kept else None
