"""An answer put together from a stream, and what becomes of it: a reply, or a failure with what had arrived.

Floor: 1. Owns: the last rules every wire shares (ids, validity, what the finish means); never: a wire's events.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import field, replace
from typing import Final, Literal

from plait.core.exchange import Reply
from plait.core.ids import new_id
from plait.core.messages import Message, Opaque, Part, Reasoning, StopReason, Text, ToolCall
from plait.core.strict_json import JsonInvalid, parse_object
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.wire.errors.failure import Failure
from plait.wire.profile import DecodeOptions
from plait.wire.words import plain_word

Finish = Literal["stop", "tool_calls", "length", "content_filter", "error"]

_NO_ANSWER: Final = frozenset({"incomplete_stream", "not_event_stream"})
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_SURROGATE_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")

_WORDS: Final[Mapping[Finish, str]] = {
    "tool_calls": "tool_calls tool_call tool_use function_call function_calls",
    "length": """length incomplete max_tokens max_output_tokens model_length token_limit max_length
        max_completion_tokens length_limit error_limit""",
    "content_filter": """content_filter safety refusal recitation prohibited_content blocklist sensitive spii
        content_filtered content_blocked guardrail_intervened image_safety error_toxic""",
    "error": """error failed network_error insufficient_system_resource abort aborted cancelled canceled
        malformed_function_call unexpected_tool_call too_many_tool_calls missing_thought_signature malformed_response
        model_context_window_exceeded""",
}
_GIVING_UP: Final = frozenset({"error", "failed", "abort", "aborted", "cancelled", "canceled"})
_FINISH: Final[Mapping[str, Finish]] = {
    plain_word(word): finish for finish, words in _WORDS.items() for word in words.split()
}


def finish_of(raw: str | None) -> Finish | None:
    """Return what a provider's word for the end means; a word that nobody knows is a plain stop.

    Of a word with a reason after a colon the reason is asked first.
    """
    if raw is None:
        return None
    words = (plain_word(word).removeprefix("finishreason") for word in reversed(raw.split(":")))
    found = next(filter(_FINISH.__contains__, words), None)
    return "stop" if found is None else _FINISH[found]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a body held, as far as it came, and how it ended."""

    parts: tuple[Part, ...] = ()
    """Reasoning, text, opaque parts and calls, in the order of the message they make."""
    refusal: str | None = None
    finish: Finish | None = None
    raw_finish: str | None = None
    usage: Usage | None = None
    failure: Failure | None = None
    is_paused: bool = False
    """The provider wants to be called again with what it said."""
    details: Mapping[str, object] = field(default_factory=dict)
    replay: Mapping[str, object] | None = None
    """What the provider wants back in the next request, in its own form."""

    @property
    def content(self) -> str:
        """The text of the answer."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        """The thoughts."""
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, valid or not."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def is_empty(self) -> bool:
        """True for an answer that ended well and holds nothing."""
        return self.failure is None and not self.refusal and not any(map(_says_something, self.parts))


def settle(answer: Answer, *, is_ended: bool, is_whole: bool, options: DecodeOptions) -> Answer:
    """Apply the rules every wire shares to what a stream left.

    Args:
        answer: with `finish` as the provider's word for it means, None where it gave none.
        is_ended: the server said that the stream is over (`[DONE]`, a terminal event, the end of a JSON document).
        is_whole: nothing of the body is known to be missing.
        options: what the session knows about ids and names.
    """
    parts = tuple(map(_without_halves, _named_calls(answer.parts, options)))
    finish, failure = answer.finish, answer.failure
    if failure is None and finish == "error":
        failure = _failed_finish(answer.raw_finish or "error")
    if failure is not None:
        finish = None if failure.detail in _NO_ANSWER else "error"
    elif finish is None and not (is_ended and is_whole and _looks_whole(replace(answer, parts=parts))):
        failure = Failure.of("protocol", "the stream ended before the answer did", detail="incomplete_stream")
    else:
        finish = _finish_with_calls(finish, any(isinstance(part, ToolCall) for part in parts))
    if (parts, finish, failure) == (answer.parts, answer.finish, answer.failure):
        return answer
    return replace(answer, parts=parts, finish=finish, failure=failure)


def to_reply(answer: Answer, *, origin: str, status: int | None = None) -> Reply:
    """Return the answer as a reply.

    Raises:
        ProviderFailed: the answer is not whole, or the provider reported an error; `partial` holds what came.
    """
    message = to_message(answer, origin)
    failure = answer.failure or _empty_failure(answer)
    if failure is not None:
        partial = message if message.parts else None
        raise failure.to_exception(status=status, partial=partial, usage=answer.usage, phase="stream")
    usage = answer.usage or Usage.UNAVAILABLE
    return Reply(message, _stop_of(answer), usage, answer.raw_finish, answer.details or None)


def to_message(answer: Answer, origin: str) -> Message:
    """Return the assistant message that an answer makes; a refusal is text in it."""
    parts = answer.parts
    if answer.refusal:
        parts = (*parts, Text(answer.refusal))
    return Message("assistant", parts, origin)


def is_runnable(call: ToolCall) -> bool:
    """Say whether a call's arguments are a JSON object, or free text where its tool takes that.

    An escape that stands for half a character is JSON: that a tool cannot be given one is another matter.
    """
    if call.custom:
        return True
    try:
        parse_object(_SURROGATE_ESCAPE.sub(r"\\ufffd", call.raw))
    except JsonInvalid:
        return False
    return True


def unique_id(wanted: str, taken: Container[str], used: set[str]) -> str:
    """Return `wanted`, or `wanted-2`, `wanted-3`, … when it was used before; remember it in `used`."""
    name, number = wanted, 1
    while name in used or name in taken:
        number += 1
        name = f"{wanted}-{number}"
    used.add(name)
    return name


def _named_calls(parts: Iterable[Part], options: DecodeOptions) -> list[Part]:
    """Give every call an id of its own and the name that its tool has here; drop exact repeats of a call."""
    used: set[str] = set()
    seen: set[tuple[str, str, str]] = set()
    named: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall):
            key = (part.id, part.name, part.raw)
            if part.id and key in seen:
                continue
            seen.add(key)
            wanted = part.id or (options.new_id or _random_id)()
            name = options.tool_names.get(part.name, part.name)
            own_id = unique_id(wanted, options.taken_ids, used)
            if own_id != part.id or name != part.name:
                part = replace(part, id=own_id, name=name)
        named.append(part)
    return named


def _looks_whole(answer: Answer) -> bool:
    """Say whether an answer that ended without a word why can be taken for one."""
    return not answer.is_empty and all(map(is_runnable, answer.calls))


def _failed_finish(raw: str) -> Failure:
    from plait.wire.errors.words import class_of_word  # long tables, for answers that fail

    kind = class_of_word(raw.rpartition(":")[2]) or "unavailable"
    says_why = plain_word(raw) not in _GIVING_UP
    return Failure.of(kind, raw if says_why else f"the provider gave up: finish reason {raw!r}")


def _random_id() -> str:
    return new_id("call")


def _without_halves(part: Part) -> Part:
    """Join characters that were sent as two halves, one in each delta."""
    if isinstance(part, (Text, Reasoning)) and not part.text.isascii():
        return replace(part, text=join_halves(part.text))
    return part


def join_halves(text: str) -> str:
    """Return the text with every pair of surrogates as the one character it stands for."""
    return _SURROGATE_PAIR.sub(_whole_character, text)


def _whole_character(match: re.Match[str]) -> str:
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _finish_with_calls(finish: Finish | None, has_calls: bool) -> Finish:
    if has_calls and finish in (None, "stop"):
        return "tool_calls"
    return "stop" if finish is None or (finish == "tool_calls" and not has_calls) else finish


def _empty_failure(answer: Answer) -> Failure | None:
    """A provider that says it wrote nothing at all did not answer: its window is full, or it lost the request."""
    if not answer.is_empty or answer.usage is None or answer.usage.output != 0:
        return None
    if answer.finish == "length":
        return Failure.of(
            "context_overflow", "the prompt left no room in the window for an answer", detail="empty_answer"
        )
    return Failure.of("protocol", "the endpoint answered with nothing", detail="empty_answer")


def _stop_of(answer: Answer) -> StopReason:
    if answer.is_paused:
        return "pause"
    if answer.refusal and answer.finish == "stop":
        return "refusal"
    if answer.finish == "tool_calls":
        return "tool_calls"
    if answer.finish == "length":
        return "length"
    return "content_filter" if answer.finish == "content_filter" else "end_turn"


def _says_something(part: Part) -> bool:
    return isinstance(part, (ToolCall, Opaque)) or (isinstance(part, (Text, Reasoning)) and part.text != "")
