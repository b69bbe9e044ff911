"""Reading what a tool gave back."""

from __future__ import annotations

import json

from plait.core.messages import ToolResult
from plait.tools.answer import Answer, Reply


def done(reply: Reply) -> Answer:
    """Return an answer that is no refusal."""
    assert not isinstance(reply, ToolResult), reply.content
    return reply


def refusal(reply: Reply) -> ToolResult:
    """Return a reply that is a refusal, after the checks that hold for each of them."""
    assert isinstance(reply, ToolResult), reply
    assert reply.is_error
    assert reply.data is not None
    assert reply.data["ok"] is False
    assert reply.data["error"]
    assert reply.content.startswith("ERROR: ")
    json.dumps(reply.data)
    return reply


def code_of(reply: Reply) -> str:
    """Return the code of a refusal, or `ok`."""
    return str((refusal(reply).data or {})["code"]) if isinstance(reply, ToolResult) else "ok"


def text_of(reply: Reply) -> str:
    """Return what a model reads."""
    return reply.content if isinstance(reply, ToolResult) else reply[0]
