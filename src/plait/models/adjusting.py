"""What requests leave out, ask less of, or say again, because the endpoint said so.

Floor: 2. Owns: which refusals can be met by another form of the same request, and what was learnt from them; never:
the history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from plait.core.exchange import ProviderFailed, ToolSchema
from plait.core.messages import Message, assistant
from plait.wire.profile import WireProfile

_TOOL: Final = re.compile(r"\btools(?:\[|\.)(\d{1,6})\b")
_DECLARATION: Final = re.compile(r"\bfunction_declarations\[(\d{1,6})\]")
OUTPUT_TOKENS_MIN: Final = 1_024
"""Less room for an answer than this is worth no request: the history has to shrink instead."""
_OPTIONAL: Final = ("parallel_tool_calls", "stream_options", "prompt_cache_key")
"""Members that an answer can do without."""
_ECHO: Final = "echo"
"""Learnt of an endpoint that wants the reasoning of its answers back."""


class Adjusting:
    """What one conversation has learnt.

    Args:
        learnt: what holds for all of the endpoint's conversations: members that it refuses, and `echo`.
    """

    def __init__(self, learnt: set[str]) -> None:
        self.output_max: int | None = None
        """Tokens that an answer may have, where the window has no room for more; until the history changes."""
        self.epoch = 0
        """The history's epoch in which that was learnt."""
        self._learnt = learnt

    def learn(self, failed: ProviderFailed, epoch: int) -> bool:
        """Take from a refusal what the next request does otherwise; False where there is nothing to take."""
        if failed.kind in ("unsupported_feature", "bad_request", "invalid_history"):
            is_history = failed.kind == "invalid_history"
            named = [_ECHO] if is_history and "reasoning_content" in failed.message else []
            named += [] if is_history else [name for name in _OPTIONAL if name in failed.message]
            new = set(named) - self._learnt
            self._learnt.update(new)
            return bool(new)
        limit = _output_limit_in(failed.hint) if failed.kind == "context_overflow" else None
        if limit is None or limit < OUTPUT_TOKENS_MIN or (self.output_max is not None and limit >= self.output_max):
            return False
        self.output_max, self.epoch = limit, epoch
        return True

    @property
    def is_plain(self) -> bool:
        """True as long as requests are what the conversation asks for."""
        return self.output_max is None and not self._learnt

    def takes(self, name: str) -> bool:
        """Say whether a member may be sent."""
        return name not in self._learnt

    def output_tokens(self, wanted: int | None) -> int | None:
        """Return how many tokens to ask for at most."""
        limits = [limit for limit in (wanted, self.output_max) if limit is not None]
        return min(limits, default=None)

    def wire(self, wire: WireProfile) -> WireProfile:
        """Return the wire as the endpoint wants it."""
        if _ECHO in self._learnt:
            wire = replace(wire, reasoning_echo="always")
        if not self.takes("parallel_tool_calls"):
            wire = replace(wire, parallel_tool_calls=None)
        return wire if self.takes("stream_options") else replace(wire, stream_usage=False)


def _output_limit_in(hint: str) -> int | None:
    from plait.wire.overflow import output_limit_in  # many patterns, for what few conversations ever hear

    return output_limit_in(hint)


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
