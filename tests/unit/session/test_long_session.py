"""A turn of 300 steps in a small window, by what the server counts: it finishes, it is cheap, nothing of it is lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest

from plait.cli.specs import built_in_spec
from plait.core.facts import Reset
from plait.kernel.history import fault_in
from plait.kernel.tools import Tool
from plait.models.chat_model import chat_model
from plait.models.prices import Price
from plait.models.registry import Descriptor, ModelRegistry, Provider
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.testing import Billed, Call, Meter, Request, Say, ScriptServer
from plait.wire.profile import WireName
from tests.helpers.campaigns import Campaign
from tests.helpers.ideal_client import IdealClient, Tariff

WINDOW = 16_000
STEPS = 300
TASK = "Look at every file, and say which one has the fault."
TARIFF = Tariff(Decimal("1.25"), Decimal("0.125"), Decimal(10))
NOTES = "Objective: find the fault. State: nothing so far. Next: the other files. " * 8


def provider_meter(bytes_a_token: int = 3) -> Meter:
    """Count as a provider does: blocks of 128 tokens, none from fewer than 1,024, answers fit into the window too."""
    return Meter(window=WINDOW, bytes_a_token=bytes_a_token, cached_min=1_024)


def wants_summary(request: Request) -> bool:
    """Say whether a request asks for a summary."""
    return "The conversation is about to be shortened." in str(request.messages[-1])


def script(steps: Iterator[int], request: Request, count: int = STEPS) -> Any:
    """Look at one file after the other, with a few words each time, and write notes where they are asked for."""
    if wants_summary(request):
        return NOTES
    number = next(steps)
    return Say(f"File {number} next.", calls=[Call("look", {"at": number})]) if number <= count else "In none."


LOOK = Tool("look", "Look.", lambda at: f"file {at}: " + "fine. " * 70, parameters={"type": "object"}, idempotent=True)


def test_three_hundred_steps_in_a_small_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refused, each request has the task, 90 % is cached, and it costs at most 5 % more than the ideal."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    steps = itertools.count(1)
    with ScriptServer(lambda request: script(steps, request), meter=provider_meter()) as server:
        prices = Price(TARIFF.fresh, TARIFF.output, TARIFF.cached)
        sold = Descriptor("shop", "any", context_window=WINDOW, prices=prices)
        client = ModelRegistry([Provider("shop", server.url)], {"any": sold}).resolve("any")
        with init_session(
            built_in_spec("any", server.url), tools=[LOOK], session_id="s", strict_cache_proof=False
        ) as session:
            result = run_turn(client, "any", session, TASK)
            assert session.kept_in is not None
            facts = load_journal(session.kept_in / "journal.jsonl").facts
        requests, billed = server.requests, server.meter.billed
        assert () == server.meter.refused
    assert ("completed", "In none.") == (result.status, result.final_reply)
    assert all(TASK in request.body.decode() for request in requests)
    assert fault_in(session._live.conversation.state.history) is None
    summaries = [request for request in requests if wants_summary(request)]
    assert ["compaction"] * len(summaries) == [fact.why for fact in facts if isinstance(fact, Reset)]
    assert STEPS + 1 + len(summaries) == len(requests) == len(billed)
    assert_few(summaries, billed)

    ideal = IdealClient(provider_meter(), requests[0].tools, requests[0].messages[0], summaries[0].messages[-1])
    share, cost, ideal_cost = step_share(summaries, billed), TARIFF.cost(billed), TARIFF.cost(ideal.play(facts))
    print(f"{len(requests)} requests, {len(summaries)} of them for a summary; {share:.1%} of the prompts cached")
    print(f"billed {cost} USD, ideal {ideal_cost} USD, told {result.turn_usage.cost} USD")
    assert share >= 0.9
    assert cost == result.turn_usage.cost
    assert ideal_cost <= cost <= ideal_cost * Decimal("1.05")


def step_share(summaries: Sequence[Request], billed: Sequence[Billed]) -> float:
    """Return the cached share of all prompts but those of summaries, as the server counted it."""
    numbers = {request.number for request in summaries}
    counts = [bill.count for bill in billed if bill.number not in numbers]
    return sum(count.cached for count in counts) / sum(count.prompt for count in counts)


def assert_few(summaries: Sequence[Request], billed: Sequence[Billed]) -> None:
    """Assert that there are about as few summaries as the window allows, each going down to what is kept."""
    sizes = {bill.number: bill.count.prompt for bill in billed}
    a_step, room = sizes[11] - sizes[10], WINDOW - WINDOW // 4
    assert len(summaries) <= 1.3 * STEPS * a_step / (room - sizes[1] - 4 * a_step)


@dataclass(frozen=True)
class Other:
    """Another server than the one above."""

    wire: WireName = "chat"
    is_known: bool = True
    """plait has been told the window, and not only the server."""
    bytes_a_token: int = 3
    usage: str = "openai"
    max_output_tokens: int | None = None


OTHERS = [
    *(Other(wire, known, size) for wire in get_args(WireName) for known in (True, False) for size in (2, 3, 5)),
    *(Other(wire, known, usage="none") for wire in get_args(WireName) for known in (True, False)),
    *(Other(wire, max_output_tokens=most) for wire in get_args(WireName) for most in (500, 3_000, 6_000)),
]


@pytest.mark.parametrize("wire", get_args(WireName))
def test_other_servers(wire: WireName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, campaign: Campaign) -> None:
    """On every wire, however it counts and whatever it tells: it finishes, has its task, and is cached; a summary fits.

    A window that is known is met by hardly any request, one that is not by one for each summary.
    """
    monkeypatch.chdir(tmp_path)
    count = 120 if campaign.is_full else 50
    for number, other in enumerate(campaign.each([other for other in OTHERS if other.wire == wire], fast=1)):
        monkeypatch.setenv("PLAIT_HOME", str(tmp_path / f"state{number}"))
        heard: list[str] = []
        steps = itertools.count(1)
        meter = provider_meter(other.bytes_a_token)
        with ScriptServer(
            lambda request, steps=steps: script(steps, request, count),  # type: ignore[misc]
            meter=meter,
            usage=other.usage,
        ) as server:
            window = WINDOW if other.is_known else None
            client = chat_model("any", server.url, wire=other.wire, context_window=window)
            with init_session(
                built_in_spec("any", server.url),
                tools=[LOOK],
                strict_cache_proof=False,
                max_output_tokens=other.max_output_tokens,
                on_event=lambda name, _, heard=heard: heard.append(name),  # type: ignore[misc]
            ) as session:
                result = run_turn(client, "any", session, TASK)
                assert fault_in(session._live.conversation.state.history) is None, other
            requests = server.requests
        assert ("completed", "In none.") == (result.status, result.final_reply), (other, result.error)
        assert all(TASK in request.body.decode() for request in requests), other
        summaries = [request for request in requests if wants_summary(request)]
        assert 0 < len(summaries) == heard.count("compaction"), other
        assert not {*meter.refused} & {request.number for request in summaries}, other
        assert "compaction_preparation_skipped" not in heard, other
        overflows = heard.count("context_overflow_retry")
        assert overflows == (0 if other.is_known and other.usage != "none" else len(summaries)), other
        assert step_share(summaries, meter.billed) >= 0.9, other
