"""Broken bodies of every kind are decoded to something, or fail in the one way there is, wherever reads end."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from plait.core.exchange import ProviderFailed
from plait.wire.answer import to_reply
from plait.wire.classify import classify
from plait.wire.codec import codec
from plait.wire.decode import decoder_for, describe_answer, pieces_of
from plait.wire.failure import ADVICE
from plait.wire.profile import DecodeOptions, WireName, WireProfile, standard_loads
from tests.unit.wire.mutations import broken_body

WIRES: tuple[WireName, ...] = ("chat", "responses", "anthropic")
SHARDS = 25


def check(dice: random.Random, wire: WireName) -> None:
    """Decode a broken body whole and in pieces: the same answer, that can be printed, stored and sent again."""
    body = broken_body(dice, wire)
    think: Any = dice.choice(["off", "inline", "prefilled"])
    calls: Any = dice.choice(["structured", "structured", "inline"])
    profile = WireProfile(wire=wire, think=think, calls=calls, origin="here", reasoning_echo="always")
    cuts = [dice.randrange(len(body) + 1) for _ in range(dice.randint(1, 20))]
    whole = outcome(body, profile, (), standard_loads)
    assert whole == outcome(body, profile, cuts, standard_loads), body
    assert whole == outcome(body, profile, cuts, orjson.loads), body


def outcome(body: bytes, profile: WireProfile, cuts: Any, loads: Any) -> str:
    decoder = decoder_for(profile, DecodeOptions(loads=loads, new_id=lambda: "new"))
    for piece in pieces_of(body, cuts):
        decoder.feed(piece)
    answer = decoder.answer()
    try:
        message = to_reply(answer, origin=profile.origin).message
    except ProviderFailed as failed:
        message = failed.partial
    if message is not None:
        json.loads(b"[" + codec(profile.wire).encoder(profile)(message).data + b"]")
    return json.dumps(describe_answer(answer, with_replay=True))


@pytest.mark.parametrize("wire", WIRES)
def test_broken_bodies(wire: WireName) -> None:
    """A few hundred broken bodies of every wire are decoded without a surprise."""
    for seed in range(150):
        check(random.Random(f"{wire}{seed}"), wire)


def test_broken_bodies_are_classified() -> None:
    """A few hundred broken bodies under any status have a class, advice and a message."""
    for seed in range(150):
        check_classifier(random.Random(seed))


def check_classifier(dice: random.Random) -> None:
    body = broken_body(dice, dice.choice(WIRES))[: dice.choice([40, 400, 4000])]
    headers = {
        dice.choice(["retry-after", "x-ratelimit-reset", "date"]): dice.choice(["1", "6m0s", "x", "-1", "9" * 400])
    }
    failure = classify(dice.choice([200, 400, 404, 429, 500, 529]), headers, body, now_s=0.0)
    assert failure.kind in ADVICE
    assert failure.message
    assert failure.wait_s is None or 0 <= failure.wait_s < float("inf")


@pytest.mark.prove
@pytest.mark.parametrize("shard", range(SHARDS))
def test_broken_bodies_at_length(shard: int) -> None:
    """A million broken bodies in shards: no exception but the one there is, and no answer that depends on cuts."""
    dice = random.Random(f"shard {shard}")
    for _ in range(1_000_000 // SHARDS // 4):
        for wire in WIRES:
            check(dice, wire)
        check_classifier(dice)
