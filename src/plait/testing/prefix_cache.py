"""Counts the prompt tokens of a request and how many of them a provider would have had in its cache.

Floor: testing. Owns: the memory of earlier prompts; never: the shape in which the numbers are reported.

A token is four bytes, unless somebody says otherwise. What counts is the prompt as it was sent, byte for byte: a client
that reorders keys, changes a space or rewrites an old message loses its cache here as it would at a provider.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from plait.core.values import dataclass

BLOCK_TOKENS: Final = 128
BYTES_A_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Count:
    """The tokens of one request; `cached` and `output` are parts of the whole, never negative."""

    prompt: int
    cached: int
    output: int = 0


def tokens(size_bytes: int, bytes_a_token: int = BYTES_A_TOKEN) -> int:
    """Return how many tokens so many bytes are, rounded up."""
    return -(-size_bytes // bytes_a_token)


class PrefixCache:
    """Remembers every prompt as a chain of block digests; memory grows by 16 bytes a new block.

    Args:
        bytes_a_token: so many bytes are a token.
        block_tokens: only whole blocks of so many tokens are in the cache.
        cached_min: fewer tokens than this are never taken from it (1,024 at some providers).
    """

    def __init__(
        self, *, bytes_a_token: int = BYTES_A_TOKEN, block_tokens: int = BLOCK_TOKENS, cached_min: int = 0
    ) -> None:
        self._bytes_a_token = bytes_a_token
        self._block_tokens = block_tokens
        self._cached_min = cached_min
        self._seen: set[bytes] = set()

    def count(self, prompt: bytes) -> Count:
        """Count a prompt against the earlier ones, then remember it.

        `cached` is the longest common prefix with any earlier prompt, in whole blocks.
        """
        size = self._block_tokens * self._bytes_a_token
        digest = b""
        cached_blocks = 0
        matching = True
        for block in range(len(prompt) // size):
            piece = prompt[block * size : (block + 1) * size]
            digest = blake2b(digest + piece, digest_size=16).digest()
            matching = matching and digest in self._seen
            cached_blocks += matching
            self._seen.add(digest)
        cached = cached_blocks * self._block_tokens
        return Count(tokens(len(prompt), self._bytes_a_token), cached if cached >= self._cached_min else 0)
