"""The decoder every wire shares: bytes in, fragments and at last an answer out.

Floor: 1. Owns: the way from a body to documents, and what counts when it is damaged; never: a wire's own events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from plait.core.events import Piece
from plait.core.exchange import Reply
from plait.wire.answer import Answer, join_halves, settle, to_reply
from plait.wire.body import BodyReader
from plait.wire.bounds import Bounds
from plait.wire.errors.body import is_error
from plait.wire.errors.failure import Failure
from plait.wire.profile import DecodeOptions, WireProfile, standard_loads
from plait.wire.sse import DONE, Event

_DIGITS_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LARGE_NUMBER: Final = b"0" * 19
_INDEX_DIGITS_MAX: Final = 10


class Assembler(Protocol):
    """What a wire does with its documents."""

    is_terminated: bool
    """True once a document said that nothing more follows."""

    @property
    def call_count(self) -> int:
        """How many calls have begun; it need not grow beyond what is too many."""
        ...

    @property
    def has_finish(self) -> bool:
        """True once a document said why the answer ended."""
        ...

    def take_text(self, document: object, pieces: list[Piece]) -> bool:
        """Take a document that is one piece of text and no more; return False, and do nothing, for any other."""
        ...

    def take(self, document: Mapping[str, object], pieces: list[Piece]) -> bool:
        """Take one document; add what it shows to `pieces`. Return False for a document of no known kind."""
        ...

    def close(self, pieces: list[Piece]) -> None:
        """Add to `pieces` what was held back."""
        ...

    def answer(self) -> Answer:
        """Return everything that came."""
        ...


class Decoder:
    """Decodes one answer; never raises before `finish`, whatever the bytes are.

    `done` turns true when nothing that follows can count, so that a reader can stop.
    """

    def __init__(self, assembler: Assembler, profile: WireProfile, options: DecodeOptions) -> None:
        self.done = False
        self._assembler = assembler
        self._profile = profile
        self._options = options
        self._loads = options.loads
        self._may_hold_halves = options.loads is standard_loads
        """Whether a text may end in half a character: fast parsers refuse such documents, and so tell of them."""
        self._half: Piece | None = None
        self._body = BodyReader()
        self._bounds = Bounds()
        self._failure: Failure | None = None
        self._garbled: bytes | None = None
        self._is_ended = False
        self._knows_wire = False
        self._answer: Answer | None = None

    def feed(self, data: bytes) -> list[Piece]:
        """Return what these bytes show, in order: kinds and texts."""
        pieces: list[Piece] = []
        if self.done:
            return pieces
        self._take_all(self._body.feed(data), pieces)
        if self._may_hold_halves:
            pieces = self._with_whole_characters(pieces)
        if self._body.is_spent:
            self.done = True
        return pieces

    def answer(self) -> Answer:
        """End the stream and return what it held; the same answer every time."""
        if self._answer is None:
            self._finish_body()
            answer = self._assembler.answer()
            failure = self._failure or answer.failure or self._body_failure()
            self._answer = settle(
                answer if failure is answer.failure else replace(answer, failure=failure),
                is_ended=self._is_ended or self._assembler.is_terminated,
                is_whole=self._garbled is None,
                options=self._options,
            )
        return self._answer

    @property
    def is_settled(self) -> bool:
        """True once the answer said why it ended: a connection that breaks now loses nothing but the usage."""
        return self._failure is not None or self._assembler.has_finish

    def finish(self) -> Reply:
        """End the stream and return the reply.

        Raises:
            ProviderFailed: the stream was cut, was no stream, or carried an error; `partial` holds what came.
        """
        return to_reply(self.answer(), origin=self._profile.origin)

    def close(self) -> list[Piece]:
        """End the stream; return what was held back until now, for those who show it."""
        pieces: list[Piece] = []
        self._finish_body(pieces)
        return self._with_whole_characters(pieces) if self._may_hold_halves else pieces

    def _finish_body(self, pieces: list[Piece] | None = None) -> None:
        shown: list[Piece] = [] if pieces is None else pieces
        if not self.done:
            self._take_all(self._body.finish(), shown)
            self.done = True
        self._assembler.close(shown)

    def _take_all(self, events: list[Event], pieces: list[Piece]) -> None:
        take_text, loads = self._assembler.take_text, self._loads
        for name, data in events:
            try:
                # As most streams end, which two parsers would raise over.
                document = None if data == DONE else loads(data)
            except (ValueError, RecursionError):
                document = self._parse_leniently(data)
            if self._garbled is None and name != b"error" and take_text(document, pieces):
                continue
            self._take(name, data, document, pieces)
            if self.done:
                break
        problem = self._bounds.problem_with(events, pieces, self._assembler.call_count)
        if problem and self._failure is None:
            self._fail(Failure.of("protocol", problem, retryable=False, detail="too_large"))

    def _take(self, name: bytes, data: bytes, document: object, pieces: list[Piece]) -> None:
        if self._loads is not standard_loads and _may_hold_large_number(data):
            document = _lenient_loads(data)
        if not isinstance(document, dict) and data.strip(b' "') == DONE:
            self._is_ended = self.done = True
        elif self._garbled is not None and self._body.kind != "json":
            # Something was lost in the middle: what follows cannot be joined to what came before.
            self._fail(Failure.of("protocol", "an event of the stream is not JSON", detail="garbled_event"))
        elif document is None and data.lstrip().startswith((b"{", b"[")):
            self._garbled = data
        elif name == b"error":
            self._fail(failure_in(data.decode("utf-8", "replace") if document is None else document))
        elif isinstance(document, dict):
            self._take_document(document, pieces)
        else:
            for item in document if isinstance(document, list) else ():
                self._take_document(item, pieces)

    def _take_document(self, document: object, pieces: list[Piece]) -> None:
        if self.done or not isinstance(document, dict):
            return
        self._knows_wire |= self._assembler.take(document, pieces)
        self.done = self._assembler.is_terminated
        if is_error(document):
            self._fail(failure_in(document))

    def _parse_leniently(self, data: bytes) -> object:
        """Return the document in an event that a strict parser refuses, None for what is no JSON."""
        self._may_hold_halves = True
        return _lenient_loads(data)

    def _with_whole_characters(self, pieces: list[Piece]) -> list[Piece]:
        """Hold back half a character that ends a text until its other half comes in the next one."""
        whole: list[Piece] = []
        for kind, text in pieces:
            if self._half is not None and self._half[0] == kind:
                text = join_halves(self._half[1] + text)
                self._half = None
            if text.isascii() or not "\ud800" <= text[-1:] <= "\udbff":
                whole.append((kind, text))
                continue
            self._half = (kind, text[-1])
            if len(text) > 1:
                whole.append((kind, text[:-1]))
        return whole

    def _fail(self, failure: Failure) -> None:
        self._failure = failure
        self.done = True

    def _body_failure(self) -> Failure | None:
        body = self._body
        if body.problem and not (self._is_ended or self._assembler.is_terminated):
            return Failure.of("protocol", body.problem, detail="incomplete_stream")
        is_other_json = body.kind == "json" and self._garbled is None and not self._knows_wire
        if body.is_foreign or is_other_json:
            start = self._beginning().decode("utf-8", "replace").strip()
            start = start if len(start) <= 80 else start[:79] + "…"
            what = "a web page" if body.kind == "page" else "a body that is no answer"
            return Failure.of(
                "protocol", f"the endpoint sent {what}: {start!r}", retryable=False, detail="not_event_stream"
            )
        return None

    def _beginning(self) -> bytes:
        """Return how the body begins; what came in one read with its end, and after it, is no part of that."""
        head, mark, _ = self._body.excerpt.partition(DONE)
        return head + mark if self._is_ended else self._body.excerpt


def _lenient_loads(data: bytes) -> object:
    """Return a document, or several glued together, that strict parsers refuse; None for what is no JSON."""
    from plait.wire.lenient import lenient_documents, lenient_loads  # most streams are JSON

    text = data.removeprefix(b"data:").decode("utf-8", "replace")
    document = lenient_loads(text)
    return lenient_documents(text) if document is None and text.startswith("{") else document


def _may_hold_large_number(data: bytes) -> bool:
    """Say whether a document may hold an integer that a fast parser rounds: a tool or a provider may get it back."""
    return _LARGE_NUMBER in data.translate(_DIGITS_AS_ZEROS)


def failure_in(document: object) -> Failure:
    """Return the failure that a document of a 200 answer reports."""
    from plait.wire.errors.classify import classify_document  # most streams never need the tables behind it

    return classify_document(document)


def place_of(value: object) -> int | None:
    """Return an index as a number, also one that is written as text, None for anything else."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < _INDEX_DIGITS_MAX else None
    # A fast parser makes floats of very large ones.
    return int(value) if isinstance(value, float) and value.is_integer() else None
