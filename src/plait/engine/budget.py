"""What several agents and sessions may spend together.

Floor: 4. Owns: what is spent, what is set aside, and who waits; never: what a request may come to (`purse`).

Before a request its worst case is set aside, so that requests which run side by side cannot spend the same money. Where
the worst case is more than what is left, the request runs alone, and the others wait for what it leaves: small budgets
are not refused for the sake of what hardly happens, and at most one request goes beyond the limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from plait.core.cancel import Cancel
from plait.core.errors import LimitReached
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.limits import COST_UNKNOWN
from plait.engine.purse import Worst
from plait.kernel.effects import Interrupted, Stop

Amounts = Mapping[str, Decimal | int]
COST: Final = "cost"


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """What is set aside for one request."""

    amounts: Amounts


class Budget:
    """Ceilings that agents and sessions share: `Limits(budget=…)`. Safe in any thread and event loop.

    What is set aside is given back when a request ends, however it ends.
    """

    def __init__(
        self,
        *,
        max_cost: Decimal | float | str | None = None,
        max_input_tokens: int | None = None,
        max_tokens: int | None = None,
        max_steps: int | None = None,
        currency: str = "USD",
    ) -> None:
        """Set the ceilings; None is none.

        Args:
            max_cost: money. A model of which nobody says what it costs ends everything after one answer.
            max_input_tokens: tokens of all requests.
            max_tokens: tokens of all requests and answers.
            max_steps: answers.
            currency: ISO code of the money.

        Raises:
            ValueError: a ceiling is below nothing, or no number.
        """
        cost = None if max_cost is None else Decimal(str(max_cost))
        given = {COST: cost, "steps": max_steps, "input tokens": max_input_tokens, "tokens": max_tokens}
        for name, value in given.items():
            if value is not None and not (0 <= value < float("inf")):
                raise ValueError(f"a budget of {value} {name} is none")
        self.currency = currency
        self._most: Mapping[str, Decimal | int] = {name: most for name, most in given.items() if most is not None}
        self._lock = threading.Lock()
        self._used = Usage.ZERO
        self._steps = 0
        self._held: set[Reservation] = set()
        self._waiting: list[Callable[[], None]] = []

    @property
    def used(self) -> Usage:
        """What all answers so far have used; the cost is None once one of them did not say."""
        return self._used

    @property
    def steps(self) -> int:
        """Answers so far."""
        return self._steps

    @property
    def held(self) -> int:
        """Requests that are under way."""
        return len(self._held)

    def begin(self) -> None:
        """A line to a model was opened: nothing begins anew here."""

    def stop(self) -> Stop | None:
        """Return why nothing more may be begun, or None."""
        with self._lock:
            return self._over()

    def reserve(self, worst: Worst, cancel: Cancel) -> Reservation:
        """Set the worst case of a request aside; wait while others hold what it needs.

        Raises:
            Interrupted: everything is spent, with `LimitReached` as its cause, or `cancel` was given.
        """
        woken = threading.Event()
        wake = woken.set
        while (found := self._take(worst, wake)) is None:
            undo = cancel.on_cancel(wake)
            try:
                woken.wait()
            finally:
                undo()
                self._leave(wake)
            _raise_if_told(cancel)
            woken.clear()
        return found

    async def areserve(self, worst: Worst, cancel: Cancel) -> Reservation:
        """Do the same in an event loop; a cancelled task holds nothing."""
        import asyncio  # a thread's conversations do without

        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken.set)

        while (found := self._take(worst, wake)) is None:
            undo = cancel.on_cancel(wake)
            try:
                await woken.wait()
            finally:
                undo()
                self._leave(wake)
            _raise_if_told(cancel)
            woken.clear()
        return found

    def settle(self, ticket: object, usage: Usage | None) -> None:
        """Give back what was set aside, and count what the request used; None: nothing. Once for each ticket."""
        with self._lock:
            if not isinstance(ticket, Reservation) or ticket not in self._held:
                return
            self._held.remove(ticket)
            if usage is not None:
                self._used += usage
                self._steps += 1
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def _take(self, worst: Worst, wake: Callable[[], None]) -> Reservation | None:
        """Set aside, or have `wake` called when something is given back and return None."""
        with self._lock:
            stop = self._over()
            if stop is not None:
                raise Interrupted(stop.reason) from LimitReached(
                    stop.detail, limit=stop.reason, hint="give the budget more, or share it with fewer agents"
                )
            wanted, amounts, is_short = self._wanted(worst), dict[str, Decimal | int](), False
            for name, most in self._most.items():
                left = most - self._spent(name) - sum(held.amounts[name] for held in self._held)
                want = wanted[name]
                is_short = is_short or want is None or want > left
                amounts[name] = left if want is None else min(want, left)
            if is_short and self._held:
                self._waiting.append(wake)
                return None
            reservation = Reservation(amounts)
            self._held.add(reservation)
            return reservation

    def _leave(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._waiting = [each for each in self._waiting if each is not wake]

    def _wanted(self, worst: Worst) -> Mapping[str, Decimal | int | None]:
        total = None if worst.output is None else worst.input + worst.output
        cost = worst.cost if worst.currency == self.currency else None
        return {COST: cost, "steps": 1, "input tokens": worst.input, "tokens": total}

    def _spent(self, name: str) -> Decimal | int:
        used = self._used
        if name == COST:
            return used.cost or Decimal(0)
        return {"steps": self._steps, "input tokens": used.input_tokens, "tokens": used.total or 0}[name]

    def _over(self) -> Stop | None:
        used, most_cost = self._used, self._most.get(COST)
        is_foreign = used.cost is not None and used.cost != 0 and used.currency != self.currency
        if most_cost is not None and (used.cost is None or is_foreign):
            return Stop(COST_UNKNOWN, f"the shared budget of {most_cost} {self.currency} cannot be kept: {_why(used)}")
        for name, most in self._most.items():
            spent = self._spent(name)
            if spent >= most:
                return Stop("limit", f"shared budget exceeded ({_told(name, spent, most)})")
        return None


def _why(used: Usage) -> str:
    return "nobody says what an answer cost" if used.cost is None else f"the cost is told in {used.currency}"


def _told(name: str, spent: Decimal | int, most: Decimal | int) -> str:
    return f"cost {spent} of {most}" if name == COST else f"{spent} of {most} {name}"


def _raise_if_told(cancel: Cancel) -> None:
    if cancel.reason is not None:
        raise Interrupted(cancel.reason)
