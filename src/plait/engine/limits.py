"""What a turn may spend, and when that is too much.

Floor: 4. Owns: the limits of a turn and the check against them; never: a price.
"""

from __future__ import annotations

from decimal import Decimal

from plait.core.values import dataclass
from plait.kernel.effects import Stop
from plait.kernel.state import State


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one turn; None is no ceiling."""

    max_steps: int | None = 25
    """Model answers."""
    max_output_tokens: int | None = None
    """Tokens of one answer, sent with every request."""
    max_tool_result_tokens: int = 8_000
    """Tokens of one tool result as the model sees it, at four characters a token; 0 is no cap."""
    tool_concurrency: int = 4
    """Parallel-safe calls of one message that run at the same time; 1 runs every call in the caller's thread."""
    max_cost: Decimal | None = None
    """Money, in the currency in which the provider reports."""
    max_input_tokens: int | None = None
    """Tokens of all requests of the turn together."""
    max_wall_s: float | None = None
    """Seconds, looked at between steps."""

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_output_tokens", "tool_concurrency", "max_input_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")


def check(state: State, limits: Limits, elapsed_s: float) -> Stop | None:
    """Return the stop that the turn's spending calls for, or None."""
    usage = state.turn_usage
    if limits.max_cost is not None and usage.cost is not None and usage.cost >= limits.max_cost:
        return Stop("limit", f"budget exceeded (cost {usage.cost} of {limits.max_cost})")
    if limits.max_input_tokens is not None and usage.input_tokens >= limits.max_input_tokens:
        return Stop("limit", f"budget exceeded ({usage.input_tokens} of {limits.max_input_tokens} input tokens)")
    if limits.max_wall_s is not None and elapsed_s >= limits.max_wall_s:
        return Stop("limit", f"budget exceeded ({elapsed_s:.0f} of {limits.max_wall_s:.0f} seconds)")
    return None
