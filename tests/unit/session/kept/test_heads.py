"""What requests of a session have in common is recorded, and read back as it was."""

from __future__ import annotations

import json

from plait.core.exchange import ToolSchema
from plait.core.facts import Observation, TurnStart
from plait.kernel.ports import Options, Setup
from plait.session.kept.heads import changed, heads, setup_of, told_of

SETUP = Setup(
    "Be brief.\ud800",
    (
        ToolSchema("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}}),
        ToolSchema("sql", "", {}, {"type": "grammar", "syntax": "lark", "definition": "start: x"}, deferred=True),
    ),
    Options(max_output_tokens=9, temperature=0.5, reasoning="low", cache_key="k", extra={"top_p": 0.9, "a": [1]}),
)


def test_a_setup_comes_back_from_its_text() -> None:
    """Everything that is sent with every request survives JSON, in the order in which it is sent."""
    told = json.loads(json.dumps(told_of(SETUP)))
    assert SETUP == setup_of(told)
    assert list(SETUP.tools[0].parameters) == list(setup_of(told).tools[0].parameters)
    assert Setup() == setup_of(told_of(Setup()))


def test_what_is_recorded_is_not_what_somebody_changes_later() -> None:
    """A schema that its owner changes afterwards stands in the record as it was."""
    parameters: dict[str, object] = {"type": "object", "required": ["a"]}
    told = told_of(Setup(tools=(ToolSchema("t", "", parameters),)))
    parameters["required"] = []
    assert {"type": "object", "required": ["a"]} == setup_of(told).tools[0].parameters


def test_only_what_is_new_is_recorded_again() -> None:
    """A later setup is the earlier one with what has changed of it, from its place in the log on."""
    first, second = told_of(SETUP), told_of(Setup("Be long.", SETUP.tools, SETUP.options))
    facts = [
        Observation("session_start", {"model": "m", **first}),
        TurnStart(),
        Observation("prompt", changed(first, second)),
    ]
    assert {"system": "Be long."} == facts[2].data  # type: ignore[union-attr]
    assert [(1, first), (3, second)] == heads(facts)


def test_an_older_record_has_no_options() -> None:
    """What an earlier version recorded is read as far as it goes."""
    assert Setup("Be brief.") == setup_of({"system": "Be brief.", "tools": None})
    assert [] == heads([TurnStart()])
