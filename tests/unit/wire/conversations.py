"""Conversations as hypothesis makes them."""

from __future__ import annotations

import json

from hypothesis import settings, strategies as st

from plait.core.messages import Image, Message, Part, Reasoning, Text, ToolCall, ToolResult

ORIGIN = "here"
FEWER = settings(max_examples=max(5, settings.default.max_examples // 4))
"""For laws whose examples are whole conversations, which take long to make."""

TEXTS = st.text('ab ä日🙂"\\\n<{,\x00\u2028', min_size=1, max_size=12).filter(lambda text: text.strip() != "")
IDS = st.from_regex(r"call_[a-z0-9]{1,6}", fullmatch=True)
NAMES = st.sampled_from(["read_file", "exec_shell", "f"])
IMAGES = st.sampled_from([Image("aGk="), Image("aGk=", "image/jpeg"), Image("https://example.org/a.png", kind="url")])
ARGUMENTS = st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers() | TEXTS, max_size=2).map(json.dumps)
CALLS = st.builds(ToolCall, IDS, NAMES, ARGUMENTS)
RESULTS = st.builds(ToolResult, IDS, TEXTS.filter(lambda text: not text.startswith("ERROR")))


@st.composite
def users(draw: st.DrawFn) -> Message:
    """A user message with text, pictures, or both."""
    text = draw(st.none() | TEXTS)
    images = draw(st.lists(IMAGES, min_size=0 if text else 1, max_size=2))
    words: tuple[Part, ...] = (Text(text),) if text else ()
    return Message("user", (*words, *images))


@st.composite
def assistants(draw: st.DrawFn) -> Message:
    """An assistant message: maybe thoughts, maybe text, maybe calls, but text or calls."""
    thought, text = draw(st.none() | TEXTS), draw(st.none() | TEXTS)
    calls = draw(st.lists(CALLS, min_size=0 if text else 1, max_size=3, unique_by=lambda call: call.id))
    parts: list[Part] = [Reasoning(thought)] if thought else []
    parts += [Text(text)] if text else []
    return Message("assistant", (*parts, *calls), ORIGIN)


TOOLS = st.lists(RESULTS, min_size=1, max_size=3).map(lambda results: Message("tool", tuple(results)))


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A conversation in which no two tool messages follow each other."""
    messages = draw(st.lists(st.one_of(users(), assistants(), TOOLS), max_size=5))
    return [
        message
        for index, message in enumerate(messages)
        if not (message.role == "tool" and index and messages[index - 1].role == "tool")
    ]


def without_thoughts(message: Message) -> Message:
    """The message as a wire gives it back that takes only signed thoughts."""
    return Message(
        message.role, tuple(part for part in message.parts if not isinstance(part, Reasoning)), message.origin
    )


def merged_assistants(history: list[Message]) -> list[Message]:
    """The conversation as a wire gives it back that has no border between two assistant messages."""
    merged: list[Message] = []
    for message in history:
        if merged and merged[-1].role == message.role == "assistant":
            merged[-1] = Message("assistant", merged[-1].parts + message.parts, message.origin)
        else:
            merged.append(message)
    return merged
