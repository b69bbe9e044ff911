"""What is reachable: the floor with orjson and a history of which each message is encoded once."""

from __future__ import annotations

from typing import Any

import orjson

from bench import floor
from bench.floor import FIRST, TOOLS, Line, noop, setup, turn

IMPORT = "import asyncio, orjson"
NOTE = "the floor with orjson; bytes of old messages are kept"
__all__ = ["IMPORT", "NOTE", "run", "setup", "stream"]

floor.loads = orjson.loads


class History:
    """A request whose messages are never encoded twice."""

    def __init__(self, model: str, messages: list[dict[str, Any]]) -> None:
        tools = orjson.dumps(TOOLS)
        options = b'"stream":true,"stream_options":{"include_usage":true}'
        self.head = b'{"model":%b,%b,"tools":%b,"messages":[' % (orjson.dumps(model), options, tools)
        self.encoded = bytearray(b",".join(map(orjson.dumps, messages)))

    def append(self, message: dict[str, Any]) -> None:
        """Add one message."""
        self.encoded += b"," + orjson.dumps(message)

    def parts(self) -> list[bytes]:
        """Return the body in parts."""
        return [self.head, bytes(self.encoded), b"]}"]


async def run(base_url: str, model: str) -> str:
    """Hold one conversation to its end; return its last words."""
    line = Line(base_url)
    history = History(model, FIRST)
    while True:
        message = await turn(line, history.parts())
        history.append(message)
        if "tool_calls" not in message:
            line.close()
            return str(message["content"])
        for call in message["tool_calls"]:
            result = noop(**orjson.loads(call["function"]["arguments"]))
            history.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def stream(base_url: str, model: str) -> int:
    """Read one streamed answer through a callback; return how many deltas came."""
    seen: list[str] = []
    line = Line(base_url)
    await turn(line, History(model, FIRST[1:]).parts(), seen.append)
    line.close()
    return len(seen)
