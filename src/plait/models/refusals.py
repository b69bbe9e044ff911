"""What an error says of the request that it refuses: which tool it means, and which words of the model's it repeats.

Floor: 2. Owns: reading these out of an error; never: its class (`wire.errors.classify`), and what is done about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from plait.core.exchange import ProviderFailed, ToolSchema
from plait.core.messages import Message, assistant

_TOOL: Final = re.compile(r"\btools(?:\[|\.)(\d{1,6})\b")
_DECLARATION: Final = re.compile(r"\bfunction_declarations\[(\d{1,6})\]")


def tool_named_in(message: str, tools: Sequence[ToolSchema]) -> str:
    """Return the name of the tool that an error speaks of by its number, nothing where it does not."""
    match = _DECLARATION.search(message) or _TOOL.search(message)
    index = int(match[1]) if match else len(tools)
    return tools[index].name if index < len(tools) else ""


def refused_generation(body: bytes) -> Message | None:
    """Return what a model said that its own server could not read, where an error, or an error event, repeats it."""
    if b'"failed_generation"' not in body:
        return None
    for text in (body, *body.splitlines()):
        try:
            document = json.loads(text.removeprefix(b"data:"))
        except (ValueError, RecursionError):
            continue
        error = document.get("error") if isinstance(document, dict) else None
        said = error.get("failed_generation") if isinstance(error, dict) else None
        if isinstance(said, str) and said.strip():
            return assistant(said)
    return None


def redirected(status: int, location: str) -> ProviderFailed:
    """Return what it means that an endpoint sends its callers elsewhere: a key goes nowhere on a server's word."""
    return ProviderFailed(
        "protocol",
        f"the endpoint sends its callers on to {location!r}"
        if location
        else "the endpoint sends its callers elsewhere",
        status=status,
        retryable=False,
        phase="headers",
        detail="redirect",
        hint="use that address as the endpoint, if it is the API you mean",
    )
