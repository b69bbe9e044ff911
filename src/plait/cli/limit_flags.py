"""What a run may spend: the flags, else the spec, else the usual.

Floor: 7. Owns: which of them has the word; never: what a limit does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

from plait.engine.limits import Limits
from plait.engine.spec_limits import limits_of_spec
from plait.session.options import DEFAULT_MAX_TOKENS, SIDE_BY_SIDE

if TYPE_CHECKING:
    from plait.cli.run_options import RunOptions

MAX_STEPS: Final = 200
"""Answers of a run's model, unless somebody says otherwise."""


class Given(TypedDict):
    """The keywords of a session that limit it."""

    limits: Limits
    max_turn_tokens: int | None


def limits_given(options: RunOptions, spec: Mapping[str, Any]) -> Given:
    """Return a run's limits as keywords of `init_session`."""
    side_by_side = options.tool_concurrency or SIDE_BY_SIDE
    limits = limits_of_spec(spec, Limits(max_steps=MAX_STEPS, tool_concurrency=side_by_side))
    if options.max_steps is not None:
        limits = replace(limits, max_steps=options.max_steps)
    if options.max_cost is not None:
        limits = replace(limits, max_cost=options.max_cost, currency="USD")
    return {"limits": limits, "max_turn_tokens": options.max_tokens or DEFAULT_MAX_TOKENS}
