"""Tool calls that a program makes beside the conversation, as observations in its log.

Floor: 0. Owns: how the start and the end of such a call are recorded, and read back; never: running one.

They are no part of the history: the model has not asked for them and is not shown them. The records hold what those of
the model's own calls hold, so that whoever follows calls follows these as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from plait.core.codec import FactInvalid, decode_fact, encode_fact
from plait.core.facts import SIDE_CALL, Fact, Observation, ToolEnd, ToolStart
from plait.core.messages import ToolCall

_STARTED: Final = "tool_start"
_ENDED: Final = "tool_end"


def side_call_told(call: ToolCall, fact: Fact) -> Observation | None:
    """Return what is recorded of a fact about a call beside the conversation; None where nothing is."""
    if not isinstance(fact, (ToolStart, ToolEnd)):
        return None
    name, data = encode_fact(fact)
    own = {"call_id": call.id, "name": call.name, "arguments": call.raw}
    return Observation(SIDE_CALL, {**own, **({"custom": True} if call.custom else {}), name: data})


def side_call_of(fact: Fact) -> tuple[ToolCall, ToolStart | ToolEnd] | None:
    """Return the call that an observation is about, and what it tells of it; None for any other fact.

    What `side_call_told` has not written is another fact.
    """
    if not isinstance(fact, Observation) or fact.type != SIDE_CALL:
        return None
    data = fact.data
    call = ToolCall(
        str(data.get("call_id", "")),
        str(data.get("name", "")),
        str(data.get("arguments", "")),
        custom=data.get("custom") is True,
    )
    name = _ENDED if _ENDED in data else _STARTED
    told = data.get(name)
    try:
        found = decode_fact(name, told if isinstance(told, Mapping) else {})
    except FactInvalid:
        return None
    assert isinstance(found, (ToolStart, ToolEnd))
    return call, found


def open_side_calls(facts: Iterable[Fact]) -> list[tuple[ToolCall, ToolStart]]:
    """Return the calls that were started and have no end, as they were started: their process ended first."""
    found: dict[str, tuple[ToolCall, ToolStart]] = {}
    told = [fact for fact in facts if isinstance(fact, Observation) and fact.type == SIDE_CALL]
    for side in filter(None, map(side_call_of, told)):
        call, fact = side
        if isinstance(fact, ToolStart):
            found[call.id] = call if fact.arguments is None else replace(call, raw=fact.arguments), fact
        else:
            found.pop(call.id, None)
    return list(found.values())


def as_own_call(fact: Fact) -> Fact:
    """Return what an observation tells of a call beside the conversation as if the model had made it."""
    found = side_call_of(fact)
    return fact if found is None else found[1]
