"""What a run may spend: flags before the spec before the usual."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plait.cli.group import group
from plait.cli.limit_flags import MAX_STEPS, limits_given
from plait.cli.run_options import RunOptions
from plait.engine.limits import Limits, SessionLimits
from plait.session.options import DEFAULT_MAX_TOKENS, SIDE_BY_SIDE
from plait.testing import Call, Say, ScriptServer
from tests.e2e.command import Line, plait_each


@pytest.mark.parametrize("value", ["", "much", "-1", "nan", "inf", "1,5"])
def test_what_is_no_money_is_told(value: str) -> None:
    """An amount that cannot be meant is a wrong option, told with an example; nothing begins."""
    result = CliRunner().invoke(group, ["run", "x", f"--max-cost={value}"])

    assert (2, True) == (result.exit_code, "is no amount of money: write 0.50 for fifty cents" in result.output)


@pytest.mark.parametrize(
    "flags, spec, limits, tokens",
    [
        ({}, {}, Limits(max_steps=MAX_STEPS), DEFAULT_MAX_TOKENS),
        ({"max_steps": 3}, {"max_steps": 9}, Limits(max_steps=3), DEFAULT_MAX_TOKENS),
        (
            {"max_cost": Decimal("0.1"), "max_tokens": 5},
            {"max_steps": 9, "session": {"max_steps": 20}},
            Limits(max_steps=9, max_cost=Decimal("0.1"), currency="USD", session=SessionLimits(max_steps=20)),
            5,
        ),
    ],
)
def test_flags_go_before_the_spec_one_by_one(flags: Any, spec: Any, limits: Limits, tokens: int) -> None:
    """A flag takes the place of the spec's own limit and of no other."""
    given = limits_given(RunOptions(task="x", **flags), {"limits": spec})

    assert limits.session == given["limits"].session
    assert (limits.max_steps, limits.max_cost) == (given["limits"].max_steps, given["limits"].max_cost)
    assert (limits.currency, SIDE_BY_SIDE) == (given["limits"].currency, given["limits"].tool_concurrency)
    assert tokens == given["max_turn_tokens"]


def test_a_run_stops_at_its_limits(tmp_path: Path) -> None:
    """Each ends with 1 and a sentence: tokens that are used up, and a limit of money where nobody tells a cost."""
    step = Say(calls=[Call("list_dir", {"path": "."})])
    with (
        ScriptServer([step, "never"], allow_unused=True) as one,
        ScriptServer([step, "never"], allow_unused=True) as two,
    ):
        tokens, money = plait_each(
            Line(("run", "x", "--json", "--endpoint", one.url, "-m", "m", "--max-tokens", "1"), {}),
            Line(("run", "x", "--json", "--endpoint", two.url, "-m", "m", "--max-cost", "5"), {}),
            cwd=tmp_path,
        )

    assert [(1, "limit", 1), (1, "limit", 1)] == [
        (ran.code, ran.json["status"], ran.json["steps"]) for ran in (tokens, money)
    ]
    assert "token budget exceeded (" in tokens.json["error"]["message"]
    assert "the budget of 5 cannot be kept: nobody says what the last answer cost" == money.json["error"]["message"]
    assert "prices.json" in money.json["error"]["advice"]
