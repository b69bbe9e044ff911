"""What a turn and a session may spend, and when that is too much.

Floor: 4. Owns: the limits and the check against them; never: a price, and
what several conversations share (`budget`).

Every limit is looked at before the next request is made and before a call of the last answer runs. Nothing is begun
once as much is spent as is allowed; a turn that has its answer by then is completed.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.kernel.effects import Stop
from plait.kernel.rules import Rules
from plait.kernel.state import State

if TYPE_CHECKING:
    from plait.engine.purse import Purse

COST_UNKNOWN: Final = "cost_unknown"
"""Why a turn ends that may cost so much, where nobody says what it costs."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Ceilings of all turns of a session together, since it began or was cleared; None is no ceiling.

    An agent has them for each run, because each is a conversation of its own.

    Raises:
        ValueError: a ceiling is no number that can be reached.
    """

    max_steps: int | None = None
    """Model answers."""
    max_cost: Decimal | None = None
    """Money."""
    max_input_tokens: int | None = None
    """Tokens of all requests."""
    max_wall_s: float | None = None
    """Seconds that turns took since this process opened the session."""

    def __post_init__(self) -> None:
        _check(self, ("max_steps", "max_input_tokens"))


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one turn; None is no ceiling.

    Raises:
        ValueError: a ceiling is no number that can be reached.
    """

    max_steps: int | None = 25
    """Model answers."""
    max_output_tokens: int | None = None
    """Tokens of one answer, sent with every request."""
    max_tool_result_tokens: int = 8_000
    """Tokens of one tool result as the model sees it, at four characters a token; 0 is no cap."""
    max_turn_result_tokens: int | None = None
    """Tokens of all tool results of a turn together, counted likewise: what goes beyond is cut to a little each."""
    dedupe_reads: bool = False
    """A call that only looks, and brings what the same call brought before and the model still sees, says only that."""
    tool_concurrency: int = 4
    """Parallel-safe calls of one message that run at the same time; 1 runs every call in the caller's thread."""
    max_cost: Decimal | None = None
    """Money. Where nobody says what an answer cost, the turn ends after it: an unknown cost is not taken for none."""
    max_input_tokens: int | None = None
    """Tokens of all requests of the turn together."""
    max_tool_calls: int | None = None
    """Tool calls that are run; one more is answered without being run, and the turn ends then."""
    max_wall_s: float | None = None
    """Seconds, looked at between steps."""
    currency: str | None = None
    """ISO code of the money meant, `USD` for one; None is the currency in which costs are reported."""
    session: SessionLimits | None = None
    """Ceilings of all turns together."""
    budget: Purse | None = None
    """What this conversation shares with others: a `plait.Budget`."""

    def __post_init__(self) -> None:
        _check(
            self,
            (
                "max_steps",
                "max_output_tokens",
                "tool_concurrency",
                "max_input_tokens",
                "max_turn_result_tokens",
                "max_tool_calls",
            ),
        )


def rules_under(limits: Limits, base: Rules, seed: int) -> Rules:
    """Return the loop's rules with a conversation's ceiling of steps and jitter."""
    return Rules(limits.max_steps, base.retry.of(seed), base.guards, base.shrinking, token_counter=base.token_counter)


def has_ceilings(limits: Limits) -> bool:
    """Say whether `check` and `spent` have anything to look at; steps are the loop's to count."""
    ceilings = (limits.max_cost, limits.max_input_tokens, limits.max_tool_calls, limits.max_wall_s)
    return limits.budget is not None or limits.session is not None or any(each is not None for each in ceilings)


def check(state: State, limits: Limits, elapsed_s: float, before_s: float = 0.0) -> Stop | None:
    """Return the stop that spending calls for before the next request, or None.

    Args:
        elapsed_s: seconds of this turn.
        before_s: seconds of the turns before it.
    """
    stop = spent(state, limits, elapsed_s, before_s)
    if stop is None and limits.max_tool_calls is not None and _asked_for_more(state, limits.max_tool_calls):
        stop = Stop("limit", _no_more(limits.max_tool_calls))
    whole = limits.session
    if stop is None and whole is not None and whole.max_steps is not None:
        steps = state.steps_before + state.steps
        if steps >= whole.max_steps:
            return Stop("limit", f"budget of the session exceeded ({steps} of {whole.max_steps} steps)")
    return stop


def spent(state: State, limits: Limits, elapsed_s: float, before_s: float = 0.0) -> Stop | None:
    """Return the stop that spending calls for before anything more is done; the last answer's calls included."""
    stop = _over(state.turn_usage, limits, elapsed_s, limits.currency, "budget")
    if stop is None and limits.budget is not None:
        stop = limits.budget.stop()
    if stop is None and limits.session is not None:
        return _over(state.usage, limits.session, before_s + elapsed_s, limits.currency, "budget of the session")
    return stop


def refusal_of_call(state: State, limits: Limits, let: set[str]) -> str | None:
    """Return why a call may not run for want of calls, or None.

    Args:
        let: ids of calls that may run; those of the open round may not have started yet.
    """
    most, round_ = limits.max_tool_calls, state.round
    if most is None or round_ is None:
        return None
    due = [call for call in round_.calls if call.id in let and call.id not in {**round_.started, **round_.ended}]
    return f"Not run: {_no_more(most)}." if state.calls + len(due) >= most else None


def _asked_for_more(state: State, most: int) -> bool:
    results = state.history[-1].tool_results if state.history else ()
    return any(result.status == "denied" and result.said == f"Not run: {_no_more(most)}." for result in results)


def _no_more(most: int) -> str:
    return f"budget exceeded ({most} of {most} tool calls)"


def _over(
    usage: Usage, limits: Limits | SessionLimits, elapsed_s: float, currency: str | None, what: str
) -> Stop | None:
    if limits.max_cost is not None and (stop := _over_cost(usage, limits.max_cost, currency, what)) is not None:
        return stop
    if limits.max_input_tokens is not None and usage.input_tokens >= limits.max_input_tokens:
        return Stop("limit", f"{what} exceeded ({usage.input_tokens} of {limits.max_input_tokens} input tokens)")
    if limits.max_wall_s is not None and elapsed_s >= limits.max_wall_s:
        return Stop("limit", f"{what} exceeded ({elapsed_s:.0f} of {limits.max_wall_s:.0f} seconds)")
    return None


def _over_cost(usage: Usage, most: Decimal, currency: str | None, what: str) -> Stop | None:
    if usage.cost is None:
        return Stop(COST_UNKNOWN, f"the {what} of {most} cannot be kept: nobody says what the last answer cost")
    if usage.cost and currency is not None and usage.currency != currency:
        told = f"the {what} of {most} {currency} cannot be kept: the cost is told in {usage.currency}"
        return Stop(COST_UNKNOWN, told)
    return Stop("limit", f"{what} exceeded (cost {usage.cost} of {most})") if usage.cost >= most else None


def _check(limits: Limits | SessionLimits, counts: tuple[str, ...]) -> None:
    for name in counts:
        value = getattr(limits, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    for name in ("max_cost", "max_wall_s"):
        value = getattr(limits, name)
        if value is not None and not 0 <= value < float("inf"):
            raise ValueError(f"{name} must be a number from 0, not {value}")
