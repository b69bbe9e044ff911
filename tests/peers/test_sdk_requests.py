"""What plait sends for a conversation, beside what the vendors' own clients send for the same one."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.exchange import View
from plait.core.messages import user
from plait.kernel.effects import Think
from plait.kernel.ports import Options, Setup
from plait.models.chat_model import chat_model
from plait.models.known_profiles import profile_named
from plait.models.profiles import EndpointProfile
from plait.testing import Request, ScriptServer
from plait.wire.profile import WireName
from tests.peers.comparing import differences
from tests.peers.dialogue import PACKAGES, SDKS, Wish, by_plait, script

KEY = "k-test"
WIRES: Sequence[WireName] = ("chat", "responses", "anthropic")
WISHES: Mapping[str, Wish] = {
    "plain": Wish(),
    "streamed": Wish(stream=True),
    "thinking": Wish(thinks=True),
    "thinking-streamed": Wish(thinks=True, stream=True),
    "adaptive": Wish(thinks=True, adaptive=True, schema=True),
    "forced": Wish(tool_choice="required", parallel=False, temperature=0.0),
    "named": Wish(tool_choice="look", stream=True),
    "auto": Wish(tool_choice="auto", parallel=True),
    "schema": Wish(schema=True),
}
_HELPER = "the client's helper for streams sends back what it parsed, and null for what did not come"
ALLOWED: Mapping[WireName, Mapping[str, str]] = {
    "chat": {
        "messages[].annotations": _HELPER,
        "messages[].audio": _HELPER,
        "messages[].function_call": _HELPER,
        "messages[].parsed": _HELPER,
        "messages[].refusal": _HELPER,
        "messages[].tool_calls": _HELPER,
        "messages[].tool_calls[].index": _HELPER,
        "messages[].tool_calls[].function.parsed_arguments": _HELPER,
        "messages[].reasoning_content": "the client sends thoughts back to everybody; plait to who wants them",
    },
    "responses": {
        "input[].id": "ids belong to what a provider keeps; plait lets it keep nothing",
        "input[].status": "what is in the input is complete",
    },
    "anthropic": {
        "messages[].content[].cache_control": "plait caches up to the end of the conversation, not only its head",
    },
}
"""Where bodies may differ, and why; plait's is the shorter one but for the cache markers."""


def profile_for(wire: WireName, wish: Wish) -> EndpointProfile:
    """Return the vendor's own profile, streaming or not, for a server that may be anywhere."""
    known = profile_named("anthropic" if wire == "anthropic" else "openai")
    assert known is not None
    spoken = replace(
        known.wire,
        wire=wire,
        reasoning_echo="always" if wire == "anthropic" or (wire == "responses" and wish.thinks) else "never",
        thinking="adaptive" if wish.adaptive else "budget",
        temperature=True,
    )
    return replace(known, streams=wish.stream, wire=spoken)


@cache
def both(wire: WireName, wish: Wish) -> tuple[Sequence[Request], Sequence[Request]]:
    """Hold the conversation twice, once for all tests, and return the requests: plait's, the vendor's client's."""
    if importlib.util.find_spec(PACKAGES[wire]) is None:
        pytest.skip(f"the package {PACKAGES[wire]} is not installed")
    with ScriptServer(script(thinks=wish.thinks)) as server:
        by_plait(server.url, wire, wish, profile_for(wire, wish), KEY)
        ours = server.requests
    with ScriptServer(script(thinks=wish.thinks)) as server:
        SDKS[wire](server.url, wish, KEY)
        theirs = server.requests
    return ours, theirs


@pytest.mark.parametrize("wire", WIRES)
def test_bodies_are_the_same(wire: WireName) -> None:
    """Every member of every request is the one that the vendor's client sends, but for those that are listed."""
    found: dict[str, tuple[str, Any, Any]] = {}
    for name, wish in WISHES.items():
        ours, theirs = both(wire, wish)
        assert [3, 3] == [len(ours), len(theirs)]
        for one, other in zip(ours, theirs, strict=True):
            assert other.path == one.path
            found |= {path: (name, *values) for path, values in differences(one.json, other.json).items()}

    assert {} == {path: values for path, values in found.items() if path not in ALLOWED[wire]}
    assert [*ALLOWED[wire]] == [path for path in ALLOWED[wire] if path in found], "an allowance that nothing needs"


@pytest.mark.parametrize("wire", WIRES)
def test_headers_that_matter_are_the_same(wire: WireName) -> None:
    """The kind of body, the key and the version travel where the vendor's client puts them, or where its API says."""
    ours, theirs = (requests[0].headers for requests in both(wire, WISHES["streamed"]))

    assert theirs["content-type"] == ours["content-type"] == "application/json"
    assert theirs["accept"] in ours["accept"]  # plait also names the stream that it asks for
    if wire == "anthropic":
        # The API takes the key in either header, and believes its own where there are both.
        assert (f"Bearer {KEY}", KEY) == (theirs["authorization"], ours["x-api-key"])
        # See ANTHROPIC_VERSION: an older version is kept as it is, and these bodies mean the same in both.
        assert ("2026-10-21", "2023-06-01") == (theirs["anthropic-version"], ours["anthropic-version"])
    else:
        assert f"Bearer {KEY}" == theirs["authorization"] == ours["authorization"]
    assert "identity" == ours["accept-encoding"]  # what packs a stream holds it back


def test_azure_is_asked_as_its_client_asks_it() -> None:
    """The deployment in the path, the version in the query, the key in its own header, and the same body."""
    openai = pytest.importorskip("openai")
    known = profile_named("azure")
    assert known is not None
    with ScriptServer(["ready", "ready"]) as server:
        root = server.url.removesuffix("/v1")
        with openai.AzureOpenAI(
            azure_endpoint=root, azure_deployment="d", api_version="2024-10-21", api_key=KEY, max_retries=0
        ) as client:
            client.chat.completions.create(
                model="d", messages=[{"role": "user", "content": "hi"}], max_completion_tokens=10
            )
        address = f"{root}/openai/deployments/d/chat/completions?api-version=2024-10-21"
        model = chat_model("d", address, profile=replace(known, streams=False), api_key=KEY)
        channel = model.open(Setup(options=Options(max_output_tokens=10)))
        channel.think(Think(View(0, [user("hi")], 1)), None, Cancel())
        model.close()

    theirs, ours = server.requests
    assert "/openai/deployments/d/chat/completions" == theirs.path == ours.path
    assert "api-version=2024-10-21" == theirs.query == ours.query
    assert KEY == theirs.headers["api-key"] == ours.headers["api-key"]
    assert [None, None] == [request.headers.get("authorization") for request in (theirs, ours)]
    assert theirs.json == ours.json
