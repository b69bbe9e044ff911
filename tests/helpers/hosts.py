"""Small hosts for the drivers, in both colours, that note everything and check the order rule as they go.

The rule (P-WAL): when something outside can see a consequence — a request, a call that changes something, a published
fact, a return — every fact before it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from plait.core.cancel import Cancel
from plait.core.events import Committed, Event
from plait.core.exchange import Reply
from plait.core.facts import Fact
from plait.core.messages import Message, ToolCall, ToolResult, assistant
from plait.core.usage import Usage
from plait.kernel.drivers import adrive, drive
from plait.kernel.effects import NOTHING, Act, Allow, Ask, Boundary, Deny, End, Outcome, Plan, Think
from plait.kernel.log import Barrier, MemoryLog
from plait.kernel.loop import Loop, turn
from plait.kernel.rules import Rules
from plait.kernel.state import State, fold
from plait.kernel.tools import ToolTable
from tests.helpers.worlds import TABLE, TASK, assert_same_state

Step = Any
"""What an effect does: a value to answer, an exception to raise, or a function (perhaps async) to call."""


class DiskFull(Exception):
    """A barrier failed."""


class Crash(BaseException):
    """The process ends here."""


class NotedLog(MemoryLog):
    """A log in memory that counts its barriers and can fail or crash."""

    def __init__(
        self, *, fail_at: int | None = None, crash_at: int | None = None, hops: int = 0, is_barrier: bool = False
    ) -> None:
        super().__init__(lambda: 0)
        self._is_barrier = is_barrier
        self.commits = 0
        self._fail_at = fail_at
        self._crash_at = crash_at
        self._hops = hops

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in, up to the one where the process ends."""
        for fact in facts:
            if self._crash_at == len(self.entries):
                raise Crash
            super().append((fact,))

    def commit(self) -> Any:
        """Make a barrier; a slow store takes a few rounds of the event loop for it."""
        if not self.uncommitted:
            return None
        if not self._hops:
            return self._commit()
        return self._as_barrier() if self._is_barrier else self._slowly()

    def _as_barrier(self) -> Barrier:
        """Give what no cancellation reaches; it is made by what the event loop calls, as by a thread of the store's."""
        barrier, loop = Barrier(), asyncio.get_running_loop()

        def go_on(left: int) -> None:
            if left:
                loop.call_soon(go_on, left - 1)
                return
            try:
                self._commit()
            except DiskFull as error:
                barrier.set_exception(error)
            else:
                barrier.set_result(None)

        loop.call_soon(go_on, self._hops)
        return barrier

    async def _slowly(self) -> None:
        upto = len(self.entries)
        for _ in range(self._hops):
            await asyncio.sleep(0)
        assert upto == len(self.entries), "facts were added while their barrier was under way"
        self._commit()

    def _commit(self) -> None:
        self.commits += 1
        if self._fail_at == self.commits:
            raise DiskFull("no space left")
        super().commit()

    @property
    def facts(self) -> list[Fact]:
        """All facts, the durable and the others."""
        return [entry.fact for entry in self.entries]

    @property
    def durable(self) -> list[Fact]:
        """The facts that a crash leaves."""
        return self.facts[: self._committed]


class Notes:
    """What both hosts are: scripts, what runs, and what was seen."""

    def __init__(
        self,
        replies: Sequence[Step],
        *,
        log: NotedLog | None = None,
        tools: ToolTable = TABLE,
        calls: Mapping[str, Step] | None = None,
        boundary: Step = NOTHING,
        approve: Step = None,
        publish: Callable[[Event], None] | None = None,
    ) -> None:
        self.log: Any = log or NotedLog()
        self.cancel = Cancel()
        self.state = State()
        self.tools = tools
        self.seen: list[str] = []
        self.published: list[int] = []
        self.ran: list[str] = []
        self.abandoned = 0
        self._replies = list(replies)
        self._calls = dict(calls or {})
        self._boundary = boundary
        self._approve = approve
        self._publish = publish
        self._pending: list[ToolCall] = []
        self._handed: list[Outcome] = []
        self._said: Message | None = None

    @property
    def running(self) -> int:
        """Calls that were started and not yet handed back."""
        return len(self._pending)

    @property
    def partial_words(self) -> str:
        """What the model has said of the answer under way."""
        return "" if self._said is None else self._said.content

    @partial_words.setter
    def partial_words(self, words: str) -> None:
        self._said = assistant(words)

    def needs_barrier(self, calls: Sequence[ToolCall]) -> bool:
        """Calls that may not be repeated need a durable start."""
        return not all(self.tools.is_repeatable(call) for call in calls)

    def asks(self, call: ToolCall) -> bool:
        """Whoever approves is asked without a barrier before."""
        return False

    def start(self, act: Act) -> None:
        """Take calls in; they run when they are waited for."""
        if act.resolve or self.needs_barrier(act.calls):
            self.check_safe("act")
        self.seen.append("act " + ",".join(call.id for call in act.calls))
        self._pending += act.calls

    def partial(self) -> Message | None:
        """Hand over what was said, once."""
        said, self._said = self._said, None
        return said

    def spent(self) -> Usage | None:
        """Nothing is known of a request that was cut off."""
        return None

    def publish(self, event: Event) -> None:
        """Note what is shown; a fact is shown when it is durable, once, in order."""
        if isinstance(event, Committed):
            assert event.entry.fact is self.log.durable[event.entry.seq - 1]
            assert len(self.published) + 1 == event.entry.seq
            self.published.append(event.entry.seq)
        if self._publish is not None:
            self._publish(event)

    def check_safe(self, what: str) -> None:
        """Assert that nothing is un-durable now."""
        assert self.log.uncommitted == 0, f"{what} with {self.log.uncommitted} facts that are not durable"

    def loop(self, *inputs: Message, resume: bool = False, rules: Rules | None = None) -> Loop:
        """Make the turn."""
        begun = inputs or (() if resume else (TASK,))
        return turn(self.state, self.tools, rules or Rules(), begun, resume=resume)

    def check_closed(self) -> None:
        """Assert that the turn is over, everything is durable, and memory is what the log says."""
        self.check_safe("over")
        assert not self.state.in_turn
        assert_same_state(self.state, fold(self.log.facts))
        assert len(self.log.entries) == len(self.published)
        assert [] == self._pending

    def _next_reply(self) -> Step:
        return self._replies.pop(0)

    def _verdict(self, call: ToolCall) -> Step:
        return Allow(call) if self._approve is None else self._approve

    def _finish(self, value: object) -> tuple[Outcome, ...]:
        """The first pending call is over; its outcome is kept until the next wait, in case nobody gets it."""
        call = self._pending[0]
        outcome = value if isinstance(value, Outcome) else Outcome.of(ToolResult(call.id, str(value)))
        self._handed.append(outcome)
        del self._pending[0]
        return (outcome,)

    def _abandon(self) -> tuple[Outcome, ...]:
        self.abandoned += 1
        self._pending.clear()
        known, self._handed = tuple(self._handed), []
        return known


def _done(step: Step) -> Any:
    """Do what a step says."""
    if isinstance(step, BaseException):
        raise step
    return step() if callable(step) else step


class SmallHost(Notes):
    """The sync one: calls run in the caller's thread, when they are waited for."""

    def drive(self, *inputs: Message, resume: bool = False, rules: Rules | None = None) -> End:
        """Run a turn and check its end."""
        end = drive(self.loop(*inputs, resume=resume, rules=rules), self)
        self.check_safe("return")
        return end

    def boundary(self, at: Boundary) -> Plan:
        """Answer with the script."""
        self.seen.append(f"boundary {at.step} {at.phase}")
        plan: Plan = _done(self._boundary)
        return plan

    def think(self, ask: Think) -> Reply:
        """Answer with the next reply."""
        self.check_safe("think")
        self.seen.append("think")
        reply: Reply = _done(self._next_reply())
        return reply

    def approve(self, call: ToolCall) -> Allow | Deny | Ask:
        """Allow, unless the script says otherwise."""
        self.seen.append(f"approve {call.id}")
        verdict: Allow | Deny | Ask = _done(self._verdict(call))
        return verdict

    def grant(self, call: ToolCall) -> Allow:
        """Add nothing to a yes that was given elsewhere."""
        return Allow(call)

    def wait(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        """Run the next call."""
        self._handed.clear()
        if self.running != 1:
            self.check_safe("wait")
        self.seen.append("wait")
        if not self._pending:
            return ()
        call = self._pending[0]
        self.ran.append(call.id)
        return self._finish(_done(self._calls.get(call.id, f"did {call.id}")))

    def abandon(self) -> tuple[Outcome, ...]:
        """Forget what was to run."""
        return self._abandon()


async def _adone(step: Step) -> Any:
    """Do what a step says, after giving way once."""
    await asyncio.sleep(0)
    value = _done(step)
    return await value if isinstance(value, Awaitable) else value


class SmallAsyncHost(Notes):
    """The async one: the same, with the event loop coming round inside every effect."""

    async def drive(self, *inputs: Message, resume: bool = False, rules: Rules | None = None) -> End:
        """Run a turn and check its end."""
        end = await adrive(self.loop(*inputs, resume=resume, rules=rules), self)
        self.check_safe("return")
        return end

    async def boundary(self, at: Boundary) -> Plan:
        """Answer with the script."""
        self.seen.append(f"boundary {at.step} {at.phase}")
        plan: Plan = await _adone(self._boundary)
        return plan

    async def think(self, ask: Think) -> Reply:
        """Answer with the next reply."""
        self.check_safe("think")
        self.seen.append("think")
        reply: Reply = await _adone(self._next_reply())
        return reply

    async def approve(self, call: ToolCall) -> Allow | Deny | Ask:
        """Allow, unless the script says otherwise."""
        self.seen.append(f"approve {call.id}")
        verdict: Allow | Deny | Ask = await _adone(self._verdict(call))
        return verdict

    async def grant(self, call: ToolCall) -> Allow:
        """Add nothing to a yes that was given elsewhere."""
        return Allow(call)

    async def wait(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        """Run the next call."""
        self._handed.clear()
        if self.running != 1:
            self.check_safe("wait")
        self.seen.append("wait")
        if not self._pending:
            await asyncio.sleep(0)
            return ()
        call = self._pending[0]
        self.ran.append(call.id)
        return self._finish(await _adone(self._calls.get(call.id, f"did {call.id}")))

    async def abandon(self) -> tuple[Outcome, ...]:
        """Forget what was to run, which takes a moment."""
        await asyncio.sleep(0)
        return self._abandon()
