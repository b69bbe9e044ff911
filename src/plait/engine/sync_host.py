"""Meets the loop's effects in the caller's thread.

Floor: 4. Owns: a turn's running calls, in this thread or in the pool's; never: policy (`base_host`).

A single call runs in the caller's thread, when the loop waits for it: thread-bound objects stay where they are and
Ctrl-C reaches the tool. Several calls run in threads. Async tools run on the portal's loop.
"""

from __future__ import annotations

import inspect
import queue
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any

from plait.core.cancel import Cancel
from plait.core.exchange import Reply
from plait.core.messages import ToolCall, ToolResult
from plait.engine.approval import Verdict, as_verdict
from plait.engine.base_host import GRACE_S, BaseHost, Stage
from plait.engine.calls import failure_of, keywords, result_of, timed_out
from plait.engine.portal import Portal
from plait.engine.threads import Threads
from plait.kernel.effects import NOTHING, Act, Boundary, Interrupted, Outcome, Plan, Think
from plait.kernel.log import FactLog
from plait.kernel.ports import Channel


class SyncHost(BaseHost):
    """One turn's host; see `kernel.drivers.Host` for the contract of each method."""

    def __init__(self, stage: Stage, log: FactLog, channel: Channel, portal: Portal) -> None:
        super().__init__(stage)
        self.log = log
        self._channel = channel
        self._portal = portal
        self._inline: deque[tuple[ToolCall, bool]] = deque()
        self._waiting: deque[ToolCall] = deque()
        self._threaded: dict[str, Cancel] = {}
        self._finished: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._handed: list[Outcome] = []

    @property
    def running(self) -> int:
        """Calls that were started and not yet handed back."""
        return len(self._inline) + len(self._waiting) + len(self._threaded)

    def boundary(self, at: Boundary) -> Plan:
        """Answer with the limits' word, then with the face's."""
        plan = self._early_plan(at)
        if plan is NOTHING and self._policy.on_boundary is not None:
            return self._policy.on_boundary(at) or NOTHING
        return plan

    def think(self, ask: Think) -> Reply:
        """Make one attempt of one request."""
        emit = self._begin_thinking(ask)
        reply = self._channel.think(ask, emit, self.cancel)
        self._end_thinking(ask)
        return reply

    def approve(self, call: ToolCall) -> Verdict:
        """Judge one call: the policy first, then the approver."""
        call, tool, said = self._judge(call)
        approver = self._policy.approver
        if said is not None or approver is None:
            assert said is not None
            return said
        if self._policy.plan_mode:
            return self._plan_verdict(call, approver)
        answer = approver.approve(call, tool)
        return as_verdict(self._await(answer, None) if inspect.isawaitable(answer) else answer, call)

    def start(self, act: Act) -> None:
        """Start a batch: alone or nested, it runs when it is waited for; otherwise in threads."""
        if any(self._tool(call).is_async for call in act.calls):
            # Made here, where no Ctrl-C may land: a half-made loop would be worse than none.
            self._portal.prepare()
        together = self._policy.limits.tool_concurrency
        if act.resolve or len(act.calls) == 1 or together == 1 or Threads.is_worker():
            self._inline.extend((call, act.resolve) for call in act.calls)
            return
        self._waiting.extend(act.calls)
        self._fill()

    def wait(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        """Run the next call of this thread, or wait for one of the others'."""
        self._handed.clear()
        if self._inline:
            call, resolve = self._inline[0]
            again = not resolve or self._tools.is_repeatable(call)
            outcome = Outcome.of(self._invoke(call, self.cancel.child())) if again else self._resolve(call)
            self._handed.append(outcome)
            self._inline.popleft()
            return (outcome,)
        if not self.running:
            self._clock.sleep(timeout_s or 0, self.cancel)
            self._raise_if_told()
            return ()
        return self._next_finished(timeout_s)

    def abandon(self) -> tuple[Outcome, ...]:
        """Tell every running call to stop, give it a moment, and return what is known."""
        self._inline.clear()
        self._waiting.clear()
        for cancel in list(self._threaded.values()):
            cancel.cancel(self.cancel.reason or "interrupted")
        deadline_s = self._clock.monotonic_s() + GRACE_S
        while self._threaded and (left_s := deadline_s - self._clock.monotonic_s()) > 0:
            try:
                self._take(self._finished.get(timeout=left_s))
            except queue.Empty:
                break
        self._threaded.clear()
        known, self._handed = tuple(self._handed), []
        return known

    def _next_finished(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        undo = self.cancel.on_cancel(lambda: self._finished.put(None))
        try:
            self._take(self._finished.get(timeout=timeout_s))
            while not self._finished.empty():
                self._take(self._finished.get())
        except queue.Empty:
            return ()
        finally:
            undo()
        if not self._handed:
            self._raise_if_told()
        self._fill()
        return tuple(self._handed)

    def _take(self, outcome: Outcome | None) -> None:
        """Keep an outcome until the driver comes for the next one, so that an interrupt cannot lose it."""
        if outcome is not None and self._threaded.pop(outcome.call_id, None) is not None:
            self._handed.append(outcome)

    def _fill(self) -> None:
        """Start waiting calls while there is room for them."""
        while self._waiting and len(self._threaded) < self._policy.limits.tool_concurrency:
            call, cancel = self._waiting.popleft(), self.cancel.child()
            self._threaded[call.id] = cancel
            self._threads.run(lambda call=call, cancel=cancel: self._run_in_thread(call, cancel))  # type: ignore[misc]

    def _run_in_thread(self, call: ToolCall, cancel: Cancel) -> None:
        self._finished.put(Outcome.of(self._invoke(call, cancel)))

    def _invoke(self, call: ToolCall, cancel: Cancel) -> ToolResult:
        tool = self._tool(call)
        finishing = self._policy.finishing
        timer = _timer(tool.timeout_s, cancel)
        try:
            value = tool.fn(**keywords(tool, call, cancel, finishing))
            if inspect.isawaitable(value):
                value = self._await(value, cancel)
        except Exception as error:  # boundary: a tool's failure is its result
            if cancel.reason == "timeout" and tool.timeout_s is not None:
                return timed_out(call, tool.timeout_s)
            return failure_of(call, error, finishing)
        finally:
            if timer is not None:
                timer.cancel()
            cancel.detach()
        return result_of(call, value, finishing)

    def _await(self, work: Any, cancel: Cancel | None) -> object:
        """Wait for a coroutine on the portal's loop; stopped when the call is cancelled or interrupted."""
        future: Future[object] = self._portal.submit(_as_coroutine(work))
        undo = None if cancel is None else cancel.on_cancel(lambda: _cancel_future(future))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            if undo is not None:
                undo()

    def _raise_if_told(self) -> None:
        if self.cancel.reason is not None:
            raise Interrupted(self.cancel.reason)


def _timer(timeout_s: float | None, cancel: Cancel) -> threading.Timer | None:
    if timeout_s is None:
        return None
    timer = threading.Timer(timeout_s, cancel.cancel, ("timeout",))
    timer.daemon = True
    timer.start()
    return timer


def _cancel_future(future: Future[object]) -> None:
    future.cancel()


async def _as_coroutine(work: Any) -> object:
    return await work
