"""The kernel face's guard of a run's budget: an answer that is over it runs nothing.

Floor: 4. Owns: the guard's own sums, begun anew with each run; never: a limit of the loop's (`limits`).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from plait.core.cancel import Cancel
from plait.core.usage import Usage
from plait.engine.limits import COST_UNKNOWN
from plait.engine.purse import Worst
from plait.kernel.effects import Stop
from plait.models.prices import Price, with_cost


class BudgetGuard:
    """Ceilings of a run that may be reached and not exceeded; for `build_runtime(config, budget=…)`.

    One agent at a time; `plait.Budget` is for several. Where a cost is not known the run ends after its first answer,
    because a ceiling that nobody can look at holds nothing back.
    """

    def __init__(
        self,
        max_cost_usd: Decimal | float | str | None = None,
        max_input_tokens: int | None = None,
        model: str = "unknown",
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        """Set the ceilings; None is none.

        Args:
            max_cost_usd: money of a run, in US dollars.
            max_input_tokens: tokens of all its requests.
            model: whose price in `prices` counts where the endpoint does not say what an answer cost, and plait's own
                table does not know either.
        """
        self.max_cost_usd = None if max_cost_usd is None else Decimal(str(max_cost_usd))
        self.max_input_tokens = max_input_tokens
        self.total_usage = Usage.ZERO
        """What the run has used so far."""
        self._price = (prices or {}).get(model)

    @property
    def total_cost(self) -> Decimal | None:
        """What the run has cost so far; None where an answer did not say."""
        return self.total_usage.cost

    def reset(self) -> None:
        """Begin anew, as each run does."""
        self.total_usage = Usage.ZERO

    def add(self, usage: Usage) -> None:
        """Count what an answer used."""
        self.total_usage += with_cost(usage, self._price)

    def exceeded(self) -> str | None:
        """Return which ceiling is exceeded, None where none is; reaching one is allowed. Input comes first."""
        used, most = self.total_usage, self.max_cost_usd
        if self.max_input_tokens is not None and used.input_tokens > self.max_input_tokens:
            return f"{used.input_tokens} of {self.max_input_tokens} input tokens"
        if most is not None and used.cost is not None and used.cost > most:
            return f"cost {used.cost} of {most}"
        return None

    def begin(self) -> None:
        """A run begins."""
        self.reset()

    def stop(self) -> Stop | None:
        """Return why nothing more may be begun, or None."""
        why = self.exceeded()
        if why is not None:
            return Stop("limit", f"budget exceeded ({why})")
        used = self.total_usage
        if self.max_cost_usd is None or (used.cost is not None and (used.currency == "USD" or not used.cost)):
            return None
        return Stop(COST_UNKNOWN, f"the budget of {self.max_cost_usd} USD cannot be kept: nobody says what it cost")

    def reserve(self, worst: Worst, cancel: Cancel) -> object:
        """Set nothing aside: the guard looks at what was used."""
        return self

    async def areserve(self, worst: Worst, cancel: Cancel) -> object:
        """Set nothing aside."""
        return self

    def settle(self, ticket: object, usage: Usage | None) -> None:
        """Count what a request used."""
        if usage is not None:
            self.add(usage)
