"""A large table of streams as servers were seen to send them, each with what has to come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from plait.wire.decode import decode_body, describe_answer, parse_cut
from plait.wire.profile import WireProfile
from tests.unit.wire.cases import body_of, more_streams


def short(got: Mapping[str, Any]) -> dict[str, Any]:
    """What was printed, in the form of the table."""
    calls, usage, error = got["tool_calls"], got["usage"], got["error"]
    return {
        **got,
        "calls": [[call["id"], call["name"], call["arguments"]] for call in calls],
        "valid": [call["valid"] for call in calls],
        "extra": [call.get("extra_content") for call in calls],
        "usage": None if usage is None else [*usage.values()],
        "error": None if error is None else [error["kind"], error["code"]],
    }


@pytest.mark.parametrize("case", more_streams(), ids=lambda case: case["name"])
def test_stream(case: Mapping[str, Any]) -> None:
    """The answer is the expected one, wherever reads end."""
    body = body_of(case)
    profile = WireProfile(wire=case["wire"], think=case.get("think", "off"))
    for cut in ("whole", "bytes", "random:1"):
        got = short(describe_answer(decode_body(body, profile, cuts=parse_cut(cut, len(body))), with_replay=True))
        assert case["expected"] == {name: got.get(name) for name in case["expected"]}
