"""`plait cache explain`, as a user types it, on journals whose process is gone."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from plait.cli.entry import run_command_line
from plait.core.facts import Fact, MessageAdded, Reset, RetryScheduled, TurnEnd, TurnStart
from plait.core.messages import Message, Text, user
from plait.core.usage import Usage
from plait.engine.cache.ledger import Departure, Note
from plait.store.sessions import Sessions

SECTIONS = {"model": "openai:gpt-4o", "encoding": "e", "tools": "t", "system": "s"}


def answer(usage: Usage, origin: str = "openai:gpt-4o") -> MessageAdded:
    """Return the fact of an answer."""
    return MessageAdded(Message("assistant", (Text("x"),), origin), usage, "end_turn")


TOLD: list[Fact] = [
    TurnStart(),
    MessageAdded(user("a")),
    Note(None, SECTIONS, 1_024, 300.0).observation(),
    answer(Usage(10_000, 100, cache_read=0)),
    MessageAdded(user("b")),
    answer(Usage(10_200, 100, cache_read=9_984)),
    Reset(0, 1, (user("A"),), "host_edit"),
    Note(Departure("message", 0, "host_edit")).observation(),
    RetryScheduled(1, 0, "protocol", "cut", Usage(500, 0)),
    answer(Usage(10_300, 100, cache_read=0)),
    answer(Usage(10_400, 100, cache_read=0), "nowhere:m\x1b[2J"),
    TurnEnd("completed"),
]


@pytest.fixture
def journal(home: Path) -> Path:
    """Return the journal of a session that was written by a process of before."""
    clock = iter(range(1_796_000_000_000, 1_797_000_000_000, 1_000))
    opened = Sessions.of(os.environ).open("told", lambda: next(clock))
    for fact in TOLD:
        opened.log.append((fact,))
        opened.log.commit()
    opened.log.close()
    Sessions.of(os.environ).open("empty", lambda: 0).log.close()
    return opened.log.path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command and return its code and what it wrote."""
    code = run_command_line(["cache", "explain", *arguments])
    written = capfd.readouterr()
    return code, written.out, written.err


def explained(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return the object that is printed."""
    code, out, err = run(capfd, *arguments, "--json")
    assert (0, "") == (code, err)
    found: dict[str, Any] = json.loads(out)
    return found


def test_each_request_has_a_line(journal: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """When, numbers, where it left the one before, the verdict and the money; a model's name moves no cursor."""
    code, out, err = run(capfd, "told")

    assert (0, "") == (code, err)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert [
        "# when (UTC) input cached written request verdict cost",
        "openai:gpt-4o",
        "1 2026-11-30 00:53:23 10,000 0 ? begins first 0.026 USD",
        "2 2026-11-30 00:53:25 10,200 9,984 ? extends hit 0.01402 USD",
        "3 2026-11-30 00:53:28 500 ? ? retry unanswered ~0.00125 USD",
        "4 2026-11-30 00:53:29 10,300 0 ? message 0 (host_edit) ours 0.02675 USD",
        r"nowhere:m\x1b[2J",
        "5 2026-11-30 00:53:30 10,400 0 ? model (model_changed) ours ?",
        "5 requests, 41,400 tokens in (24 % from the cache), ~0.06802 USD and 1 of unknown price",
    ] == lines
    assert "\x1b" not in out


def test_the_same_as_data(journal: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Numbers that nobody reported are null, money is exact text, and an unknown price stays unknown."""
    found = explained(capfd, "told")

    assert "told" == found["session"]
    assert [
        ("step", "first", None, None),
        ("step", "hit", None, None),
        ("retry", "unanswered", None, None),
        ("step", "ours", "message", "host_edit"),
        ("step", "ours", "model", "model_changed"),
    ] == [(each["purpose"], each["verdict"], each["part"], each["why"]) for each in found["requests"]]
    first, second, _, edited, last = found["requests"]
    assert (None, 10_000, 10_200) == (first["expected"], second["expected"], edited["expected"])
    assert (False, True, False) == (first["extends"], second["extends"], edited["extends"])
    assert (Decimal("0.026"), "USD", None, "unavailable") == (
        Decimal(first["cost"]),
        first["currency"],
        last["cost"],
        last["cost_is"],
    )
    assert {"requests": 5, "input": 41_400, "cached": 9_984, "cost": None, "unpriced": 1}.items() <= found[
        "total"
    ].items()


def test_a_cost_that_was_reported_is_believed(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the endpoint said of the cost wins over any table."""
    opened = Sessions.of(os.environ).open("paid", lambda: 0)
    opened.log.append((answer(Usage(10, 1, cost=Decimal("0.5"))),))
    opened.log.close()

    (request,) = explained(capfd, "paid")["requests"]

    assert ("0.5", "reported", "first") == (request["cost"], request["cost_is"], request["verdict"])


@pytest.mark.parametrize("kind", ["name", "beginning", "folder", "journal", "here"])
def test_every_way_to_name_a_session(
    journal: Path, kind: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name, the beginning of one, the folder, the journal itself, also when it lies in the working directory."""
    if kind == "here":
        monkeypatch.chdir(journal.parent)
    named = {"name": "told", "beginning": "to", "folder": str(journal.parent), "journal": str(journal)}

    assert 5 == len(explained(capfd, named.get(kind, journal.name))["requests"])


def test_a_session_without_requests(journal: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It says so, and is no failure."""
    code, out, err = run(capfd, "empty")

    assert (0, "", "no request of empty was answered\n") == (code, out, err)
    assert [] == explained(capfd, "empty")["requests"]


def test_what_is_no_session(journal: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A name that is none is a mistake with advice; a damaged journal is named with its place."""
    assert 2 == run(capfd, "tolt")[0]
    data = bytearray(journal.read_bytes())
    data[data.index(b'"text":"a"') + 8] ^= 1
    journal.write_bytes(data)

    code, out, err = run(capfd, "told")

    assert (1, "") == (code, out)
    assert str(journal) in err
