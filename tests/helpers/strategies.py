"""Hypothesis strategies for the values of floor 0: any JSON, any message, any fact."""

from __future__ import annotations

from decimal import Decimal
from typing import get_args

from hypothesis import strategies as st

from plait.core.facts import (
    OBSERVATIONS,
    Asked,
    Decided,
    Fact,
    MessageAdded,
    Observation,
    Reset,
    RetryScheduled,
    RoundClosed,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from plait.core.messages import (
    Control,
    Image,
    Message,
    Opaque,
    Reasoning,
    ResultStatus,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
)
from plait.core.usage import TOKEN_FIELDS, Usage

whole_text = st.text(max_size=12)
"""Text that UTF-8 can carry."""


def _joined(text: str) -> str:
    """Two halves of a surrogate pair that meet are one character, in JSON as everywhere."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


any_text = st.text(st.characters(exclude_categories=()), max_size=12).map(_joined)
"""Text with lone surrogates in it, as file names and broken streams have."""
json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
json_values = st.recursive(
    json_scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3), max_leaves=8
)
json_objects = st.dictionaries(any_text, json_values, max_size=3)

amounts = st.none() | st.decimals(0, 10**6, places=9) | st.just(Decimal(0))
usages = st.builds(
    Usage,
    **{name: st.none() | st.integers(0, 10**9) for name in TOKEN_FIELDS},
    cost=amounts,
    currency=st.sampled_from(["USD", "EUR"]),
    computed=st.booleans(),
    estimated=st.frozensets(st.sampled_from([*TOKEN_FIELDS, "cost"]), max_size=2),
    priced=st.booleans(),
) | st.sampled_from([Usage.ZERO, Usage.UNAVAILABLE, Usage(0, 0, 0, 0, 0, Decimal(0), computed=True)])

images = st.builds(Image, any_text, any_text, st.sampled_from(["base64", "url"]))
calls = st.builds(
    ToolCall,
    id=any_text,
    name=any_text,
    raw=any_text | st.just("{}"),
    custom=st.booleans(),
    extra=st.none() | json_objects,
)
results = st.builds(
    ToolResult,
    call_id=any_text,
    content=any_text,
    is_error=st.booleans(),
    data=st.none() | json_objects,
    status=st.sampled_from(get_args(ResultStatus)),
    images=st.lists(images, max_size=2).map(tuple),
)
parts = (
    st.builds(Text, any_text)
    | st.builds(Reasoning, any_text, st.none() | json_objects)
    | calls
    | results
    | images
    | st.builds(Opaque, any_text, json_objects)
    | st.builds(Control, any_text)
)
messages = st.builds(
    Message, role=st.sampled_from(get_args(Role)), parts=st.lists(parts, max_size=4).map(tuple), origin=any_text
)

_maybe_usage = st.none() | usages
_sizes = st.none() | st.tuples(st.integers(0), st.integers(0))
_maybe_text = st.none() | any_text
_stops = st.none() | st.sampled_from(get_args(StopReason))
_own_type = any_text.map("x_".__add__)
facts: st.SearchStrategy[Fact] = st.one_of(
    st.builds(TurnStart, st.booleans(), any_text),
    st.builds(MessageAdded, messages, _maybe_usage, _stops, any_text),
    st.builds(Asked, any_text, any_text, any_text),
    st.builds(Decided, any_text, st.booleans(), any_text, _maybe_text),
    st.builds(ToolStart, any_text, _maybe_text, st.none() | json_objects),
    st.builds(ToolEnd, results),
    st.builds(RoundClosed, st.integers(0)),
    st.builds(
        Reset, st.integers(0), st.integers(0), st.lists(messages, max_size=2).map(tuple), any_text, _maybe_usage, _sizes
    ),
    st.builds(RetryScheduled, st.integers(0), st.integers(0), any_text, any_text, _maybe_usage, any_text),
    st.builds(TurnEnd, any_text, any_text, _maybe_usage),
    st.builds(Observation, st.sampled_from(sorted(OBSERVATIONS)) | _own_type, json_objects),
)
