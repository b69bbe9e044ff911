"""The wires under one shape, for those who send requests without caring which one it is.

Floor: 1. Owns: the list of wires; never: a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from plait.core.messages import Message
from plait.core.values import dataclass
from plait.wire.decoder import Decoder
from plait.wire.encoding import ToolEntry
from plait.wire.profile import DecodeOptions, Encoded, RequestParams, WireName, WireProfile

Encoder = Callable[[Message], Encoded]
"""Encodes the messages of one conversation, in order; the same message always to the same bytes."""


class _Head(Protocol):
    def __call__(self, model: str, tools: Sequence[ToolEntry], system: str, profile: WireProfile) -> bytes: ...


class _Tail(Protocol):
    def __call__(self, params: RequestParams, profile: WireProfile, *, has_tools: bool = False) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """How to talk on one wire: a request is `head`, encoded messages joined by commas, and `tail`."""

    path: str
    """Where requests go, below the base URL."""
    head: _Head
    encoder: Callable[[WireProfile], Encoder]
    tail: _Tail
    decoder: Callable[[WireProfile, DecodeOptions], Decoder]
    head_marks: int = 0
    """Cache markers that a head holds at most; a request may hold `MARKS_MAX` with them."""


def codec(wire: WireName) -> Codec:
    """Return how to talk on a wire; the code of the others is not loaded."""
    if wire == "responses":
        from plait.wire.responses import decode as responses_decode, encode as responses_encode

        return Codec(
            path=responses_encode.PATH,
            head=responses_encode.head,
            encoder=responses_encode.ResponsesEncoder,
            tail=responses_encode.tail,
            decoder=responses_decode.ResponsesDecoder,
        )
    if wire == "anthropic":
        from plait.wire.anthropic import decode as anthropic_decode, encode as anthropic_encode

        return Codec(
            path=anthropic_encode.PATH,
            head=anthropic_encode.head,
            encoder=anthropic_encode.AnthropicEncoder,
            tail=anthropic_encode.tail,
            decoder=anthropic_decode.AnthropicDecoder,
            head_marks=anthropic_encode.HEAD_MARKS,
        )
    from plait.wire.chat import decode as chat_decode, encode as chat_encode

    return Codec(
        path=chat_encode.PATH,
        head=chat_encode.head,
        encoder=chat_encode.ChatEncoder,
        tail=chat_encode.tail,
        decoder=chat_decode.ChatDecoder,
        head_marks=chat_encode.HEAD_MARKS,
    )
