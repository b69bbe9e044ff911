"""Counts the prompt tokens of a request and how many of them a provider would have had in its cache.

Floor: testing. Owns: the memory of earlier prompts; never: the shape in which the numbers are reported.

A token is four bytes. What counts is the prompt as it was sent, byte for byte: a client that reorders keys, changes a
space or rewrites an old message loses its cache here as it would at a provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

BLOCK_TOKENS: Final = 128
BYTES_A_TOKEN: Final = 4
_BLOCK_BYTES: Final = BLOCK_TOKENS * BYTES_A_TOKEN


@dataclass(frozen=True, slots=True)
class Count:
    """The tokens of one request; `cached` and `output` are parts of the whole, never negative."""

    prompt: int
    cached: int
    output: int = 0


def tokens(size_bytes: int) -> int:
    """Return how many tokens so many bytes are, rounded up."""
    return -(-size_bytes // BYTES_A_TOKEN)


class PrefixCache:
    """Remembers every prompt as a chain of block digests; memory grows by 16 bytes a new block."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def count(self, prompt: bytes) -> Count:
        """Count a prompt against the earlier ones, then remember it.

        `cached` is the longest common prefix with any earlier prompt, in whole blocks of 128 tokens.
        """
        digest = b""
        cached_blocks = 0
        matching = True
        for block in range(len(prompt) // _BLOCK_BYTES):
            piece = prompt[block * _BLOCK_BYTES : (block + 1) * _BLOCK_BYTES]
            digest = blake2b(digest + piece, digest_size=16).digest()
            matching = matching and digest in self._seen
            cached_blocks += matching
            self._seen.add(digest)
        return Count(prompt=tokens(len(prompt)), cached=cached_blocks * BLOCK_TOKENS)
