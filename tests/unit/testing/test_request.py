"""Recorded requests and the bytes in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.testing.request import Request, raw_members, text_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON, max_size=5)


def request(body: dict[str, Any]) -> Request:
    """Return a request with this body."""
    return Request(1, "POST", "/v1/chat/completions", {}, json.dumps(body).encode(), 1)


@given(OBJECTS, st.sampled_from([None, 2]), st.booleans())
def test_members_keep_their_bytes(value: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    """Each member's bytes stand in the body as they are, and are that member's value."""
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()

    members = raw_members(body)

    assert list(value) == list(members)
    assert all(raw in body for raw in members.values())
    assert value == {key: json.loads(raw) for key, raw in members.items()}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b"\xff{}", b'{"a":1 "b":2}']
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    """A body that is cut or no object is a ValueError, never a loop without end."""
    with pytest.raises(ValueError):
        raw_members(body)


def test_a_request_answers_questions() -> None:
    """Model, stream, tools, text and position are read from the body."""
    asked = request(
        {
            "model": "m",
            "stream": True,
            "tools": [{"type": "function"}],
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "assistant", "content": None},
                {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}]},
            ],
        }
    )

    assert ("m", True, 1, 1) == (asked.model, asked.stream, len(asked.tools), asked.turns)
    assert "be kind\n\nhi" == asked.text
    assert "hi" == asked.last_text


def test_an_empty_request_has_empty_answers() -> None:
    """Nothing that is missing is an error."""
    asked = request({})

    assert ("", False, [], [], "", "", 0) == (
        asked.model,
        asked.stream,
        asked.tools,
        asked.messages,
        asked.text,
        asked.last_text,
        asked.turns,
    )
    assert "" == text_of(None)


def test_a_body_that_is_no_object_is_no_request() -> None:
    """Reading a list as a request is a ValueError."""
    with pytest.raises(ValueError, match="not a JSON object"):
        _ = Request(1, "POST", "/", {}, b"[]", 1).json
