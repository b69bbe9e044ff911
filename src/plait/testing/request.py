"""One recorded request, and the prompt bytes in it exactly as they were sent.

Floor: testing. Owns: reading a request's JSON without losing its bytes; never: sockets, answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from plait.core.values import dataclass

_SPACE: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Request:
    """A completion request as the server saw it; `number` counts from 1."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case; of a header that came twice, the last."""
    body: bytes
    connection: int
    """Which connection it came on; equal numbers mean that the connection was kept."""
    query: str = ""
    """What followed the question mark of its URL."""

    @cached_property
    def json(self) -> dict[str, Any]:
        """The parsed body.

        Raises:
            ValueError: the body is not a JSON object.
        """
        parsed = json.loads(self.body)
        if not isinstance(parsed, dict):
            raise ValueError("the request body is not a JSON object")
        return parsed

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the request, as they were sent; the input items of a Responses request."""
        sent = self.json.get("messages") or self.json.get("input") or ()
        return [message for message in sent if isinstance(message, dict)]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the request offers, as they were sent."""
        return [tool for tool in self.json.get("tools") or () if isinstance(tool, dict)]

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.json.get("model", ""))

    @property
    def stream(self) -> bool:
        """Whether an event stream was asked for."""
        return bool(self.json.get("stream"))

    @property
    def text(self) -> str:
        """The text of all messages, one a line."""
        return "\n".join(text_of(message.get("content")) for message in self.messages)

    @property
    def last_text(self) -> str:
        """The text of the last message."""
        messages = self.messages
        return text_of(messages[-1].get("content")) if messages else ""

    @property
    def turns(self) -> int:
        """How many assistant messages the request holds: the step of the conversation, from 0."""
        return sum(1 for message in self.messages if message.get("role") == "assistant")


def text_of(content: object) -> str:
    """Return the text in a message's content, whether a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""


def raw_members(body: bytes) -> dict[str, bytes]:
    """Return the members of a JSON object with each value's own bytes, untouched.

    Raises:
        ValueError: `body` is not a JSON object in UTF-8.
    """
    text = body.decode("utf-8")
    decoder = json.JSONDecoder()
    members: dict[str, bytes] = {}
    at = _expect(text, _skip(text, 0), "{")
    while text[at : at + 1] != "}":
        key, at = decoder.raw_decode(text, at)
        start = _skip(text, _expect(text, _skip(text, at), ":"))
        _, end = decoder.raw_decode(text, start)
        members[str(key)] = text[start:end].encode("utf-8", "surrogatepass")
        at = _skip(text, end)
        if text[at : at + 1] != "}":
            at = _expect(text, at, ",")
    return members


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, char: str) -> int:
    if text[at : at + 1] != char:
        raise ValueError(f"expected {char!r} at character {at} of the request body")
    return _skip(text, at + 1)
