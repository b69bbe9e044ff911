"""P-APR-3: a signed approval lets exactly one call run, and whatever differs from it by a bit lets nothing run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.messages import ToolCall
from plait.engine.approval_signature import ApprovalRequest, KeyRing, input_digest, why_not

KEYS = (b"k" * 32, b"older" * 8)
RING = KeyRing(KEYS)
TEXTS = [each.name for each in fields(ApprovalRequest) if each.name not in ("expires_at_ms", "signature")]


def request_for(call: ToolCall, expires_at_ms: int | None = None) -> ApprovalRequest:
    """Return an unsigned request about a call."""
    return ApprovalRequest("a1", "conv", "run", call.id, call.name, input_digest(call), "p1", expires_at_ms)


def of(texts: Sequence[str]) -> ApprovalRequest:
    """Return a request with these texts in its fields."""
    fields_of: dict[str, Any] = dict(zip(TEXTS, texts, strict=True))
    return ApprovalRequest(**fields_of)


CALLS = st.builds(
    ToolCall, st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8), st.text(max_size=30), st.booleans()
)


@given(CALLS, st.integers(0, 2**53) | st.none())
def test_a_signed_request_allows_its_call_until_it_expires(call: ToolCall, expires: int | None) -> None:
    """It survives being kept as JSON; from the moment it expires on it allows nothing."""
    signed = ApprovalRequest.from_dict(RING.signed(request_for(call, expires)).to_dict())
    assert "" == why_not(signed, call, RING, now_ms=-1)
    if expires is not None:
        assert "" == why_not(signed, call, RING, now_ms=expires - 1)
        assert "expired" in why_not(signed, call, RING, now_ms=expires)


@given(CALLS, st.data())
def test_one_bit_of_the_request_changed_allows_nothing(call: ToolCall, data: st.DataObject) -> None:
    """Any bit of any signed field, of the signature, of the call's id, tool or arguments."""
    signed = RING.signed(request_for(call, 1_000))
    name = data.draw(st.sampled_from([*TEXTS, "signature", "expires_at_ms"]))
    if name == "expires_at_ms":
        changed = replace(signed, expires_at_ms=1_000 ^ (1 << data.draw(st.integers(0, 40))))
    else:
        raw = bytearray(getattr(signed, name).encode("utf-8", "surrogatepass"))
        bit = data.draw(st.integers(0, 8 * len(raw) - 1))
        raw[bit // 8] ^= 1 << (bit % 8)
        changed = replace(signed, **{name: bytes(raw).decode("utf-8", "surrogateescape")})
    assert why_not(changed, call, RING, now_ms=0)
    assert not RING.vouches_for(changed)

    part = data.draw(st.sampled_from(["id", "name", "raw"]))
    text = getattr(call, part)
    at = data.draw(st.integers(0, len(text)))
    other = replace(call, **{part: text[:at] + chr(ord(text[at : at + 1] or "a") ^ 1) + text[at + 1 :]})
    assert why_not(signed, other, RING, now_ms=0)
    assert why_not(signed, replace(call, custom=not call.custom), RING, now_ms=0)


@given(st.lists(st.text(max_size=6), min_size=len(TEXTS), max_size=len(TEXTS)), st.data())
def test_fields_cannot_be_moved_into_each_other(texts: list[str], data: st.DataObject) -> None:
    """Two requests with the same letters in other fields have other signatures: what is signed is unambiguous."""
    first = of(texts)
    second = of(data.draw(st.permutations(texts)))
    joined = of([texts[0] + texts[1], "", *texts[2:]])
    for other in (second, joined):
        assert (first == other) == (RING.signed(first).signature == RING.signed(other).signature)


def test_a_key_can_be_changed() -> None:
    """The first key signs; what an older one has signed counts while it is in the ring, and a stranger's never."""
    call = ToolCall("c", "t", "{}")
    old = KeyRing(KEYS[1:]).signed(request_for(call))
    new = RING.signed(request_for(call))
    assert (True, True, False, True) == (
        RING.vouches_for(old),
        RING.vouches_for(new),
        KeyRing(KEYS[1:]).vouches_for(new),
        KeyRing(KEYS[:1]).vouches_for(new),
    )
    assert not KeyRing([b"x" * 16]).vouches_for(new)
    assert not RING.vouches_for(request_for(call))
    assert "KeyRing(2 keys)" == repr(RING)


@pytest.mark.parametrize("keys", [[], [b""], [b"short"], [b"k" * 32, b"short"]])
def test_a_ring_without_a_proper_key_is_none(keys: list[bytes]) -> None:
    """A key that can be guessed signs nothing."""
    with pytest.raises(ValueError, match="key"):
        KeyRing(keys)


@pytest.mark.parametrize(
    "change", [{"tool": 1}, {"extra": ""}, {"expires_at_ms": "1"}, {"expires_at_ms": True}, {"run_id": None}]
)
def test_what_is_no_request_is_not_read(change: dict[str, object]) -> None:
    """A record of another form is an error, and never a request with gaps."""
    told = request_for(ToolCall("c", "t", "{}")).to_dict() | change
    with pytest.raises(ValueError, match="no approval request"):
        ApprovalRequest.from_dict(told)
