"""What requests leave out, or ask less of, because the endpoint said so.

Floor: 2. Owns: which refusals can be met by a smaller request, and what was learnt from them; never: the history.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from plait.core.exchange import ProviderFailed
from plait.core.messages import Message, assistant
from plait.wire.overflow import output_limit_in
from plait.wire.profile import WireProfile

OUTPUT_TOKENS_MIN: Final = 1_024
"""Less room for an answer than this is worth no request: the history has to shrink instead."""
_OPTIONAL: Final = ("parallel_tool_calls", "stream_options", "prompt_cache_key")
"""Members that an answer can do without."""


class Adjusting:
    """What one conversation has learnt; members that are refused are left out in all of the endpoint's."""

    def __init__(self, left_out: set[str]) -> None:
        self.output_max: int | None = None
        """Tokens that an answer may have, where the window has no room for more; until the history changes."""
        self.epoch = 0
        """The history's epoch in which that was learnt."""
        self._left_out = left_out

    def learn(self, failed: ProviderFailed, epoch: int) -> bool:
        """Take from a refusal what the next request does without; False where there is nothing to take."""
        if failed.kind in ("unsupported_feature", "bad_request"):
            refused = [name for name in _OPTIONAL if name in failed.message and name not in self._left_out]
            self._left_out.update(refused)
            return bool(refused)
        limit = output_limit_in(failed.hint) if failed.kind == "context_overflow" else None
        if limit is None or limit < OUTPUT_TOKENS_MIN or (self.output_max is not None and limit >= self.output_max):
            return False
        self.output_max, self.epoch = limit, epoch
        return True

    @property
    def is_plain(self) -> bool:
        """True as long as requests are what the conversation asks for."""
        return self.output_max is None and not self._left_out

    def takes(self, name: str) -> bool:
        """Say whether a member may be sent."""
        return name not in self._left_out

    def output_tokens(self, wanted: int | None) -> int | None:
        """Return how many tokens to ask for at most."""
        limits = [limit for limit in (wanted, self.output_max) if limit is not None]
        return min(limits, default=None)

    def wire(self, wire: WireProfile) -> WireProfile:
        """Return the wire without what is refused."""
        if not self.takes("parallel_tool_calls"):
            wire = replace(wire, parallel_tool_calls=None)
        return wire if self.takes("stream_options") else replace(wire, stream_usage=False)


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
