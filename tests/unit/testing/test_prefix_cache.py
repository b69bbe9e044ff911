"""The honest count of cached tokens."""

from __future__ import annotations

from hypothesis import given, strategies as st

from plait.testing.prefix_cache import BLOCK_TOKENS, PrefixCache, tokens

BLOCK = BLOCK_TOKENS * 4
PIECES = st.lists(st.sampled_from([b"a" * BLOCK, b"b" * BLOCK, b"c" * 100, b"a" * 700]), max_size=6)


def common(one: bytes, other: bytes) -> int:
    """Return how many bytes two prompts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


@given(st.lists(PIECES, max_size=6))
def test_cached_is_the_longest_common_prefix_in_blocks(history: list[list[bytes]]) -> None:
    """What counts as cached is what a comparison with every earlier prompt finds, in whole blocks."""
    cache = PrefixCache()
    earlier: list[bytes] = []
    for pieces in history:
        prompt = b"".join(pieces)
        longest = max((common(prompt, old) for old in earlier), default=0)

        assert longest // BLOCK * BLOCK_TOKENS == cache.count(prompt).cached
        earlier.append(prompt)


def test_a_prompt_is_counted_in_tokens_of_four_bytes() -> None:
    """Prompt tokens are bytes by four, rounded up."""
    assert 251 == PrefixCache().count(b"x" * 1001).prompt
    assert (0, 1, 1, 2) == (tokens(0), tokens(1), tokens(4), tokens(5))


def test_a_change_at_the_front_costs_everything() -> None:
    """One other byte in the first block leaves nothing cached, whatever follows it."""
    cache = PrefixCache()
    cache.count(b"x" * 10 * BLOCK)

    assert 0 == cache.count(b"y" + b"x" * 10 * BLOCK).cached
    assert 10 * BLOCK_TOKENS == cache.count(b"x" * 11 * BLOCK).cached
