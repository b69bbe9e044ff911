"""The recorded streams and errors of real endpoints, and how an answer is compared with what they expect."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from plait.wire.profile import ThinkMode, WireName, WireProfile

CASES = Path(__file__).parents[2] / "cases"
_WIRES: Mapping[str, WireName] = {
    "openai-chat-stream": "chat",
    "responses-stream": "responses",
    "anthropic-messages-stream": "anthropic",
}


@dataclass(frozen=True)
class Case:
    """One recorded body, and what has to come out of it."""

    name: str
    body: bytes
    expected: Mapping[str, Any]

    @property
    def profile(self) -> WireProfile:
        """The endpoint's profile, as far as the case assumes one."""
        assume = self.expected.get("assume", {})
        think: ThinkMode = "inline" if assume.get("inline_think") else "off"
        return WireProfile(
            wire=_WIRES[self.expected["wire"]], think="prefilled" if assume.get("think_prefilled") else think
        )


@cache
def stream_cases(wire: WireName) -> tuple[Case, ...]:
    """Return the recorded bodies of one wire, by name."""
    paths = sorted((CASES / "sse").glob("*.json"))
    cases = [
        Case(path.stem, path.with_suffix(".sse").read_bytes(), json.loads(path.read_text("utf-8"))) for path in paths
    ]
    return tuple(case for case in cases if _WIRES[case.expected["wire"]] == wire)


@cache
def more_streams() -> tuple[Mapping[str, Any], ...]:
    """Return the table of streams that were made after what servers were seen to send."""
    lines = Path(__file__).with_name("more_streams.jsonl").read_text("utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


def body_of(stream: Mapping[str, Any]) -> bytes:
    """Return the body of an entry of that table."""
    return base64.b64decode(stream["packed"]) if "packed" in stream else stream["body"].encode()


@cache
def bodies(wire: WireName) -> tuple[bytes, ...]:
    """Return every body of one wire, recorded or made."""
    made = [body_of(stream) for stream in more_streams() if stream["wire"] == wire]
    return (*(case.body for case in stream_cases(wire)), *made)


def wanted(case: Case, got: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a case expects, in the shape and with the fields of what was printed."""
    expected = case.expected
    wanted = {**got, **{name: expected[name] for name in got if name in expected}}
    wanted["refusal"] = expected.get("refusal")
    wanted["empty"] = expected.get("empty", False)
    calls = [{"valid": True, **call} for call in expected["tool_calls"]]
    for call, printed in zip(calls, got["tool_calls"], strict=False):
        if call["id"] == "*":
            call["id"] = printed["id"]
    wanted["tool_calls"] = calls
    if expected["error"] is not None and got["error"] is not None:
        wanted["error"] = {**got["error"], **expected["error"]}
    if "replay" not in expected:
        wanted.pop("replay", None)
    return wanted


def printed_without_replay(case: Case, got: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was printed; `replay` only where the case speaks of it."""
    return {name: value for name, value in got.items() if name != "replay" or "replay" in case.expected}
