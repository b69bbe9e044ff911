"""Meets the loop's effects in the caller's event loop.

Floor: 4. Owns: a turn's running calls, as awaits, tasks or threads; never: policy (`base_host`).

A single async call is awaited in place, without a task; several run as tasks. Sync tools run in threads, and what a
thread brings after a cancellation is kept: its real result is better than "cancelled".
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from plait.core.cancel import Cancel
from plait.core.exchange import Reply
from plait.core.messages import ToolCall, ToolResult
from plait.core.usage import Usage
from plait.engine.approval import Approver, Verdict, aapprove_plan, approve_plan, as_verdict, is_async
from plait.engine.calls import PASSED_ON, failure_of, given_up, not_run, result_of, timed_out
from plait.engine.gates import Question, Step, judged, looked_over, question_to
from plait.engine.hosts.base_host import GRACE_S, BaseHost, spent_on
from plait.engine.hosts.deadline import check_size, deadline
from plait.engine.hosts.stage import Stage
from plait.kernel.effects import NOTHING, Act, Allow, Boundary, Deny, Outcome, Plan, Think
from plait.kernel.log import AsyncFactLog
from plait.kernel.ports import AsyncChannel
from plait.kernel.tools import Tool

T = TypeVar("T")


class AsyncHost(BaseHost):
    """One turn's host; see `kernel.drivers.AsyncHost` for the contract of each method."""

    def __init__(self, stage: Stage, log: AsyncFactLog, channel: AsyncChannel) -> None:
        super().__init__(stage)
        self.log = log
        self._channel = channel
        self._waiting: deque[tuple[ToolCall, bool]] = deque()
        self._tasks: dict[asyncio.Future[Outcome], ToolCall] = {}
        self._begun: set[str] = set()
        """Ids of calls that may have done something."""
        self._handed: list[Outcome] = []

    @property
    def running(self) -> int:
        """Calls that were started and not yet handed back."""
        return len(self._waiting) + len(self._tasks)

    async def boundary(self, at: Boundary) -> Plan:
        """Answer with the limits' word, then with the face's, then with the output type's."""
        plan = self._early_plan(at)
        if plan is NOTHING and self._policy.on_boundary is not None:
            said = self._policy.on_boundary(at)
            plan = (await said if inspect.isawaitable(said) else said) or NOTHING
        plan, gates = self._whole_plan(at, plan), self._policy.gates
        if gates is None or at.phase != "final" or plan is not NOTHING:
            return plan
        return await self._through(gates.at_end)

    async def think(self, ask: Think) -> Reply:
        """Make one attempt of one request."""
        emit = self._begin_thinking(ask)
        if (gates := self._policy.gates) is not None:
            await self._through(lambda cancel: gates.before_think(ask, cancel))
        check_size(ask)
        if ask.timeout_s is None:
            reply = await self._channel.think(ask, emit, self.cancel)
        else:
            with deadline(self.cancel, ask.timeout_s) as cancel:
                reply = await self._channel.think(ask, emit, cancel)
        return self._end_thinking(reply, self._channel, self.log.append) if ask.purpose == "step" else reply

    def spent(self) -> Usage | None:
        """Return what the request under way had used when it was interrupted, as far as that is known, once."""
        return spent_on(self._channel)

    async def approve(self, call: ToolCall) -> Verdict:
        """Judge one call: the policy first, then the approver; a yes says what will show that the call took effect."""
        verdict = await self._verdict(call)
        if not isinstance(verdict, Allow) or not self._leaves_traces(verdict):
            return verdict
        return await self._threads.arun(lambda: self._with_intent(verdict))

    async def grant(self, call: ToolCall) -> Allow:
        """Return a yes that was given elsewhere, with the call's intent."""
        allow = Allow(call)
        return await self._threads.arun(lambda: self._with_intent(allow)) if self._leaves_traces(allow) else allow

    async def _verdict(self, call: ToolCall) -> Verdict:
        call, tool, said = self._judge(call)
        gates = self._policy.gates
        if gates is not None and not isinstance(said, Deny):
            return await self._play(judged(self._ground(gates), call, tool, is_asked=said is None))
        return await self._asked(call, tool) if said is None else said

    async def _asked(self, call: ToolCall, tool: Tool, insists: str | None = None) -> Verdict:
        """Ask the approver about one call, or about its plan; one that blocks is asked in a thread."""
        approver = self._policy.approver
        assert approver is not None
        if self._policy.plan_mode:
            return self._plan.verdict(call) or self._plan.keep(call, await self._approves_plan(approver))
        approve = question_to(approver, insists)
        if is_async(approver):
            return as_verdict(await approve(call, tool), call)
        answer = await self._threads.arun(lambda: approve(call, tool))
        return as_verdict(await answer if inspect.isawaitable(answer) else answer, call)

    async def _play(self, steps: Generator[Step, Any, Verdict]) -> Verdict:
        """See a judgement through, in this task."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                verdict: Verdict = done.value
                return verdict
            if isinstance(step, Question):
                answer = await self._asked(step.call, step.tool, step.insists)
            else:
                answer = await self._through(step.work)

    async def _through(self, work: Callable[[Cancel], T]) -> T:
        """Have a gate do something in a thread, and tell what it has to say; a cancellation is raised after that."""
        before = _cancellations()
        done = await self._in_gate(work)
        if _cancellations() > before:
            raise asyncio.CancelledError
        return done

    async def _in_gate(self, work: Callable[[Cancel], T]) -> T:
        cancel = self.cancel.child()
        try:
            return await self._from_thread(self._threads.arun(lambda: work(cancel)), cancel, None)
        finally:
            cancel.detach()
            if (gates := self._policy.gates) is not None:
                gates.tell()

    async def _approves_plan(self, approver: Approver) -> bool:
        plan = self._plan.calls()
        if is_async(approver):
            return await aapprove_plan(approver, plan)
        return await self._threads.arun(lambda: approve_plan(approver, plan))

    def start(self, act: Act) -> None:
        """Take a batch in; a lone call begins when it is waited for, several begin now."""
        self._note_start(act)
        self._waiting.extend((call, act.resolve) for call in act.calls)
        if act.resolve:
            self._begun.update(call.id for call in act.calls)
        if len(act.calls) > 1:
            self._fill()

    async def wait(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        """Run the lone call here, or wait until one of several has finished."""
        self._handed.clear()
        if not self.running:
            await self._clock.asleep(timeout_s or 0)
            return ()
        if not self._tasks and len(self._waiting) == 1 and timeout_s is None:
            # Taken out first: what is left there when the turn is interrupted has not begun.
            self._handed.append(await self._outcome(*self._waiting.popleft()))
            return self._noted(tuple(self._handed))
        self._fill()
        done, _ = await asyncio.wait(self._tasks.keys(), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for future in done:
            del self._tasks[future]
            self._handed.append(future.result())
        self._fill()
        return self._noted(tuple(self._handed))

    async def abandon(self) -> tuple[Outcome, ...]:
        """Tell every running call to stop, give it a moment, and return what is known."""
        unbegun = [call for call, resolve in self._waiting if not resolve]
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.keys(), timeout=GRACE_S)
        self._handed += [task.result() for task in self._tasks if task.done() and not task.cancelled()]
        unbegun += [call for call in self._tasks.values() if call.id not in self._begun]
        self._handed += map(not_run, unbegun)
        self._tasks.clear()
        known, self._handed = tuple(self._handed), []
        return known

    def _fill(self) -> None:
        """Start waiting calls while there is room for them."""
        while self._waiting and len(self._tasks) < self._policy.limits.tool_concurrency:
            call, resolve = self._waiting.popleft()
            self._tasks[asyncio.ensure_future(self._outcome(call, resolve))] = call

    async def _outcome(self, call: ToolCall, resolve: bool) -> Outcome:
        self._begun.add(call.id)
        if resolve and not self._tools.is_repeatable(call):
            return await self._resolved(call)
        tool, cancel = self._tool(call), self.cancel.child()
        run = self._invoke_async if tool.is_async else self._invoke_in_thread
        try:
            result = await run(call, tool, cancel)
            if (gates := self._policy.gates) is not None:
                result = await self._in_gate(functools.partial(looked_over, gates, call, tool, result))
            return Outcome.of(result)
        finally:
            cancel.detach()

    async def _resolved(self, call: ToolCall) -> Outcome:
        """Find out in a thread what became of a call; a cancellation tells it to stop what still runs."""
        cancel = self.cancel.child()
        thread = self._threads.arun(lambda: self._resolve(call, cancel))
        return await self._from_thread(thread, cancel, None)

    async def _invoke_async(self, call: ToolCall, tool: Tool, cancel: Cancel) -> ToolResult:
        finishing, start = self._policy.finishing, self._start_of(call)
        deadline = asyncio.timeout(tool.timeout_s) if tool.timeout_s else None
        before = _cancellations()
        try:
            if deadline is None:
                value = await tool.fn(**self._keywords(tool, call, cancel, start))
            else:
                async with deadline:
                    value = await tool.fn(**self._keywords(tool, call, cancel, start))
        except asyncio.CancelledError as error:
            if _cancellations() > before:
                raise
            # Nobody cancelled this task: something that the tool waited for was.
            return failure_of(call, error, finishing)
        except PASSED_ON:
            raise
        except BaseException as error:  # boundary: a tool's failure is its result, `exit()` in it too
            if tool.timeout_s is not None and deadline is not None and deadline.expired():
                return timed_out(call, tool.timeout_s)
            return failure_of(call, error, finishing)
        return result_of(call, value, finishing)

    async def _invoke_in_thread(self, call: ToolCall, tool: Tool, cancel: Cancel) -> ToolResult:
        finishing, start = self._policy.finishing, self._start_of(call)
        thread: asyncio.Future[object] = self._threads.arun(
            lambda: tool.fn(**self._keywords(tool, call, cancel, start))
        )
        try:
            value = await self._from_thread(thread, cancel, tool.timeout_s)
            if inspect.isawaitable(value):
                value = await value
        except _GivenUp:
            return given_up(call, tool.timeout_s or 0)
        except (*PASSED_ON, asyncio.CancelledError):
            raise
        except BaseException as error:  # boundary: a tool's failure is its result, `exit()` in it too
            if cancel.reason == "timeout" and tool.timeout_s is not None:
                return timed_out(call, tool.timeout_s)
            return failure_of(call, error, finishing)
        return result_of(call, value, finishing)

    async def _from_thread(self, thread: asyncio.Future[T], cancel: Cancel, timeout_s: float | None) -> T:
        """Return what a thread brings; a deadline or a cancellation tells it to stop and waits a moment for it.

        With the result in hand a cancellation is not raised here: the driver sees it in the task's own count.
        """
        try:
            await asyncio.wait((thread,), timeout=timeout_s)
            if not thread.done():
                cancel.cancel("timeout")
                await asyncio.wait((thread,), timeout=GRACE_S)
            if not thread.done():
                raise _GivenUp
            return thread.result()
        except asyncio.CancelledError:
            cancel.cancel(self.cancel.reason or "interrupted")
            await asyncio.wait((thread,), timeout=GRACE_S)
            if not thread.done():
                raise
            return thread.result()


class _GivenUp(Exception):
    """A thread was told to stop at its deadline and went on."""


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
