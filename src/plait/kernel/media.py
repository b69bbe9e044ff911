"""Making a request smaller that is too large in bytes: pictures weigh more than words.

Floor: 1. Owns: which pictures go, and what stands in their place; never: when (that is `thinking`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Final

from plait.core.facts import Reset
from plait.core.messages import Image, Message, Part, Text, ToolResult
from plait.kernel.effects import Record
from plait.kernel.state import State, record

LEFT_OUT: Final = "[a picture was left out: the request was too large for the endpoint]"


def drop_media(state: State) -> Generator[Record, None, bool]:
    """Take pictures out of the history; say whether there were any.

    The older ones go first; those of the last message that has some only when no others are left.
    """
    places = [index for index, message in enumerate(state.history) if _has_pictures(message)]
    for index in places[:-1] or places:
        yield from record(state, Reset(index, index + 1, (_without(state.history[index]),), "media"))
    return bool(places)


def _has_pictures(message: Message) -> bool:
    return bool(message.images) or any(result.images for result in message.tool_results)


def _without(message: Message) -> Message:
    return replace(message, parts=tuple(map(_bare, message.parts)))


def _bare(part: Part) -> Part:
    if isinstance(part, Image):
        return Text(LEFT_OUT)
    if isinstance(part, ToolResult) and part.images:
        return replace(part, content=f"{part.content}\n{LEFT_OUT}".strip(), images=())
    return part
