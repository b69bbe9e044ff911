"""What a server counts of its requests, and what it sends no answer to: its tokens, its cache, its window.

Floor: testing. Owns: the numbers and the log of them; never: the words of a refusal (`dialects`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from plait.core.values import dataclass
from plait.testing.prefix_cache import BLOCK_TOKENS, BYTES_A_TOKEN, Count, PrefixCache, tokens

_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""How the three APIs call the tokens that an answer may have."""


@dataclass(frozen=True, slots=True)
class Billed:
    """What a server counted of one request that it answered."""

    number: int
    """Of the request, from 1."""
    count: Count


@dataclass(frozen=True, slots=True)
class Overflow:
    """Why a request does not fit: its prompt, what its answer may have, and the window, in tokens."""

    prompt: int
    output_max: int
    """0: the request does not say, and only its prompt counts."""
    window: int


class Meter:
    """Counts as a provider does: every prompt in tokens, what of it was in the cache, and what does not fit.

    Args:
        window: tokens that a prompt and the answer it asks for may have together; what is larger is refused with the
            API's own error and takes no step of the script. None refuses nothing.
        bytes_a_token, block_tokens, cached_min: as in `PrefixCache`.
    """

    def __init__(
        self,
        *,
        window: int | None = None,
        bytes_a_token: int = BYTES_A_TOKEN,
        block_tokens: int = BLOCK_TOKENS,
        cached_min: int = 0,
    ) -> None:
        self.window = window
        self.bytes_a_token = bytes_a_token
        self._cache = PrefixCache(bytes_a_token=bytes_a_token, block_tokens=block_tokens, cached_min=cached_min)
        self._billed: list[Billed] = []
        self._refused: list[int] = []

    @property
    def billed(self) -> tuple[Billed, ...]:
        """What was counted of each request that was answered, in the order of the answers."""
        return tuple(self._billed)

    @property
    def refused(self) -> tuple[int, ...]:
        """The numbers of the requests that did not fit."""
        return tuple(self._refused)

    def overflow(self, number: int, prompt: bytes, body: dict[str, Any]) -> Overflow | None:
        """Say whether a request is larger than the window, and note that."""
        if self.window is None:
            return None
        output_max = next((body[name] for name in _LIMITS if isinstance(body.get(name), int)), 0)
        size = tokens(len(prompt), self.bytes_a_token)
        if size + output_max <= self.window:
            return None
        self._refused.append(number)
        return Overflow(size, output_max, self.window)

    def count(self, number: int, prompt: bytes, output_bytes: int | None = None) -> Count:
        """Count a request that is answered; without `output_bytes` it is only remembered, and nobody pays for it."""
        count = self._cache.count(prompt)
        if output_bytes is None:
            return count
        count = replace(count, output=max(1, tokens(output_bytes, self.bytes_a_token)))
        self._billed.append(Billed(number, count))
        return count
