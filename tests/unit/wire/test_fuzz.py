"""Broken bodies of every kind are decoded to something, or fail in the one way there is, wherever reads end.

`make prove` sets size, part, time and seed; a failure prints what makes it again.
"""

from __future__ import annotations

import json
import random
import resource
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
import pytest

from plait.core.exchange import ProviderFailed
from plait.core.messages import Message
from plait.models.http.http1 import BrokenOff, NotHttp, ResponseParser
from plait.models.http.unpack import unpacker
from plait.wire.answer import to_reply
from plait.wire.codec import codec
from plait.wire.decode import decoder_for, describe_answer, pieces_of
from plait.wire.errors.body import read_error
from plait.wire.errors.classify import classify, classify_document
from plait.wire.errors.failure import ADVICE
from plait.wire.errors.waits import parse_wait, wait_of
from plait.wire.profile import DecodeOptions, WireName, WireProfile, standard_loads
from plait.wire.sse import SseParser
from tests.helpers.campaigns import Campaign
from tests.unit.wire.mutations import broken_body, broken_error, broken_header, broken_response

WIRES: Final[tuple[WireName, ...]] = ("chat", "responses", "anthropic")
INPUTS: Final = 1_000_000
"""Broken inputs of the whole campaign, shared evenly among the targets."""
SLOW_S: Final = 1.0
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024


def decodes(dice: random.Random, wire: WireName) -> None:
    """Decode a broken body whole and in pieces: the same answer, that can be printed, stored and sent again."""
    body = broken_body(dice, wire)
    think: Any = dice.choice(["off", "inline", "prefilled"])
    calls: Any = dice.choice(["structured", "structured", "inline"])
    profile = WireProfile(wire=wire, think=think, calls=calls, origin="here", reasoning_echo="always")
    cuts = cuts_of(dice, body)
    whole = outcome(body, profile, (), standard_loads)
    assert whole == outcome(body, profile, cuts, standard_loads), body
    assert whole == outcome(body, profile, cuts, orjson.loads), body


def outcome(body: bytes, profile: WireProfile, cuts: Any, loads: Any) -> str:
    """Return what a body came to as text, after its message was made part of a request."""
    decoder = decoder_for(profile, DecodeOptions(loads=loads, new_id=lambda: "new"))
    for piece in pieces_of(body, cuts):
        decoder.feed(piece)
    answer = decoder.answer()
    message: Message | None
    try:
        message = to_reply(answer, origin=profile.origin).message
    except ProviderFailed as failed:
        message = failed.partial
    if message is not None:
        json.loads(b"[" + codec(profile.wire).encoder(profile)(message).data + b"]")
    return json.dumps(describe_answer(answer, with_replay=True))


def splits(dice: random.Random) -> None:
    """Split a broken body into events, whole, in pieces and byte by byte: the same events."""
    body = broken_body(dice, dice.choice(WIRES))
    whole = events_of(body, ())
    assert whole == events_of(body, cuts_of(dice, body)), body
    assert whole == events_of(body, range(1, len(body))), body


def events_of(body: bytes, cuts: Any) -> tuple[list[tuple[bytes, bytes]], bool, bool]:
    """Return the events of a body, and the two things that a parser says about it."""
    parser = SseParser(size_bytes_max=4_096)
    events = [event for piece in pieces_of(body, cuts) for event in parser.feed(piece)]
    events += parser.finish()
    return ([] if parser.too_large else events), parser.is_stream, parser.too_large


def classifies(dice: random.Random) -> None:
    """Classify a broken error under any status: a class, advice, a message, and a wait that can be waited."""
    body, headers = broken_error(dice), dict(broken_header(dice) for _ in range(dice.randrange(4)))
    window = dice.choice([None, 0, 8_000])
    failure = classify(dice.choice(STATUSES), headers, body, prompt_tokens=window, window=window, now_s=0.0)
    assert failure.kind in ADVICE
    assert failure.message
    assert failure.wait_s is None or 0 <= failure.wait_s < float("inf")
    failure.to_exception(status=500)


def reads_errors(dice: random.Random) -> None:
    """Read an error object of a stream: what is found is short, and is classified as well."""
    try:
        document = json.loads(broken_error(dice))
    except (ValueError, RecursionError):
        document = dice.choice([None, [], {"error": None}, {"error": {"message": {}}}])
    error = read_error(document)
    assert len(error.message) <= 2_000
    assert classify_document(document).kind in ADVICE


def waits(dice: random.Random) -> None:
    """Read a broken statement of a wait, from a header and from words: nothing, or seconds that can be waited."""
    name, value = broken_header(dice)
    for wait_s in (
        parse_wait(value, dice.choice([None, 0.0, 1.7e9])),
        wait_of({name: value}, read_error({"message": f"please try again in {value}"}), now_s=dice.choice([None, 0.0])),
    ):
        assert wait_s is None or wait_s >= 0


def receives(dice: random.Random) -> None:
    """Take a broken HTTP answer apart and unpack it: the same body wherever reads end, or one of the typed failures."""
    response = broken_response(dice)
    whole = body_of(response, ())
    assert whole == body_of(response, cuts_of(dice, response)), response
    assert whole == body_of(response, range(1, len(response))), response


def body_of(response: bytes, cuts: Any) -> tuple[object, ...]:
    """Return status, body and problem of an HTTP answer."""
    parser = ResponseParser("POST")
    body = bytearray()
    problem = ""
    try:
        for piece in pieces_of(response, cuts):
            body += parser.feed(piece)
            if parser.is_over:
                break
        else:
            parser.end()
    except (BrokenOff, NotHttp) as broken:
        problem = type(broken).__name__
    head = parser.head
    if head is None or problem == "NotHttp":
        return (problem,)  # how much of the body came before what is no HTTP depends on the reads
    unpacked = bytearray()
    try:
        unpack = unpacker(head.headers.get("content-encoding", ""), "http://127.0.0.1/")
        for piece in unpack(bytes(body)) if unpack is not None else ():
            unpacked += piece
    except ProviderFailed as failed:
        problem = failed.detail
    return head.status, bytes(body), bytes(unpacked), problem


def cuts_of(dice: random.Random, body: bytes) -> list[int]:
    """Return up to twenty places at which reads end."""
    return [dice.randrange(len(body) + 1) for _ in range(dice.randint(1, 20))]


STATUSES: Final = (200, 204, 301, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 504, 529, 999)
TARGETS: Final[Mapping[str, Callable[[random.Random], None]]] = {
    "chat": lambda dice: decodes(dice, "chat"),
    "responses": lambda dice: decodes(dice, "responses"),
    "anthropic": lambda dice: decodes(dice, "anthropic"),
    "sse": splits,
    "http": receives,
    "classify": classifies,
    "error_body": reads_errors,
    "waits": waits,
}


@pytest.mark.parametrize("target", TARGETS)
def test_broken_inputs(target: str, campaign: Campaign) -> None:
    """No exception but the typed one, no answer that depends on cuts, none that takes long or keeps memory."""
    if campaign.seconds is not None:
        campaign.seconds /= 2  # a module's time is given out for fewer tests than there are here
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for seed in campaign.seeds(fast=150, full=INPUTS // len(TARGETS)):
        began_s = time.process_time()
        TARGETS[target](random.Random(f"{target} {seed}"))
        # Own time of the processor, so that a busy machine is not taken for a slow parser.
        assert time.process_time() - began_s < SLOW_S, f"{target} {seed}"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < GROWTH_BYTES_MAX
