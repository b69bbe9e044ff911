"""Meets the loop's effects in the caller's thread.

Floor: 4. Owns: a turn's running calls, in this thread or in the pool's; never: policy (`base_host`).

A single call runs in the caller's thread, when the loop waits for it: thread-bound objects stay where they are and
Ctrl-C reaches the tool. Several calls, and one with a deadline, run in threads. Async tools run on the portal's loop.
"""

from __future__ import annotations

import functools
import inspect
import queue
import threading
import time
from collections import deque
from concurrent import futures
from concurrent.futures import Future
from typing import Any

from plait.core.cancel import Cancel
from plait.core.exchange import Reply
from plait.core.messages import ToolCall, ToolResult
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.approval import Approver, Verdict, aapprove_plan, approve_plan, as_verdict, is_async
from plait.engine.calls import PASSED_ON, failure_of, given_up, not_run, result_of, stopped, timed_out
from plait.engine.gates import Question, judged, question_to
from plait.engine.hosts.base_host import GRACE_S, BaseHost, spent_on
from plait.engine.hosts.deadline import check_size, deadline
from plait.engine.hosts.stage import Stage
from plait.engine.hosts.sync_gates import SyncGates
from plait.engine.threads import Threads
from plait.kernel.effects import NOTHING, Act, Allow, Boundary, Deny, Interrupted, Outcome, Plan, Think
from plait.kernel.log import FactLog
from plait.kernel.ports import Channel
from plait.tools.portal import Portal


@dataclass(frozen=True, slots=True)
class _Running:
    """A call in a thread."""

    call: ToolCall
    cancel: Cancel
    ends_s: float | None
    """When it is given up, by the machine's clock: its deadline and a moment to stop."""


class SyncHost(BaseHost):
    """One turn's host; see `kernel.drivers.Host` for the contract of each method."""

    def __init__(self, stage: Stage, log: FactLog, channel: Channel, portal: Portal) -> None:
        super().__init__(stage)
        self.log = log
        self._channel = channel
        self._portal = portal
        self._inline: deque[tuple[ToolCall, bool]] = deque()
        self._waiting: deque[ToolCall] = deque()
        self._threaded: dict[str, _Running] = {}
        self._finished: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._handed: list[Outcome] = []
        self._gates = None if stage.policy.gates is None else SyncGates(stage.policy.gates, stage.cancel)

    @property
    def running(self) -> int:
        """Calls that were started and not yet handed back."""
        return len(self._inline) + len(self._waiting) + len(self._threaded)

    def boundary(self, at: Boundary) -> Plan:
        """Answer with the limits' word, then with the face's, then with the output type's."""
        plan = self._early_plan(at)
        if plan is NOTHING and self._policy.on_boundary is not None:
            plan = self._policy.on_boundary(at) or NOTHING
        plan, gates = self._whole_plan(at, plan), self._gates
        is_end = gates is not None and at.phase == "final" and plan is NOTHING
        return gates.through(gates.gates.at_end) if gates is not None and is_end else plan

    def think(self, ask: Think) -> Reply:
        """Make one attempt of one request."""
        emit = self._begin_thinking(ask)
        if (gates := self._gates) is not None:
            gates.through(lambda cancel: gates.gates.before_think(ask, cancel))
        check_size(ask)
        if ask.timeout_s is None:
            reply = self._channel.think(ask, emit, self.cancel)
        else:
            with deadline(self.cancel, ask.timeout_s) as cancel:
                reply = self._channel.think(ask, emit, cancel)
        return self._end_thinking(reply, self._channel, self.log.append) if ask.purpose == "step" else reply

    def spent(self) -> Usage | None:
        """Return what the request under way had used when it was interrupted, as far as that is known, once."""
        return spent_on(self._channel)

    def approve(self, call: ToolCall) -> Verdict:
        """Judge one call: the policy first, then the approver; a yes says what will show that the call took effect."""
        verdict = self._verdict(call)
        return self._with_intent(verdict) if isinstance(verdict, Allow) and self._leaves_traces(verdict) else verdict

    def grant(self, call: ToolCall) -> Allow:
        """Return a yes that was given elsewhere, with the call's intent."""
        return self._with_intent(Allow(call)) if self._is_durable else Allow(call)

    def _verdict(self, call: ToolCall) -> Verdict:
        call, tool, said = self._judge(call)
        if (gates := self._gates) is not None and not isinstance(said, Deny):
            steps = judged(self._ground(gates.gates), call, tool, is_asked=said is None)
            return gates.play(steps, self._asked)
        return self._asked(Question(call, tool)) if said is None else said

    def _asked(self, question: Question) -> Verdict:
        """Ask the approver about one call, or about the plan that it belongs to."""
        approver, call = self._policy.approver, question.call
        assert approver is not None
        if self._policy.plan_mode:
            return self._plan.verdict(call) or self._plan.keep(call, self._approves_plan(approver))
        answer = question_to(approver, question.insists)(call, question.tool)
        return as_verdict(self._await(answer, None) if inspect.isawaitable(answer) else answer, call)

    def _approves_plan(self, approver: Approver) -> bool:
        plan = self._plan.calls()
        if is_async(approver):
            return self._await(aapprove_plan(approver, plan), None) is True
        return approve_plan(approver, plan)

    def start(self, act: Act) -> None:
        """Start a batch: alone or nested, it runs when it is waited for; otherwise in threads."""
        self._note_start(act)
        tools = [self._tools.get(call.name) for call in act.calls]
        if any(tool is not None and tool.is_async for tool in tools):
            # Made here, where no Ctrl-C may land: a half-made loop would be worse than none.
            self._portal.prepare()
        is_alone = len(tools) == 1 and tools[0] is not None and tools[0].timeout_s is None
        if act.resolve or is_alone or self._policy.limits.tool_concurrency == 1 or Threads.is_worker():
            self._inline.extend((call, act.resolve) for call in act.calls)
            return
        self._waiting.extend(act.calls)
        self._fill()

    def wait(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        """Run the next call of this thread, or wait for one of the others'."""
        self._handed.clear()
        if self._inline:
            # Taken out first: what is left there when the turn is interrupted has not begun.
            call, resolve = self._inline.popleft()
            again, cancel = not resolve or self._tools.is_repeatable(call), self.cancel.child()
            outcome = Outcome.of(self._run(call, cancel)) if again else self._resolve(call, cancel)
            self._handed.append(outcome)
            return self._noted((outcome,))
        if not self.running:
            self._clock.sleep(timeout_s or 0, self.cancel)
            self._raise_if_told()
            return ()
        return self._noted(self._next_finished(timeout_s))

    def abandon(self) -> tuple[Outcome, ...]:
        """Tell every running call to stop, give it a moment, and return what is known."""
        unbegun = [call for call, resolve in self._inline if not resolve]
        self._handed += map(not_run, (*unbegun, *self._waiting))
        self._inline.clear()
        self._waiting.clear()
        for running in list(self._threaded.values()):
            running.cancel.cancel(self.cancel.reason or "interrupted")
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
            self._take(self._finished.get(timeout=self._patience_s(timeout_s)))
            while not self._finished.empty():
                self._take(self._finished.get())
        except queue.Empty:
            self._give_up()
        finally:
            undo()
        if self._gates is not None:
            self._gates.gates.tell()
        if not self._handed:
            self._raise_if_told()
        self._fill()
        return tuple(self._handed)

    def _patience_s(self, timeout_s: float | None) -> float | None:
        """How long to wait for a result: until the loop's deadline, or until a tool is long past its own."""
        ends = [running.ends_s for running in self._threaded.values() if running.ends_s and self._is_due(running)]
        if not ends:
            return timeout_s
        left_s = max(0.0, min(ends) - time.monotonic())
        return left_s if timeout_s is None else min(left_s, timeout_s)

    def _is_due(self, running: _Running) -> bool:
        """False for a call that has run and is looked at."""
        return self._gates is None or running.call.id not in self._gates.looking_at

    def _give_up(self) -> None:
        """Answer for calls that were told to stop at their deadline and went on: their threads cannot be ended."""
        now_s = time.monotonic()
        for call_id, running in list(self._threaded.items()):
            if running.ends_s is not None and running.ends_s <= now_s and self._is_due(running):
                tool = self._tool(running.call)
                self._take(Outcome(call_id, "unknown", given_up(running.call, tool.timeout_s or 0)))

    def _take(self, outcome: Outcome | None) -> None:
        """Keep an outcome until the driver comes for the next one, so that an interrupt cannot lose it."""
        if outcome is not None and self._threaded.pop(outcome.call_id, None) is not None:
            self._handed.append(outcome)

    def _fill(self) -> None:
        """Start waiting calls while there is room for them."""
        while self._waiting and len(self._threaded) < self._policy.limits.tool_concurrency:
            call = self._waiting.popleft()
            timeout_s = self._tool(call).timeout_s
            ends_s = None if timeout_s is None else time.monotonic() + timeout_s + GRACE_S
            running = _Running(call, self.cancel.child(), ends_s)
            self._threaded[call.id] = running
            self._threads.run(functools.partial(self._run_in_thread, running))

    def _run_in_thread(self, running: _Running) -> None:
        if running.cancel.reason is not None:
            # It waited for a thread until the turn was over.
            self._finished.put(not_run(running.call))
            return
        try:
            result = self._run_beside(running.call, running.cancel)
        except BaseException as error:  # boundary: somebody waits for this thread's answer, whatever it is
            result = failure_of(running.call, error, self._policy.finishing)
        self._finished.put(Outcome.of(result))

    def _run(self, call: ToolCall, cancel: Cancel) -> ToolResult:
        """Run a call here, and let the gates look at what it came to."""
        result = self._invoke(call, cancel)
        try:
            return result if self._gates is None else self._gates.after(call, self._tool(call), result)
        except BaseException:
            # The call has run, whatever stopped those who look at it: its result is the better one to have.
            self._handed.append(Outcome.of(result))
            raise

    def _run_beside(self, call: ToolCall, cancel: Cancel) -> ToolResult:
        """Do the same in a thread."""
        result = self._invoke(call, cancel)
        return result if self._gates is None else self._gates.after_beside(call, self._tool(call), result, cancel)

    def _invoke(self, call: ToolCall, cancel: Cancel) -> ToolResult:
        tool = self._tool(call)
        finishing = self._policy.finishing
        timer = _timer(tool.timeout_s, cancel)
        try:
            value = tool.fn(**self._keywords(tool, call, cancel, self._start_of(call)))
            if inspect.isawaitable(value):
                value = self._await(value, cancel)
        except PASSED_ON:
            raise
        except BaseException as error:  # boundary: a tool's failure is its result, whatever it raises
            if cancel.reason == "timeout" and tool.timeout_s is not None:
                return timed_out(call, tool.timeout_s)
            if cancel.reason is not None and isinstance(error, futures.CancelledError):
                return stopped(call, cancel.reason)
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
    timer = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), cancel.cancel, ("timeout",))
    timer.daemon = True
    timer.start()
    return timer


def _cancel_future(future: Future[object]) -> None:
    future.cancel()


async def _as_coroutine(work: Any) -> object:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        # It would end the loop that all tools share, and leave everybody who waits on it waiting.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
