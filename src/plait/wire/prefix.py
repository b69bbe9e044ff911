"""The prefix of a request: messages are encoded once, kept, and only ever added to.

Floor: 1. Owns: the kept bytes, their digests, where cache markers go; never: what a message looks like.

Law: with cache markers removed, head and messages of a request are a byte prefix of the next request, unless
`extend` named the first message that differs.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final

from plait.core.exchange import View
from plait.core.messages import Message
from plait.core.values import dataclass
from plait.wire.profile import Encoded

MARKS_MAX: Final = 4
"""How many cache markers one request may hold, the ones in its head included."""
MARKER: Final = b',"cache_control":{"type":"ephemeral"}'
DIGEST_BYTES: Final = 16
FINGERPRINT_BYTES: Final = 12
"""A journal holds one a step."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it left: immutable, so that a side query may extend it from any thread."""

    parts: tuple[bytes, ...]
    """The body, in order."""
    digest: bytes
    """Of head and messages, without markers and without what was added for this request alone."""
    upto: int
    """How many messages of the history it held."""
    _stem: tuple[bytes, ...] = field(repr=False)
    _own: tuple[bytes, ...] = field(repr=False)
    """What was said in this request alone, and its tail."""
    _encode: Callable[[Message], Encoded] = field(repr=False)

    @property
    def body(self) -> bytes:
        """The body in one piece."""
        return b"".join(self.parts)

    @property
    def fingerprint(self) -> str:
        """Digest of the whole body, markers left out, as 16 characters of text."""
        return _fingerprint(self.digest, self._own)

    def aside(self, messages: tuple[Message, ...], tail: bytes) -> tuple[bytes, ...]:
        """Return a request that says `messages` after this one; nothing of it is remembered."""
        return (*self._stem, *_joined(self._stem, map(self._encode, messages)), tail)


class Prefix:
    """Head and messages of a conversation's requests.

    Args:
        head: the request up to where its messages begin: it ends in `[`, or in a first message.
        encode: one message to bytes; the same message always to the same bytes.
        marker: what is spliced in at a message's gap.
        marks_max: how many markers a request may hold beside those in the head.
    """

    def __init__(
        self,
        head: bytes,
        encode: Callable[[Message], Encoded],
        *,
        marker: bytes = MARKER,
        marks_max: int = MARKS_MAX,
    ) -> None:
        self._head = head
        self._encode = encode
        self._marker = marker
        self._marks_max = marks_max
        self._epoch: int | None = None
        self._messages: list[Message] = []
        self._buffer = bytearray()
        self._ends: list[int] = []
        self._gaps: list[int | None] = []
        self._digests: list[bytes] = [_digest(b"", head)]

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def head(self) -> bytes:
        """The request up to where its messages begin."""
        return self._head

    def digests(self, count: int) -> tuple[bytes, ...]:
        """Return the digests of the head, and of what it makes with each of the first `count` messages."""
        return tuple(self._digests[: count + 1])

    def extend(self, view: View) -> int | None:
        """Take the messages of a view; return the index of the first that differs from what was held, else None.

        Bound: the new messages, while the epoch is the same; all of them when it changed.
        """
        differs: int | None = None
        if view.epoch != self._epoch or view.length < len(self._messages):
            differs = self._first_difference(view)
            if differs is not None:
                self._cut(differs)
            self._epoch = view.epoch
        for index in range(len(self._messages), view.length):
            self._append(view.history[index])
        return differs

    def extends(self, sent: Sent) -> bool:
        """Say whether the next request begins with everything that `sent` held."""
        return sent.upto <= len(self._messages) and self._digests[sent.upto] == sent.digest

    def first_difference(self, digests: Sequence[bytes]) -> int | None:
        """Return the first message whose digest is not the one given; index 0 is the head, then one a message.

        Returns: 0 for the head, k for message k-1, None where all of the shorter list agree.
        """
        pairs = zip(self._digests, digests, strict=False)
        return next((index for index, (own, other) in enumerate(pairs) if own != other), None)

    def tail_marks(self, previous: Sent | None = None) -> tuple[int, ...]:
        """Return where moving markers go: the last message that takes one, and the last one of the previous request."""
        ends = [len(self._messages)] if previous is None else [previous.upto, len(self._messages)]
        marks = {mark for end in ends if (mark := self._last_gap(end)) is not None}
        return tuple(sorted(marks))

    def request(self, tail: bytes, marks: Sequence[int] = (), extra: Sequence[Message] = ()) -> Sent:
        """Return a request.

        Args:
            tail: what follows the messages.
            marks: messages that carry a cache marker; those that take none are passed over.
            extra: messages that this request ends with and that are not part of the history.

        Raises:
            ValueError: more markers than a request may hold.
        """
        kept = self._marked(marks)
        added = _joined(kept, map(self._encode, extra)) if extra else ()
        stem = (*kept, *added)
        return Sent((*stem, tail), self._digests[-1], len(self._messages), stem, (*added, tail), self._encode)

    def fingerprint(self, tail: bytes, extra: Sequence[Message] = ()) -> str:
        """Return the fingerprint of a request, without the request."""
        return _fingerprint(self._digests[-1], (*_joined((self._head, self._buffer), map(self._encode, extra)), tail))

    def _marked(self, marks: Sequence[int]) -> tuple[bytes, ...]:
        kept = bytes(self._buffer)
        gaps = sorted({gap for mark in marks if (gap := self._gaps[mark]) is not None}) if marks else ()
        if not gaps:
            return (self._head, kept)
        if len(gaps) > self._marks_max:
            raise ValueError(f"{len(gaps)} cache markers, and a request may hold {self._marks_max}")
        parts = [self._head]
        start = 0
        for gap in gaps:
            parts += (kept[start:gap], self._marker)
            start = gap
        return (*parts, kept[start:])

    def _first_difference(self, view: View) -> int | None:
        count = min(len(self._messages), view.length)
        for index in range(count):
            held, shown = self._messages[index], view.history[index]
            if held is not shown and held != shown:
                return index
        return None if len(self._messages) <= view.length else count

    def _append(self, message: Message) -> None:
        encoded = self._encode(message)
        start = len(self._buffer)
        if encoded.data:
            if start or not self._head.endswith(b"["):
                self._buffer += b","
            gap = encoded.marker_gap
            self._gaps.append(None if gap is None else len(self._buffer) + gap)
            self._buffer += encoded.data
        else:
            self._gaps.append(None)
        self._messages.append(message)
        self._ends.append(len(self._buffer))
        self._digests.append(_digest(self._digests[-1], self._buffer[start:]))

    def _cut(self, count: int) -> None:
        del self._buffer[self._ends[count - 1] if count else 0 :]
        del self._messages[count:], self._ends[count:], self._gaps[count:], self._digests[count + 1 :]

    def _last_gap(self, end: int) -> int | None:
        return next((index for index in range(end - 1, -1, -1) if self._gaps[index] is not None), None)


def _joined(before: Sequence[bytes | bytearray], encoded: Sequence[Encoded] | map[Encoded]) -> list[bytes]:
    """Return encoded messages with the commas that they need after `before`."""
    is_first = not any(before[1:]) and before[0].endswith(b"[")
    parts: list[bytes] = []
    for item in encoded:
        if item.data:
            parts.append(item.data if is_first else b"," + item.data)
            is_first = False
    return parts


def _fingerprint(digest: bytes, own: Sequence[bytes]) -> str:
    whole = hashlib.blake2b(digest, digest_size=FINGERPRINT_BYTES)
    for part in own:
        whole.update(part)
    return b2a_base64(whole.digest(), newline=False).decode("ascii")


def _digest(before: bytes, data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(before + data, digest_size=DIGEST_BYTES).digest()
