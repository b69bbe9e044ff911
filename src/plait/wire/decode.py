"""Decoding a captured body, as `plait wire decode` shows it.

Floor: 1. Owns: cuts, and the shape of what is printed; never: a wire's rules.
"""

from __future__ import annotations

import itertools
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plait.core.usage import Usage
from plait.wire.answer import Answer, is_runnable
from plait.wire.body import BODY_BYTES_MAX
from plait.wire.codec import codec
from plait.wire.decoder import Decoder
from plait.wire.errors.failure import Failure
from plait.wire.profile import DecodeOptions, WireProfile

_DIGITS_MAX: Final = 18
_STEP_BYTES: Final = 16 * 1024
_NUMBER: Final = re.compile(rf"[0-9]{{1,{_DIGITS_MAX}}}")


def decoder_for(profile: WireProfile, options: DecodeOptions | None = None) -> Decoder:
    """Return a fresh decoder for one answer of an endpoint with this profile."""
    return codec(profile.wire).decoder(profile, options or DecodeOptions())


def decode_body(
    body: bytes,
    profile: WireProfile,
    *,
    cuts: Sequence[int] = (),
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Decode a whole body, fed in pieces that end at `cuts` (byte offsets); the answer does not depend on them."""
    numbers = itertools.count(1)
    options = DecodeOptions(new_id=lambda: f"call_{next(numbers)}")
    decoder = decoder_for(profile, options)
    packing = _packing_of(headers or {})
    problem = ""
    if packing == "deflate":
        body, cuts = _inflate(body), ()
    elif packing:
        problem = f"the body is packed with {packing!r}, which only a client that asked for it can read"
    for piece in pieces_of(body, cuts):
        # In steps: a packed body is a thousand times as long, and the verdict may stand after its first bytes.
        for start in range(0, len(piece), _STEP_BYTES):
            if decoder.done:
                break
            decoder.feed(piece[start : start + _STEP_BYTES])
    answer = decoder.answer()
    if problem and answer.failure is not None:
        return replace(answer, failure=Failure.of("protocol", problem, retryable=False, detail="not_event_stream"))
    return answer


def pieces_of(body: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    """Yield the body in pieces that end at the cuts; cuts out of range or order are put right."""
    start = 0
    for cut in sorted(cut for cut in set(cuts) if 0 < cut < len(body)):
        yield body[start:cut]
        start = cut
    yield body[start:]


def parse_cut(text: str, size_bytes: int) -> Sequence[int]:
    """Return the offsets that `whole`, `bytes`, `random:SEED` or `N,N,…` mean for a body of this size.

    Raises:
        ValueError: the text is none of these.
    """
    if text == "whole":
        return ()
    if text == "bytes":
        return range(1, size_bytes)
    kind, _, seed = text.partition(":")
    if kind == "random" and _NUMBER.fullmatch(seed):
        dice = random.Random(seed)
        return sorted(dice.randrange(size_bytes + 1) for _ in range(dice.randint(1, 1 + size_bytes // 20)))
    numbers = text.split(",")
    if all(map(_NUMBER.fullmatch, numbers)):
        return [int(number) for number in numbers]
    shown = text if len(text) <= 40 else text[:39] + "…"
    raise ValueError(
        f"{shown!r} is no cut: use whole, bytes, random:SEED or offsets such as 10,20, "
        f"where SEED and offsets are whole numbers of at most {_DIGITS_MAX} digits"
    )


def describe_answer(answer: Answer, *, with_replay: bool = False) -> dict[str, object]:
    """Return the answer as one JSON object."""
    described: dict[str, object] = {
        "content": answer.content,
        "reasoning": answer.reasoning,
        "refusal": answer.refusal,
        "tool_calls": [
            {
                "id": call.id,
                "name": call.name,
                "arguments": call.raw,
                "valid": is_runnable(call),
                **({"type": "custom"} if call.custom else {}),
                **(call.extra or {}),
            }
            for call in answer.calls
        ],
        "finish_reason": answer.finish,
        "raw_finish_reason": answer.raw_finish,
        "usage": _describe_usage(answer.usage),
        "empty": answer.is_empty,
        "error": _describe_error(answer.failure),
    }
    if with_replay and answer.replay is not None:
        described["replay"] = answer.replay
    return described


def describe_failure(failure: Failure) -> dict[str, object]:
    """Return a failed request as one JSON object."""
    tokens = None
    if failure.tokens is not None:
        tokens = {"requested": failure.tokens[0], "limit": failure.tokens[1]}
    return {
        "class": failure.kind,
        "retryable": failure.retryable,
        "wait_s": failure.wait_s,
        "tokens": tokens,
        "code": failure.code,
        "message": failure.message,
        "advice": failure.advice,
    }


def _describe_usage(usage: Usage | None) -> dict[str, int | None] | None:
    if usage is None:
        return None
    return {
        "input": usage.input,
        "output": usage.output,
        "cached": usage.cache_read,
        "cache_write": usage.cache_write,
    }


def _describe_error(failure: Failure | None) -> dict[str, object] | None:
    if failure is None:
        return None
    kind = failure.detail if failure.detail in ("incomplete_stream", "not_event_stream") else failure.kind
    return {
        "class": failure.kind,
        "kind": kind,
        "code": failure.code,
        "message": failure.message,
        "retryable": failure.retryable,
    }


def _packing_of(headers: Mapping[str, str]) -> str:
    """Return a content encoding that the first bytes do not show."""
    packing = next((value for name, value in headers.items() if name.lower() == "content-encoding"), "")
    packing = packing.strip().lower()
    return "" if packing in ("", "identity", "gzip", "x-gzip") else packing


def _inflate(body: bytes) -> bytes:
    for bits in (15, -15):
        inflate = zlib.decompressobj(bits)
        try:
            return inflate.decompress(body, BODY_BYTES_MAX)
        except zlib.error:
            continue
    return body
