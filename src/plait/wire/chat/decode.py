"""Answers of chat-completions endpoints, streamed or not.

Floor: 1. Owns: what a chunk, a choice and a delta mean; never: which call a fragment belongs to (that is `calls`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal

from plait.core.events import Piece
from plait.core.messages import Part, Reasoning, Text, ToolCall
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.wire.answer import Answer, finish_of
from plait.wire.calls import CallAssembler, Fragment, text_of_arguments
from plait.wire.decoder import Decoder, failure_in, place_of
from plait.wire.errors.failure import Failure
from plait.wire.inline_calls import extract_inline_calls
from plait.wire.opaque import DetailMerger, is_signed
from plait.wire.profile import DecodeOptions, WireProfile
from plait.wire.think import Segment, ThinkSplitter
from plait.wire.usage import latest, read_usage

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
_OPAQUE_FIELDS = ("thinking_blocks", "reasoning_details")
_SEALED_FIELD = "reasoning_opaque"
"""A thought that only its endpoint can read, as one text."""
_IDENTITY = ("id", "model", "provider")
_THOUGHTS = frozenset((*_REASONING_FIELDS, *_OPAQUE_FIELDS, _SEALED_FIELD))
_CALL_FIELDS = ("tool_calls", "function_call")
_NO_FINISH = ("", "null", "none")


class ChatDecoder(Decoder):
    """Decodes one chat-completions answer, whether the server streams, answers with JSON, or fails inside a 200."""

    def __init__(self, profile: WireProfile, options: DecodeOptions | None = None) -> None:
        super().__init__(ChatAssembler(profile), profile, options or DecodeOptions())


@dataclass(slots=True)
class _Choice:
    """One of the answers that a server gives, or one part of the only answer, under a number of its own."""

    index: int
    think: ThinkSplitter
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: CallAssembler = field(default_factory=CallAssembler)
    call_field: str = ""
    """The field that brought the first call: some servers repeat every call in the older one."""
    opaque: dict[str, DetailMerger] = field(default_factory=dict)
    sealed: str = ""
    extra: dict[str, object] = field(default_factory=dict)
    """What an endpoint signs a message with, beside the calls that have signatures of their own."""
    reasoning_field: str = ""
    is_told_whole: bool = False
    """True where the text comes as messages, not as differences."""
    finish: str | None = None

    @property
    def has_streamed(self) -> bool:
        return bool(self.content or self.reasoning or self.refusal or self.calls)

    @property
    def has_thought(self) -> bool:
        return bool(self.reasoning or self.opaque or self.sealed or self.extra)


class ChatAssembler:
    """Puts the chunks of one answer together."""

    def __init__(self, profile: WireProfile) -> None:
        self.is_terminated = False
        self._profile = profile
        self._choices: dict[int, _Choice] = {}
        self._first: _Choice | None = None
        self._usage: Usage | None = None
        self._details: dict[str, object] = {}
        self._untold: tuple[str, ...] = _IDENTITY
        """What no chunk has told yet of who answers."""
        self._failure: Failure | None = None

    @property
    def has_finish(self) -> bool:
        """True once a choice said why it ended."""
        return any(choice.finish for choice in self._choices.values())

    @property
    def call_count(self) -> int:
        """How many calls have begun, in all choices."""
        return sum(len(choice.calls) for choice in self._choices.values())

    def take_text(self, document: object, pieces: list[Piece]) -> bool:
        """Take a chunk that is one piece of text and nothing else: nearly every chunk is."""
        choice = self._first
        # Who has said a word of the answer thinks no more, and saying so costs no call.
        if choice is None or not isinstance(document, dict) or not (choice.content or choice.think.is_idle):
            return False
        choices = document.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or document.get("usage") or document.get("error"):
            return False
        item = choices[0]
        if not isinstance(item, dict) or item.get("index") != choice.index or item.get("finish_reason"):
            return False
        delta = item.get("delta")
        if not isinstance(delta, dict) or len(delta) != 1 or item.get("usage") or item.get("error"):
            return False
        text = delta.get("content")
        if not isinstance(text, str) or not text:
            return False
        choice.content.append(text)
        pieces.append(("content", text))
        return True

    def take(self, document: Mapping[str, object], pieces: list[Piece]) -> bool:
        """Take one chunk."""
        choices = document.get("choices")
        if isinstance(choices, list):
            for item in choices:
                if isinstance(item, dict):
                    self._take_choice(item, pieces)
        usage, own = document.get("usage"), document.get("x_groq")
        if isinstance(own, dict):
            usage = own.get("usage") if usage is None else usage
            if own.get("error"):
                self._fail(own["error"])
        if usage is not None:
            self._usage = latest(self._usage, read_usage(usage))
        for name in self._untold:
            if document.get(name):
                self._details[name] = document[name]
                self._untold = tuple(other for other in self._untold if other != name)
        return "choices" in document

    def close(self, pieces: list[Piece]) -> None:
        """Add what the think splitters held back."""
        for choice in self._choices.values():
            self._add_segments(choice, choice.think.finish(), pieces)

    def answer(self) -> Answer:
        """Return the answer; of several choices the one with calls wins, and takes missing text from the others."""
        choices = list(self._choices.values()) or [_Choice(0, ThinkSplitter("off"))]
        ordered = choices if len(choices) == 1 else _winner_first(choices)
        winner = ordered[0]
        content = next(filter(None, ("".join(choice.content) for choice in ordered)), "")
        refusal = next(filter(None, ("".join(choice.refusal) for choice in ordered)), "")
        thinker = next((choice for choice in ordered if choice.has_thought), None)
        calls = winner.calls.calls()
        if self._profile.calls == "inline" and not calls:
            calls = extract_inline_calls(content)
        return Answer(
            parts=_parts(thinker, content, calls),
            refusal=refusal or None,
            finish=finish_of(winner.finish),
            raw_finish=winner.finish,
            usage=self._usage,
            failure=self._failure or _lost_name(winner),
            details=self._details,
            replay=None if thinker is None else _replay(thinker),
        )

    def _take_choice(self, item: Mapping[str, object], pieces: list[Piece]) -> None:
        index = place_of(item.get("index")) or 0
        choice = self._choices.get(index) or self._open_choice(index)
        delta = item.get("delta")
        if isinstance(delta, dict):
            self._take_delta(choice, delta, pieces)
        message = item.get("message")
        if isinstance(message, dict):
            choice.is_told_whole |= not choice.content and not isinstance(delta, dict)
            self._take_delta(choice, _missing(choice, message), pieces)
        elif delta is None and isinstance(item.get("text"), str):
            self._take_content(choice, item["text"], pieces)
        if item.get("error"):
            self._fail(item["error"])
        finish = item.get("finish_reason")
        if isinstance(finish, str) and finish not in _NO_FINISH:
            choice.finish = finish
        usage = item.get("usage")
        if usage is not None:
            self._usage = latest(self._usage, read_usage(usage))

    def _fail(self, error: object) -> None:
        self._failure = failure_in(error)
        self.is_terminated = True

    def _open_choice(self, index: int) -> _Choice:
        choice = self._choices.setdefault(index, _Choice(index, ThinkSplitter(self._profile.think)))
        self._first = self._first or choice
        return choice

    def _take_delta(self, choice: _Choice, delta: Mapping[str, object], pieces: list[Piece]) -> None:
        content = delta.get("content")
        if delta.get("extra_content"):
            _take_extra(choice, delta["extra_content"])
        if not _THOUGHTS.isdisjoint(delta):
            self._take_reasoning(choice, delta, pieces)
        refusal = delta.get("refusal")
        if isinstance(refusal, str):
            choice.refusal.append(refusal)
        if content:
            self._take_content(choice, content, pieces)
        for fragment in _fragments(choice, delta):
            text = choice.calls.add(fragment)
            if text:
                pieces.append(("tool_arguments", text))
            if choice.calls.is_full:
                break

    def _take_content(self, choice: _Choice, content: object, pieces: list[Piece]) -> None:
        if isinstance(content, str):
            if choice.think.is_idle:
                choice.content.append(content)
                if choice is self._first:
                    pieces.append(("content", content))
            else:
                self._add_segments(choice, choice.think.feed(content), pieces)
            return
        for kind, text in _segments_of_parts(content):
            if kind == "refusal":
                choice.refusal.append(text)
            elif kind == "reasoning":
                self._add_segments(choice, [(kind, text)], pieces)
            else:
                self._add_segments(choice, choice.think.feed(text), pieces)

    def _take_reasoning(self, choice: _Choice, delta: Mapping[str, object], pieces: list[Piece]) -> None:
        text = ""
        for name in _REASONING_FIELDS:
            value = delta.get(name)
            if isinstance(value, str) and value:
                text = value
                choice.reasoning_field = choice.reasoning_field or name
                break
        for name in _OPAQUE_FIELDS:
            value = delta.get(name)
            if isinstance(value, list) and value:
                merger = choice.opaque.setdefault(name, DetailMerger())
                shown = merger.add(value)
                text = text or shown
        sealed = delta.get(_SEALED_FIELD)
        if isinstance(sealed, str):
            choice.sealed += sealed
        if text:
            self._add_segments(choice, choice.think.stop(), pieces)
            self._add_segments(choice, [("reasoning", text)], pieces)

    def _add_segments(self, choice: _Choice, segments: list[Segment], pieces: list[Piece]) -> None:
        for kind, text in segments:
            (choice.content if kind == "content" else choice.reasoning).append(text)
            if choice is self._first:
                pieces.append((kind, text))


def _winner_first(choices: list[_Choice]) -> list[_Choice]:
    winner = next((choice for choice in choices if choice.calls), None)
    winner = winner or next((choice for choice in choices if choice.has_streamed), choices[0])
    return [winner, *(choice for choice in choices if choice is not winner)]


def _take_extra(choice: _Choice, extra: object) -> None:
    own = extra.get("google") if isinstance(extra, dict) else None
    if not isinstance(extra, dict) or not isinstance(own, dict):
        return
    if own.get("thought_signature"):
        choice.extra.update(extra)
    if own.get("thought") is True and choice.think.is_idle and not choice.content:
        choice.think = ThinkSplitter("inline")  # the text that follows is a think block, whatever the profile says


def _missing(choice: _Choice, message: Mapping[str, object]) -> Mapping[str, object]:
    """A whole message is the answer of a server that does not stream, or repeats what was streamed."""
    missing = dict(message)
    content = missing.get("content")
    if choice.is_told_whole and choice.content and isinstance(content, str):
        missing["content"] = content.removeprefix("".join(choice.content))
    elif choice.content or choice.think.holds_text:
        missing.pop("content", None)
    if choice.reasoning or choice.opaque:
        for name in (*_REASONING_FIELDS, *_OPAQUE_FIELDS):
            missing.pop(name, None)
    if choice.calls:
        for name in _CALL_FIELDS:
            missing.pop(name, None)
    if choice.refusal:
        missing.pop("refusal", None)
    return missing


def _fragments(choice: _Choice, delta: Mapping[str, object]) -> Iterator[Fragment]:
    for name in _CALL_FIELDS:
        calls = delta.get(name)
        if not calls or choice.call_field not in ("", name):
            continue
        for call in calls if isinstance(calls, list) else [calls]:
            if isinstance(call, dict):
                choice.call_field = name
                yield _fragment(call if name == "tool_calls" else {"function": call})


def _fragment(call: Mapping[str, object]) -> Fragment:
    custom = call.get("custom")
    is_custom = isinstance(custom, dict) and call.get("function") is None
    body = custom if is_custom else call.get("function")
    if not isinstance(body, dict):
        body = {}
    text, is_whole = text_of_arguments(body.get("input" if is_custom else "arguments"))
    extra = call.get("extra_content")
    return Fragment(
        place=place_of(body.get("index") if call.get("index") is None else call["index"]),
        id=_text(call.get("id")),
        name=_text(body.get("name")),
        text=text,
        is_whole=is_whole,
        custom=is_custom or call.get("type") == "custom",
        extra={"extra_content": extra} if extra else None,
    )


def _segments_of_parts(content: object) -> Iterator[tuple[Literal["content", "reasoning", "refusal"], str]]:
    """Yield the texts in a content that is a list of parts; thoughts may hold a list of their own."""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return
    for part in content:
        if isinstance(part, str):
            yield "content", part
        elif isinstance(part, dict):
            inner = part.get("thinking", part.get("reasoning"))
            if part.get("type") in ("thinking", "reasoning") or inner is not None:
                texts = [inner] if isinstance(inner, str) else [text for _, text in _segments_of_parts(inner)]
                for text in texts:
                    yield "reasoning", text
            elif isinstance(part.get("refusal"), str):
                yield "refusal", part["refusal"]
            elif isinstance(part.get("text"), str):
                yield "content", part["text"]


def _parts(thinker: _Choice | None, content: str, calls: list[ToolCall]) -> tuple[Part, ...]:
    parts: list[Part] = []
    if thinker is not None:
        reasoning, opaque = "".join(thinker.reasoning), _opaque(thinker)
        if reasoning or opaque:
            parts.append(Reasoning(reasoning, opaque or None))
    if content:
        parts.append(Text(content))
    return (*parts, *calls)


def _lost_name(choice: _Choice) -> Failure | None:
    if choice.finish and choice.calls.lost_a_name:
        return Failure.of("protocol", "a tool call came without a name")
    return None


def _replay(thinker: _Choice) -> Mapping[str, object] | None:
    for name in _OPAQUE_FIELDS:
        whole = [record for record in _records(thinker, name) if is_signed(record)]
        if whole:
            return {name: whole}
    echoed = {thinker.reasoning_field: "".join(thinker.reasoning)} if thinker.reasoning_field else {}
    sealed = {name: value for name, value in _opaque(thinker).items() if name not in _OPAQUE_FIELDS}
    return {**echoed, **sealed} or None


def _records(thinker: _Choice, name: str) -> list[dict[str, object]]:
    return thinker.opaque[name].items() if name in thinker.opaque else []


def _opaque(thinker: _Choice) -> dict[str, object]:
    """Return what the provider's own records hold, by field."""
    opaque: dict[str, object] = {name: merger.items() for name, merger in thinker.opaque.items()}
    if thinker.sealed:
        opaque[_SEALED_FIELD] = thinker.sealed
    if thinker.extra:
        opaque["extra_content"] = thinker.extra
    return opaque


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
