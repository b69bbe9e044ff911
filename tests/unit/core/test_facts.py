"""The vocabulary of what is remembered."""

from __future__ import annotations

import pytest

from plait.core.codec import decode_fact, encode_fact
from plait.core.facts import OBSERVATIONS, Observation, RoundClosed, ToolEnd, ToolStart, is_observation
from plait.core.messages import ToolCall, ToolResult
from plait.core.side_calls import as_own_call, side_call_of, side_call_told


def test_an_observation_has_a_known_type() -> None:
    """A type that no reader would accept is refused before it can reach a log."""
    with pytest.raises(ValueError, match="'turn_start'"):
        Observation("turn_start")
    with pytest.raises(ValueError, match="x_"):
        Observation("metrics")


def test_applications_have_types_of_their_own() -> None:
    """The documented types and everything that begins with `x_` are observations."""
    assert {} == Observation("x_metrics").data
    assert all(is_observation(name) for name in (*OBSERVATIONS, "x_"))
    assert not is_observation("message")


CALL = ToolCall("c1", "apply_patch", "*** Begin Patch", custom=True)


@pytest.mark.parametrize(
    "fact",
    [
        ToolStart("c1", intent={"after": "x"}),
        ToolEnd(ToolResult("c1", "done", data={"ok": True})),
        ToolEnd(ToolResult("c1", status="denied")),
    ],
)
def test_a_call_beside_the_conversation_reads_back_as_it_was_told(fact: ToolStart | ToolEnd) -> None:
    """What a program's call comes to is an observation that holds the call and its whole fact."""
    told = side_call_told(CALL, fact)

    assert told is not None
    assert (CALL, fact) == side_call_of(decode_fact(*encode_fact(told)))
    assert fact == as_own_call(told)


def test_any_other_fact_is_no_call_beside_the_conversation() -> None:
    """Facts of the conversation are passed on, and what nobody told so is another observation."""
    odd = Observation("side_call", {"tool_end": {"call_id": 7}})

    assert None is side_call_told(CALL, RoundClosed(0))
    assert (None, odd, RoundClosed(0)) == (side_call_of(odd), as_own_call(odd), as_own_call(RoundClosed(0)))
