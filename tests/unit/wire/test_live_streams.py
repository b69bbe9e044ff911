"""Every recorded stream through a real server and the whole client, in both colours, however the network cuts it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed
from plait.core.messages import user
from plait.kernel.ports import Setup
from plait.models.chat_model import ChatModel, chat_model
from plait.models.line import Line
from plait.models.profiles import EndpointProfile
from plait.models.transport import Timeouts
from plait.testing import Raw, Request, ScriptServer
from plait.testing.faults import Split, Step
from plait.wire.decode import describe_answer
from plait.wire.decoder import Decoder
from plait.wire.profile import WireName
from tests.unit.models.talking import ask_of
from tests.unit.wire.cases import Case, printed_without_replay, stream_cases, wanted

WIRES: Final[tuple[WireName, ...]] = ("chat", "responses", "anthropic")
CASES: Final[Mapping[str, Case]] = {case.name: case for wire in WIRES for case in stream_cases(wire)}
CUTS: Final[Mapping[str, Callable[[Raw], Step]]] = {
    "whole": lambda raw: raw,
    "bytes": lambda raw: Split(1, answer=raw),
    "random 1": lambda raw: Split(seed=1, answer=raw),
    "random 2": lambda raw: Split(seed=2, answer=raw),
}


QUESTION: Final = [user("hi")]
QUICK: Final = Timeouts(first_byte_s=5, idle_s=5)


def kept(line: Line) -> list[Decoder]:
    """Have a line keep the decoders that it makes, whatever comes of them."""
    made: list[Decoder] = []
    make = line.new_decoder

    def new_decoder() -> Decoder:
        made.append(make())
        return made[-1]

    line.new_decoder = new_decoder  # type: ignore[method-assign]
    return made


def ask(model: ChatModel) -> dict[str, Any]:
    """Make one request in this thread, and return all that its decoder knows."""
    channel = model.open(Setup())
    decoders = kept(channel.line)
    with suppress(ProviderFailed):
        channel.think(ask_of(QUESTION), None, Cancel())
    channel.close()
    return describe_answer(decoders[-1].answer(), with_replay=True)


def ask_in_loop(model: ChatModel) -> dict[str, Any]:
    """Make one request in an event loop, and return all that its decoder knows."""

    async def main() -> dict[str, Any]:
        channel = model.aopen(Setup())
        decoders = kept(channel.line)
        with suppress(ProviderFailed):
            await channel.think(ask_of(QUESTION), None, Cancel())
        await channel.aclose()
        await model.aclose()
        return describe_answer(decoders[-1].answer(), with_replay=True)

    return asyncio.run(main())


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("colour", [ask, ask_in_loop], ids=["sync", "async"])
def test_every_case_comes_over_the_network(colour: Callable[[ChatModel], dict[str, Any]], cut: str) -> None:
    """What the client assembles from a socket is what the case expects; each case comes in one cut a colour."""
    first = [*CUTS].index(cut)
    assert_over_the_network([*CASES.values()][first :: len(CUTS)], colour, cut)


@pytest.mark.prove
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("colour", [ask, ask_in_loop], ids=["sync", "async"])
def test_every_case_comes_over_the_network_in_every_cut(
    colour: Callable[[ChatModel], dict[str, Any]], cut: str
) -> None:
    """The same, the whole product of cases, cuts and colours."""
    assert_over_the_network([*CASES.values()], colour, cut)


def assert_over_the_network(cases: Sequence[Case], colour: Callable[[ChatModel], dict[str, Any]], cut: str) -> None:
    """Ask a server for each case, and compare what came with what it expects."""
    served: list[Case] = []

    def script(request: Request) -> Step:
        return CUTS[cut](Raw(served[-1].body, content_type(served[-1])))

    with ScriptServer(script) as server:
        for case in cases:
            served.append(case)
            model = chat_model(
                "any", server.url, profile=EndpointProfile("", needs_key=False, wire=case.profile), timeouts=QUICK
            )
            got = colour(model)
            model.close()
            assert wanted(case, got) == printed_without_replay(case, got), case.name


def test_the_cases_are_those_that_were_recorded() -> None:
    """There is a case for every recorded stream, and there are as many as there were."""
    assert len(CASES) >= 70


def content_type(case: Case) -> Mapping[str, str]:
    """Return the header that the case came with."""
    return {"Content-Type": "application/json" if case.body.lstrip().startswith(b"{") else "text/event-stream"}
