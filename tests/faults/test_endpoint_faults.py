"""Every fault of an endpoint, through both transports: an answer is whole or it is a typed failure, in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
import yaml

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed, View
from plait.core.messages import user
from plait.kernel.effects import Think
from plait.kernel.ports import Setup
from plait.models.chat_model import ChatModel, chat_model
from plait.models.transport import Timeouts
from plait.testing import ScriptServer, faults
from plait.testing.faults import Phase
from plait.testing.script_file import parse_script

FAULTS: Final[list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("endpoint_faults.yaml").read_text())
TIMEOUTS: Final = Timeouts(connect_s=2, first_byte_s=0.15, idle_s=0.15, total_s=5)
ASK: Final = Think(View(0, [user("hi")], 1))


def think(model: ChatModel) -> None:
    """Make one request in this thread."""
    channel = model.open(Setup())
    try:
        channel.think(ASK, None, Cancel())
    finally:
        channel.close()
        model.close()


def think_in_loop(model: ChatModel) -> None:
    """Make one request in an event loop."""

    async def main() -> None:
        channel = model.aopen(Setup())
        try:
            await channel.think(ASK, None, Cancel())
        finally:
            await channel.aclose()
            await model.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("ask", [think, think_in_loop], ids=["sync", "async"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_a_fault_comes_to_its_class(fault: dict[str, Any], ask: Any) -> None:
    """The fault is told as what it is, and nothing waits longer than its timeout."""
    started_s = time.monotonic()
    with ScriptServer(parse_script([fault["step"]]).steps, allow_unused=True) as server:
        try:
            ask(chat_model("any", server.url, timeouts=TIMEOUTS))
            came_to = "ok"
        except ProviderFailed as failed:
            came_to = failed.kind

        assert came_to in fault["expect"].split("|")
        assert time.monotonic() - started_s < 4


def test_there_are_enough_faults() -> None:
    """The catalogue holds at least sixty faults, each under its own name."""
    names = [fault["name"] for fault in FAULTS]

    assert len(set(names)) == len(names) >= 60


def test_every_way_to_break_is_in_the_catalogue() -> None:
    """Nothing that the fault server can do is left out, and what can happen at any phase happens at every one."""
    names = {fault["name"] for fault in FAULTS}
    used = {name for fault in FAULTS for name in faults_in(fault["step"])}
    at_every_phase = {f"{way} {phase}" for way in ("reset", "cut", "half_close", "stall") for phase in get_args(Phase)}
    others = (
        "refused, slow-loris, drips, length too long, length cuts the end off, gzip, gzip corrupt, gzip truncated, "
        "split at every byte, split at random 1, a line of a gigabyte, a chunk without a size, web page, nothing, "
        "error in the stream, early hints, status 429, status 529, sent elsewhere, not a model's server"
    )

    assert used == set(faults.FAULTS)
    assert at_every_phase <= names
    assert set(others.split(", ")) <= names


def faults_in(step: object) -> Iterator[str]:
    """Yield the names of the faults in a step, one inside the other."""
    if isinstance(step, dict):
        yield from (step["fault"],) if "fault" in step else ()
        yield from faults_in(step.get("answer"))
