"""Whether the next request fits the model's window, decided before it is made.

Floor: 1. Owns: the sum of a request's parts against a window, and the words for what does not fit; never: a request,
and making room (`compact`).

Two questions, two answers. `fits` weighs the likely size with the room that an answer needs, and says what to do: that
is when history is summarised. `overflow_of` asks what is *known*: even by the lowest count the request is larger than
the window, so that sending it would only be refused. It never is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from plait.core.exchange import ProviderFailed, ToolSchema
from plait.core.messages import Message
from plait.core.values import dataclass
from plait.kernel.counting import Counted, TokenCounter, count_messages, count_system, count_tools
from plait.kernel.gauge import LEAST_PER_UNIT, Measure, text_units, tool_units, units_of
from plait.kernel.state import State

Provenance = Literal["measured", "estimated", "unavailable"]
Decision = Literal["fits", "compact", "oversized", "unavailable"]

_HELD_BACK: Final = 64
"""One token in so many is left over, where an answer is to have all that the window leaves."""
_LARGE: Final = 1 / 4
"""A message with so much of the window is named in the error."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of tokens and where it comes from; None only where it is unavailable."""

    value: int | None
    provenance: Provenance = "estimated"

    @classmethod
    def of(cls, value: int | None, provenance: Provenance = "estimated") -> Quantity:
        """Return a quantity; one without a value is unavailable."""
        return cls(value, "unavailable" if value is None else provenance)


NOTHING_KEPT: Final = Quantity(0, "measured")


@dataclass(frozen=True, slots=True)
class Accounted:
    """One part of a request: the system prompt, the tools, the reserve for the answer, …"""

    name: str
    tokens: Quantity


@dataclass(frozen=True, slots=True)
class Fit:
    """How a request stands to its window."""

    decision: Decision
    """`compact`: it would fit with less history. `oversized`: without any history it would not."""
    available: int | None
    """Tokens left for history: the window less everything that is reserved. Negative where that alone is too much."""
    left: int | None
    """What is left when the history is in, negative where it does not fit. 0 fits."""
    parts: tuple[Accounted, ...]
    """Everything reserved, and the history last."""

    @property
    def provenance(self) -> Provenance:
        """The weakest of the parts' provenances."""
        found = {part.tokens.provenance for part in self.parts}
        return "unavailable" if "unavailable" in found else "estimated" if "estimated" in found else "measured"


def fits(window: Quantity, reserved: Sequence[Accounted], history: Quantity, *, kept: Quantity = NOTHING_KEPT) -> Fit:
    """Weigh a request against a window; a pure function of the numbers.

    Args:
        window: of the model.
        reserved: every part but the history, the room for the answer among them.
        history: all messages.
        kept: that part of `history` which no summary would make smaller.
    """
    parts = (*reserved, Accounted("history", history))
    values = [part.tokens.value for part in reserved]
    if window.value is None or history.value is None or kept.value is None or None in values:
        return Fit("unavailable", None, None, parts)
    available = window.value - sum(value for value in values if value is not None)
    left = available - history.value
    if left >= 0:
        decision: Decision = "fits"
    else:
        decision = "oversized" if available < kept.value or available < 0 else "compact"
    return Fit(decision, available, left, parts)


class Room:
    """What the requests of a conversation have to fit into, and what all of them begin with."""

    __slots__ = ("_counted", "_head", "count", "origin", "reserve", "system", "tools", "usual", "window")

    def __init__(
        self,
        window: int | None,
        *,
        usual: int | None = None,
        reserve: int = 0,
        system: str = "",
        tools: Sequence[ToolSchema] = (),
        count: TokenCounter | None = None,
        origin: str = "",
    ) -> None:
        """Describe the room.

        Args:
            window: tokens that a request may have at most, where that is known of this very model.
            usual: tokens that certainly fit, where no more is known: an endpoint's other models may take more.
            reserve: tokens of the answer, which `weigh` leaves room for.
            system, tools: as every request sends them.
            count: counts the tokens of a text for this very model, in place of an estimate by its size.
            origin: which model it is, as its answers say; empty where that is not known.
        """
        self.origin = origin
        self.count = count
        self._counted: tuple[Counted, Counted] | None = None
        self.window, self.usual, self.reserve = window, usual or window, reserve
        self.system, self.tools = system, tools
        self._head: tuple[int, int] | None = None

    @property
    def head(self) -> tuple[int, int]:
        """Units of the system prompt and of the tools; counted when somebody asks first."""
        if self._head is None:
            self._head = text_units(self.system), tool_units(self.tools)
        return self._head

    def counted(self, count: TokenCounter) -> tuple[Counted, Counted]:
        """Tokens of the system prompt and of the tools, by an exact counter; counted when somebody asks first."""
        if self._counted is None:
            self._counted = count_system(self.system, count), count_tools(self.tools, count)
        return self._counted

    def head_tokens(self, per_unit: float) -> tuple[int, int]:
        """Likely tokens of both."""
        if self.count is None:
            system, tools = self.head
            return round(system * per_unit), round(tools * per_unit)
        counted = self.counted(self.count)
        return counted[0].likely, counted[1].likely


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many tokens a request will have."""

    tokens: int
    """Most likely."""
    least: int
    """At the lowest."""
    per_unit: float
    is_measured: bool
    """The provider has reported most of it."""


def estimate(state: State, room: Room, extra: Sequence[Message] = (), length: int | None = None) -> Estimate:
    """Estimate the request that shows all of the history, or its first messages, and `extra`."""
    history, head_units = state.history, sum(room.head)
    length = len(history) if length is None else length
    gauge = state.gauge
    per_unit = gauge.per_unit(head_units, history)
    least_per_unit = min(LEAST_PER_UNIT, per_unit / 2)
    anchor = gauge.anchor(head_units, history, per_unit, length)
    if anchor is None:
        units, least_units = head_units, head_units
        tokens = least = 0
        fresh = [*history[:length], *extra]
    else:
        # The answer is in the history now; in which form it goes back, reasoning included or not, is not known.
        units = least_units = 0
        tokens, least = anchor.input + (anchor.said if anchor.length < length else 0), anchor.input
        fresh = [*history[anchor.length + 1 : length], *extra]
    if room.count is not None:
        more = count_messages(fresh, room.count)
        if anchor is None:
            more += sum(room.counted(room.count), Counted(0, 0))
        return Estimate(tokens + more.likely, least + more.least, per_unit, anchor is not None)
    units += units_of(fresh)
    least_units += units_of(fresh, image_tokens=0)
    return Estimate(
        tokens + round(units * per_unit), least + int(least_units * least_per_unit), per_unit, anchor is not None
    )


def weigh(state: State, room: Room, extra: Sequence[Message] = (), *, window: int | None = None) -> Fit:
    """Weigh the next request as it is likely to be, with the room that its answer needs.

    Args:
        window: in place of what certainly fits, for a threshold.
    """
    found = estimate(state, room, extra)
    system, tools = room.head_tokens(found.per_unit)
    whence: Provenance = "measured" if found.is_measured else "estimated"
    reserved = (
        Accounted("system", Quantity(system)),
        Accounted("tools", Quantity(tools)),
        Accounted("answer", Quantity(room.reserve, "measured")),
    )
    history = Quantity(max(0, found.tokens - system - tools), whence)
    return fits(Quantity.of(window or room.usual, "measured"), reserved, history)


def overflow_of(state: State, room: Room, extra: Sequence[Message] = ()) -> ProviderFailed | None:
    """Return the failure that the next request is known to end in, None where it may fit.

    A window that a request was answered beyond is not the model's.
    """
    window, newest = room.window, state.gauge.newest
    if window is None:
        return None
    if newest is not None and not extra and _most(newest, state.history) <= window:
        return None  # nearly always: a token for every byte that came since would still fit
    if answered_beyond(state, window, room.origin):
        return None
    found = estimate(state, room, extra)
    if found.least <= window:
        return None
    told = _told(state, room, extra, found)
    return ProviderFailed(
        "context_overflow",
        f"the request has about {found.tokens:,} tokens and the window {window:,}, so it was not sent: {told}",
        retryable=False,
        tokens=(found.tokens, window),
        phase="before",
        hint="leave out what is large, let history be summarised, or choose a model with a larger window",
    )


def sizes_around(state: State, room: Room | None, old: Sequence[Message], new: Sequence[Message]) -> tuple[int, int]:
    """Return how many tokens the next request has likely, and how many with `new` in the place of `old`."""
    found = estimate(state, room or Room(None))
    gone, come = units_of(old), units_of(new)
    after = found.tokens - round((gone - come) * found.per_unit)
    return found.tokens, max(after, round(come * found.per_unit))


def answered_beyond(state: State, tokens: int, origin: str = "") -> bool:
    """Say whether the model, or any where it is not named, has answered a request of more tokens than that."""
    return any(
        measure.input > tokens and (not origin or state.history[measure.length].origin in ("", origin))
        for measure in state.gauge.measures
    )


def left_for_answer(state: State, room: Room, extra: Sequence[Message], length: int) -> int | None:
    """Return how many tokens the window leaves to the answer when so many messages and `extra` are shown.

    A little is held back, because part of it is estimated. None where nothing is known of the window; 0 or less where
    the request itself is not likely to fit.
    """
    window = room.window or room.usual
    if window is None or answered_beyond(state, window, room.origin):
        return None
    return window - estimate(state, room, extra, length).tokens - window // _HELD_BACK


def is_hopeless(state: State, room: Room) -> bool:
    """Say whether the last message, or the last round, would not fit even alone: no summary of others helps then."""
    if room.window is None:
        return False
    history, start = state.history, len(state.history) - 1
    while start > 0 and history[start].role == "tool":
        start -= 1
    if room.count is not None:
        alone = sum(room.counted(room.count), count_messages(history[max(0, start) :], room.count))
        return alone.least > room.window
    per_unit = state.gauge.per_unit(sum(room.head), history)
    units = sum(room.head) + units_of(history[max(0, start) :], image_tokens=0)
    return int(units * min(LEAST_PER_UNIT, per_unit / 2)) > room.window


def _most(newest: Measure, history: Sequence[Message]) -> int:
    return newest.input + newest.said + units_of(history[newest.length + 1 :])


def _told(state: State, room: Room, extra: Sequence[Message], found: Estimate) -> str:
    """Say how large each part is, and which messages are large."""
    assert room.window is not None
    system, tools = room.head_tokens(found.per_unit)
    messages = [*state.history, *extra]
    sizes = [_likely(message, room, found.per_unit) for message in messages]
    words = [f"system prompt {system:,}", f"tools {tools:,}", f"messages {sum(sizes):,}"]
    large = [
        f"message {number} ({_what(message)}) {size:,}"
        for number, (message, size) in enumerate(zip(messages, sizes, strict=True), 1)
        if size > room.window * _LARGE
    ]
    return ", ".join(words) + (f"; large are {', '.join(large[-3:])}" if large else "")


def _likely(message: Message, room: Room, per_unit: float) -> int:
    if room.count is None:
        return round(units_of((message,)) * per_unit)
    return count_messages((message,), room.count).likely


def _what(message: Message) -> str:
    return "tool results" if message.role == "tool" else message.role
