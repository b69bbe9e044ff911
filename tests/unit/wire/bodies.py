"""Bodies as servers with habits of their own send them, made from the documents in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DONE = b"data: [DONE]\n\n"


def event(document: object, name: str = "") -> bytes:
    """One event; a text is its data as it is."""
    data = document if isinstance(document, str) else json.dumps(document)
    return f"{f'event: {name}' if name else ':'}\ndata: {data}\n\n".encode()


def chunk(finish: str | None = None, **delta: object) -> bytes:
    """One chunk of a chat stream."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage(**counts: object) -> bytes:
    """The chunk that reports tokens."""
    return event({"choices": [], "usage": counts})


def call(index: object = None, id: str | None = None, name: str | None = None, arguments: object = None) -> Any:
    """One fragment of one call; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    members = {"index": index, "id": id, "function": {key: item for key, item in function.items() if item is not None}}
    return {key: item for key, item in members.items() if item is not None}


def calls(*fragments: object, finish: str | None = None) -> bytes:
    """One chunk with fragments of calls."""
    return chunk(finish, tool_calls=list(fragments))


def typed(kind: str, **members: object) -> bytes:
    """One event that names its type twice."""
    return event({"type": kind, **members}, kind)


def block(index: int, start: Mapping[str, object], *deltas: Mapping[str, object]) -> bytes:
    """One content block of an Anthropic stream, from its start to its stop."""
    events = [typed("content_block_start", index=index, content_block=start)]
    events += [typed("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*events, typed("content_block_stop", index=index)])


def response(kind: str, status: str, *output: object, **members: object) -> bytes:
    """The event that ends a Responses stream."""
    body = {"id": "r", "status": status, "output": list(output), "error": None, "incomplete_details": None, **members}
    return typed(kind, response=body)
