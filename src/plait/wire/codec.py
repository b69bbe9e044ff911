"""The wires under one shape, for those who send requests without caring which one it is.

Floor: 1. Owns: the list of wires; never: a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from plait.core.messages import Message
from plait.wire import chat_decode, chat_encode
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


_CHAT = Codec(chat_encode.PATH, chat_encode.head, chat_encode.ChatEncoder, chat_encode.tail, chat_decode.ChatDecoder)


def codec(wire: WireName) -> Codec:
    """Return how to talk on a wire."""
    return {"chat": _CHAT}[wire]
