"""The floor: the least an agent loop can be, on asyncio's own streams.

A hand-written HTTP/1.1 client, one kept connection a conversation, streaming, the standard library's `json`, and a
history that is serialised again for every request. Nothing is checked, retried, recorded or rendered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

IMPORT = "import asyncio, json"
NOTE = "asyncio streams by hand, stdlib json, whole history serialised for every request"

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "noop",
            "description": "Does nothing.",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        },
    }
]
FIRST = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "go"}]

loads: Callable[[bytes | str], Any] = json.loads


def noop(x: str) -> str:
    """Do nothing."""
    return "ok " + x


def setup(base_url: str) -> str:
    """Return what a conversation needs."""
    return base_url


class Line:
    """One kept connection."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self.host, self.port = parts.hostname, parts.port
        self.head = (
            f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer x\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def events(self, parts: Sequence[bytes]) -> AsyncIterator[list[bytes]]:
        """Send one body, given in parts; yield the events in the order they come, those of one read together."""
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=1 << 20)
        self.writer.writelines([self.head + b"%d\r\n\r\n" % sum(map(len, parts)), *parts])
        await self.reader.readuntil(b"\r\n\r\n")
        buffer = bytearray()
        ended = False
        while not ended:
            data = await self.reader.read(1 << 18)
            if not data:
                raise EOFError("the server closed the connection")
            buffer += data
            events, ended = self._cut(buffer)
            if events:
                yield events

    def close(self) -> None:
        """Let go."""
        if self.writer is not None:
            self.writer.close()

    @staticmethod
    def _cut(buffer: bytearray) -> tuple[list[bytes], bool]:
        events: list[bytes] = []
        at = 0
        ended = False
        while (line_end := buffer.find(b"\r\n", at)) >= 0:
            size = int(buffer[at:line_end], 16)
            if len(buffer) < line_end + 4 + size:
                break
            at = line_end + 4 + size
            if size == 0:
                ended = True
                break
            events.append(bytes(buffer[line_end + 2 : line_end + 2 + size]))
        del buffer[:at]
        return events, ended


async def turn(line: Line, parts: Sequence[bytes], on_text: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Make one request; return the assistant's message."""
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    async for events in line.events(parts):
        for event in events:
            if event.startswith(b"data: [DONE]"):
                continue
            for choice in loads(event[6:])["choices"]:
                delta = choice["delta"]
                if delta.get("content"):
                    text.append(delta["content"])
                    if on_text is not None:
                        on_text(delta["content"])
                for fragment in delta.get("tool_calls") or ():
                    call = calls.setdefault(fragment["index"], {"type": "function", "function": {"arguments": ""}})
                    call["id"] = fragment.get("id") or call["id"]
                    call["function"]["name"] = fragment["function"].get("name") or call["function"]["name"]
                    call["function"]["arguments"] += fragment["function"].get("arguments", "")
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or None}
    return {**message, "tool_calls": list(calls.values())} if calls else message


def body(model: str, messages: list[dict[str, Any]]) -> list[bytes]:
    """Serialise a request."""
    request = {
        "model": model,
        "messages": messages,
        "tools": TOOLS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return [json.dumps(request, separators=(",", ":")).encode()]


async def run(base_url: str, model: str) -> str:
    """Hold one conversation to its end; return its last words."""
    line = Line(base_url)
    messages: list[dict[str, Any]] = list(FIRST)
    while True:
        message = await turn(line, body(model, messages))
        messages.append(message)
        if "tool_calls" not in message:
            line.close()
            return str(message["content"])
        for call in message["tool_calls"]:
            result = noop(**loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def stream(base_url: str, model: str) -> int:
    """Read one streamed answer through a callback; return how many deltas came."""
    seen: list[str] = []
    line = Line(base_url)
    await turn(line, body(model, FIRST[1:]), seen.append)
    line.close()
    return len(seen)
