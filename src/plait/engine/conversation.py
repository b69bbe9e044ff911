"""One conversation with a model: its state, its log, its line, run turn by turn in either colour.

Floor: 4. Owns: what lasts from one turn to the next; never: where facts are stored (`log` is handed in).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from plait.core.cancel import Cancel
from plait.core.clock import Clock, SystemClock
from plait.core.errors import JournalError, JournalPoisoned, RequestTooLarge, SessionBusy, UnsupportedFeature
from plait.core.events import Committed
from plait.core.facts import Observation, Reset
from plait.core.ids import new_id
from plait.core.images import IMAGE_BYTES_MAX
from plait.core.messages import Image, Message, ToolCall, ToolResult
from plait.core.values import dataclass
from plait.engine.cache.proof import CacheTerms
from plait.engine.cache.watch import CacheWatch
from plait.engine.hosts.async_host import AsyncHost
from plait.engine.hosts.stage import Policy, Resolve, Stage
from plait.engine.hosts.sync_host import SyncHost
from plait.engine.observers import Observers, teller
from plait.engine.recovery import resolver
from plait.engine.room import room_of, rules_in
from plait.engine.side_calls import call_beside
from plait.engine.threads import Threads
from plait.kernel.compact import compact_now
from plait.kernel.drivers import adrive, drive
from plait.kernel.effects import End
from plait.kernel.log import AsyncFactLog, FactLog, MemoryLog
from plait.kernel.loop import Loop, turn
from plait.kernel.ports import AsyncChannel, Channel, Model, Setup
from plait.kernel.rounds import unanswered
from plait.kernel.rules import Rules
from plait.kernel.state import State
from plait.kernel.tools import ToolTable
from plait.tools.portal import Portal

if TYPE_CHECKING:
    from plait.engine.purse import Purse


@dataclass
class Workbench:
    """What conversations of one program share: time, threads, the loop for async tools."""

    clock: Clock = field(default_factory=SystemClock)
    threads: Threads = field(default_factory=Threads)
    portal: Portal = field(default_factory=Portal)


@dataclass(frozen=True)
class Terms:
    """What a conversation is held under."""

    tools: ToolTable
    setup: Setup
    policy: Policy = field(default_factory=Policy)
    rules: Rules = field(default_factory=Rules)
    resolve: Resolve | None = None
    """Finds out what became of a call that an earlier process started; None asks the call's tool (`Tool.recovery`)."""
    cache: CacheTerms = field(default_factory=CacheTerms)
    """What the endpoint's prompt cache has to prove."""


class Conversation:
    """Holds a conversation; one turn at a time, from any thread or event loop."""

    def __init__(
        self,
        model: Model,
        terms: Terms,
        bench: Workbench,
        *,
        state: State | None = None,
        log: FactLog | None = None,
        alog: AsyncFactLog | None = None,
        id: str = "",
        is_durable: bool | None = None,
    ) -> None:
        """Begin, or go on from `state`.

        Args:
            state: a fold of what `log` holds.
            log: where facts go; without one in either colour they go nowhere.
            is_durable: whether they outlive this process, which is taken for granted of a log that is given.
        """
        self.model = model
        self.terms = terms
        self.id = id or new_id("s")
        self.state = state or State()
        self.observers = Observers()
        self.cache = CacheWatch(self.observers.publish)
        """Watches what requests find in the endpoint's cache; after a resume it is given the entries so far."""
        self._unwatch = self.observers.add(self.cache.take, Committed)
        self._bench = bench
        memory = MemoryLog(bench.clock.now_ms, run_id=self.id) if log is None or alog is None else None
        self._is_durable = memory is None if is_durable is None else is_durable
        self._log: FactLog = log or memory  # type: ignore[assignment]
        self._alog: AsyncFactLog = alog or memory  # type: ignore[assignment]
        self._channel: Channel | None = None
        self._achannel: AsyncChannel | None = None
        self._busy = threading.Lock()
        self._broken: JournalError | None = None
        self._busy_s = 0.0
        """Seconds that turns have taken so far."""
        self._rules = self._roomy()

    def in_form(self, line: object) -> None:
        """Have another line send its requests as the conversation's own does: with what was learnt of the endpoint."""
        theirs: Any = getattr(line, "line", None)
        form = getattr(getattr(self._channel, "line", None), "form", None)
        if form is not None and theirs is not None and theirs.form != form:
            theirs.take_on(form)

    @property
    def rules(self) -> Rules:
        """What the loop goes by: the terms' rules in the room that the model has."""
        return self._rules

    @property
    def log(self) -> FactLog:
        """The log that sync turns write to."""
        return self._log

    def turn(
        self, inputs: tuple[Message, ...] = (), *, cancel: Cancel | None = None, sender: str = "", resume: bool = False
    ) -> End:
        """Run one turn in this thread; an unfinished one goes on first.

        Durability: every fact of the turn is in the log, on return and on any exception but a `JournalError`.
        Cancel: `cancel` from any thread, or Ctrl-C in the main thread, ends it as interrupted.
        """
        with self._held():
            self._open_line()
            if self.state.in_turn and not resume and not self.state.lacks_question:
                end = self._drive(turn(self.state, self.terms.tools, self._rules, resume=True), cancel)
                if end.reason == "interrupted":
                    return end
            loop = turn(self.state, self.terms.tools, self._rules, inputs, resume=resume, sender=sender)
            return self._drive(loop, cancel)

    async def aturn(
        self, inputs: tuple[Message, ...] = (), *, cancel: Cancel | None = None, sender: str = "", resume: bool = False
    ) -> End:
        """Run one turn in this task; an unfinished one goes on first.

        Cancel: a cancelled task closes the turn and raises CancelledError; `cancel` ends it as interrupted.
        """
        with self._held():
            if self._achannel is None:
                self._achannel = self._payer.aopen(replace(self.terms.setup, tell=teller(self.observers, self._alog)))
                self.cache.opened(self._achannel)
            if self.state.in_turn and not resume and not self.state.lacks_question:
                end = await self._adrive(turn(self.state, self.terms.tools, self._rules, resume=True), cancel)
                if end.reason == "interrupted":
                    return end
            loop = turn(self.state, self.terms.tools, self._rules, inputs, resume=resume, sender=sender)
            return await self._adrive(loop, cancel)

    def compact(self, keep_last_turns: int, *, cancel: Cancel | None = None) -> End:
        """Between turns, ask the model for a summary of all but the last turns, and put it in their place.

        Durability: what the end says is in the log, on return. Cancel: as a turn; nothing is replaced then.
        """
        with self._held():
            self._open_line()
            return self._drive(compact_now(self.state, keep_last_turns, self._rules), cancel)

    def rewrite(self, start: int, end: int, messages: tuple[Message, ...], why: str) -> None:
        """Put other messages in the place of history from `start` to `end`, between turns.

        Durability: the fact is in the log, and committed with the next turn at the latest.
        """
        with self._held():
            fact = Reset(start, end, messages, why)
            self.state.apply(fact)
            self._log.append((fact,))

    def forgo(self, why: str) -> None:
        """Give every call that still waits for an answer from outside `why` as its result, between turns.

        Durability: as `rewrite`.
        """
        with self._held():
            if self.state.round is None:
                return
            facts = tuple(unanswered(self.state.round, why))
            for fact in facts:
                self.state.apply(fact)
            self._log.append(facts)

    def call(self, call: ToolCall, policy: Policy, *, cancel: Cancel | None = None) -> ToolResult:
        """Run a tool call of a program's, between turns and beside the conversation; see `call_beside`."""
        with self._held():
            return call_beside(call, replace(self._stage(cancel), policy=policy), self._log, self._bench.portal)

    def note(self, *facts: Observation) -> None:
        """Record what is for people and reports, between turns; durable with the next barrier."""
        with self._held():
            self._log.append(facts)

    def commit(self) -> None:
        """Make what `rewrite` recorded durable, and show it to the observers.

        Durability: every fact so far is in the log, on return.
        """
        with self._held():
            self.show()

    def show(self) -> None:
        """Make the facts so far durable and show them; for a boundary hook, which runs inside a sync turn."""
        self._log.commit()
        for entry in self._log.take_committed():
            self.observers.publish(Committed(entry))

    def change(self, model: Model, terms: Terms) -> None:
        """Go on with another model, or under other terms, from the next turn on; not while an async line is open."""
        with self._held():
            if model is self.model and terms == self.terms:
                return
            assert self._achannel is None, "an async line has to be closed in its event loop first"
            self.close()
            self.model, self.terms = model, terms
            self._rules = self._roomy()

    def close(self) -> None:
        """Give the line to the model back."""
        if self._channel is not None:
            self.cache.closing(self._channel)
            self._channel.close()
            self._channel = None

    async def aclose(self) -> None:
        """Give the line to the model back, in the event loop that used it."""
        self.close()
        if self._achannel is not None:
            channel, self._achannel = self._achannel, None
            self.cache.closing(channel)
            await channel.aclose()

    @property
    def _payer(self) -> Model:
        """The model, whose requests are paid for where somebody holds the purse."""
        purse = self.terms.policy.limits.budget
        return self.model if purse is None else _paid_from(purse, self.model)

    def _roomy(self) -> Rules:
        """The terms' rules, and the room that the model's window leaves."""
        return rules_in(room_of(self.model, self.terms.setup), self.terms.rules)

    def _open_line(self) -> None:
        if self._channel is None:
            self._channel = self._payer.open(replace(self.terms.setup, tell=teller(self.observers, self._log)))
            self.cache.opened(self._channel)

    def _drive(self, loop: Loop, cancel: Cancel | None) -> End:
        assert self._channel is not None
        host = SyncHost(self._stage(cancel), self._log, self._channel, self._bench.portal)
        with self._timed():
            return drive(loop, host)

    async def _adrive(self, loop: Loop, cancel: Cancel | None) -> End:
        assert self._achannel is not None
        with self._timed():
            return await adrive(loop, AsyncHost(self._stage(cancel), self._alog, self._achannel))

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Count the seconds of a turn."""
        began_s = self._bench.clock.monotonic_s()
        try:
            yield
        finally:
            self._busy_s += self._bench.clock.monotonic_s() - began_s

    def _stage(self, cancel: Cancel | None) -> Stage:
        # Last of all observers: whoever hears of an answer hears afterwards what the cache did for it.
        self._unwatch()
        self._unwatch = self.observers.add(self.cache.take, Committed)
        self.cache.begin(self.model, self.terms.cache)
        return Stage(
            self.state,
            self.terms.tools,
            self.terms.policy,
            self.observers,
            cancel or Cancel(),
            self._bench.clock,
            self._bench.threads,
            self.terms.resolve or resolver(self.terms.tools, self.terms.policy.finishing),
            self.cache,
            self._is_durable,
            self._rules,
            self._busy_s,
        )

    @contextmanager
    def _held(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise SessionBusy(
                f"the session {self.id!r} is in the middle of a turn", hint="wait for it, or use another session"
            )
        try:
            if self._broken is not None:
                raise JournalPoisoned(
                    f"the log of the session {self.id!r} failed before: {self._broken}", hint="open the session again"
                )
            yield
        except JournalError as error:
            # What memory holds beyond the log was never promised; only a fresh fold of the log can be trusted.
            self._broken = self._broken or error
            raise
        finally:
            self._busy.release()


def _paid_from(purse: Purse, model: Model) -> Model:
    from plait.engine.purse import PaidModel  # most conversations share nothing

    return PaidModel(model, purse)


def check_images(model: Model, images: Sequence[Image]) -> None:
    """Raise for pictures that the model does not take: they are not dropped in silence.

    Raises:
        UnsupportedFeature: it takes none. RequestTooLarge: one is larger than its endpoint takes.
    """
    if images and not model.supports_images:
        raise UnsupportedFeature(
            f"the model {model.name!r} takes no images", hint="ask without images, or choose a model with vision"
        )
    size_max = getattr(model, "image_bytes_max", IMAGE_BYTES_MAX)
    for number, image in enumerate(images, 1):
        if image.size_bytes > size_max:
            raise RequestTooLarge(
                f"picture {number} has {image.size_bytes:,} bytes, and {model.name!r} takes {size_max:,} at most",
                hint="make it smaller; models scale pictures down",
            )
