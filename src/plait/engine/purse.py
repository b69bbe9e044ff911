"""Requests that are paid from somewhere: before one is made its worst case is set aside, afterwards what it came to.

Floor: 4. Owns: a model whose every request goes through a purse, in both colours side by side; never: what a purse
allows (`budget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed, Reply
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.wrapped_model import WrappedModel
from plait.kernel.effects import Interrupted, Stop, Think
from plait.kernel.gauge import text_units, tool_units, units_of
from plait.kernel.ports import AsyncChannel, Channel, Emit, Model, Setup

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_PER_UNIT: Final = 1 / 2
"""More tokens a byte than this no tokenizer makes of what agents read and write."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The most that one request may use; None is without end, or not known."""

    input: int
    output: int | None
    cost: Decimal | None
    currency: str = "USD"


class Purse(Protocol):
    """What requests are paid from. Safe in any thread; never waits but in `reserve` and `areserve`."""

    def begin(self) -> None:
        """A line to a model was opened."""
        ...

    def stop(self) -> Stop | None:
        """Return why nothing more may be begun, or None."""
        ...

    def reserve(self, worst: Worst, cancel: Cancel) -> object:
        """Set the worst case aside and return a ticket for `settle`; raise `Interrupted` where nothing is left."""
        ...

    async def areserve(self, worst: Worst, cancel: Cancel) -> object:
        """Do the same in an event loop."""
        ...

    def settle(self, ticket: object, usage: Usage | None) -> None:
        """Give the ticket back with what the request used; None: it was not answered."""
        ...


class PaidModel(WrappedModel):
    """A model whose requests are paid from a purse; everything else is the model's own."""

    def __init__(self, model: Model, purse: Purse) -> None:
        super().__init__(model)
        self._purse = purse

    def open(self, setup: Setup) -> Channel:
        """Open a line for a thread."""
        self._purse.begin()
        return cast("Channel", _Channel(self._model.open(setup), _Teller(self._model, setup, self._purse)))

    def aopen(self, setup: Setup) -> AsyncChannel:
        """Open a line for an event loop."""
        self._purse.begin()
        return cast("AsyncChannel", _AsyncChannel(self._model.aopen(setup), _Teller(self._model, setup, self._purse)))


class _Teller:
    """Says what a line's next request may come to, and settles what it came to."""

    def __init__(self, model: Model, setup: Setup, purse: Purse) -> None:
        self.purse = purse
        self._model = model
        self._options = setup.options
        self._head = text_units(setup.system) + tool_units(setup.tools)
        self._counted: tuple[int, int, int] = (-1, 0, 0)
        """Epoch, number of messages, and their units."""

    def worst(self, ask: Think) -> Worst:
        """Return the most that a request may use."""
        view = ask.view
        epoch, count, units = self._counted
        if epoch != view.epoch or count > view.length:
            count = units = 0
        units += units_of(view.history[count : view.length])
        self._counted = view.epoch, view.length, units
        tokens = round((self._head + units + units_of(view.extra)) * _MOST_PER_UNIT)
        window = self._model.context_window
        if window is not None:
            tokens = min(tokens, window)
        output = self._options.max_output_tokens or (None if window is None else window - tokens)
        return Worst(tokens, output, *self._cost(tokens, output))

    @contextmanager
    def paying(self, ticket: object) -> Iterator[_Bill]:
        """Settle a ticket, whatever becomes of the request."""
        bill = _Bill()
        try:
            yield bill
        except (ProviderFailed, Interrupted) as failure:
            bill.usage = failure.usage
            raise
        finally:
            self.purse.settle(ticket, bill.usage)

    def _cost(self, tokens: int, output: int | None) -> tuple[Decimal | None, str]:
        counted = getattr(self._model, "counted", None)
        if counted is None or output is None:
            return None, "USD"
        # Written into a cache it costs the most.
        usages: Sequence[Usage] = [
            counted(Usage(tokens, output, cache_read=0, cache_write=write)) for write in (0, tokens)
        ]
        costs = [usage.cost for usage in usages if usage.cost is not None]
        return (max(costs), usages[0].currency) if len(costs) == len(usages) else (None, "USD")


class _Bill:
    """What a request used."""

    usage: Usage | None = None


class _Line:
    """What both colours share; everything else is the line's own."""

    def __init__(self, line: Any, teller: _Teller) -> None:
        self._line = line
        self._teller = teller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)


class _Channel(_Line):
    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request, if it can be paid for."""
        teller = self._teller
        with teller.paying(teller.purse.reserve(teller.worst(ask), cancel)) as bill:
            reply: Reply = self._line.think(ask, emit, cancel)
            bill.usage = reply.usage
            return reply


class _AsyncChannel(_Line):
    async def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request, if it can be paid for."""
        teller = self._teller
        with teller.paying(await teller.purse.areserve(teller.worst(ask), cancel)) as bill:
            reply: Reply = await self._line.think(ask, emit, cancel)
            bill.usage = reply.usage
            return reply
