"""The shapes in which servers report the same token counts.

Floor: testing. Owns: one function a shape; never: the counting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from plait.testing.prefix_cache import Count

UsageShape: TypeAlias = Callable[[Count], Mapping[str, object]]


def openai(count: Count) -> Mapping[str, object]:
    """OpenAI's own, and most gateways': `prompt_tokens_details.cached_tokens`."""
    return {
        **plain(count),
        "prompt_tokens_details": {"cached_tokens": count.cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def plain(count: Count) -> Mapping[str, object]:
    """A server that says nothing about its cache."""
    return {
        "prompt_tokens": count.prompt,
        "completion_tokens": count.output,
        "total_tokens": count.prompt + count.output,
    }


def anthropic_names(count: Count) -> Mapping[str, object]:
    """A gateway to Anthropic: `cache_read_input_tokens` and `cache_creation_input_tokens` beside the totals."""
    written = count.prompt - count.cached
    return {**plain(count), "cache_read_input_tokens": count.cached, "cache_creation_input_tokens": written}


def read_write(count: Count) -> Mapping[str, object]:
    """A gateway with short names inside the details: `cache_read_tokens`, `cache_write_tokens`."""
    details = {"cache_read_tokens": count.cached, "cache_write_tokens": count.prompt - count.cached}
    return {**plain(count), "prompt_tokens_details": details}


def deepseek(count: Count) -> Mapping[str, object]:
    """DeepSeek: `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`."""
    missed = count.prompt - count.cached
    return {**plain(count), "prompt_cache_hit_tokens": count.cached, "prompt_cache_miss_tokens": missed}


def kimi(count: Count) -> Mapping[str, object]:
    """Moonshot's Kimi: `cached_tokens` at the top."""
    return {**plain(count), "cached_tokens": count.cached}


def none(count: Count) -> Mapping[str, object]:
    """A server that reports no usage at all."""
    del count
    return {}


SHAPES: Final[Mapping[str, UsageShape]] = MappingProxyType(
    {
        "openai": openai,
        "plain": plain,
        "anthropic": anthropic_names,
        "read_write": read_write,
        "deepseek": deepseek,
        "kimi": kimi,
        "none": none,
    }
)
"""Every shape by the name a script file calls it."""
