"""The interpreters of the loop: sync and async, side by side, line for line.

Floor: 1. Owns: when facts become durable, where an interrupt lands, what enters the loop; never: what an effect does.

The order rule: append, fold, commit, and only then effect, publish or return. A barrier stands before a call that
may change something, before the next step, before a model request, before somebody is asked, before waiting for more
than one call, and before the end. Read-only calls need none. Facts are published after their barrier, fragments of an
answer at once.

A failing commit abandons the turn: what ran is stopped, the loop is dropped, the log is poisoned. Everything else
that goes wrong closes the turn first and is reported after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final, Protocol, TypeVar

from plait.core.cancel import Cancel
from plait.core.events import Committed, Event
from plait.core.exchange import ProviderFailed, Reply
from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.usage import Usage
from plait.kernel.effects import (
    Act,
    Allow,
    Approve,
    Ask,
    Boundary,
    Deny,
    Effect,
    End,
    Interrupted,
    Outcome,
    Plan,
    Record,
    Think,
    Wait,
)
from plait.kernel.log import AsyncFactLog, Barrier, FactLog
from plait.kernel.loop import Loop
from plait.kernel.shield import Shield, shielded

T = TypeVar("T")

_NOT_RUN: Final = "Not run: the turn was interrupted."


class Ground(Protocol):
    """What both kinds of host share."""

    cancel: Cancel
    """Stops the turn from any thread."""

    @property
    def running(self) -> int:
        """How many calls were started and not yet handed back."""
        ...

    def needs_barrier(self, calls: Sequence[ToolCall]) -> bool:
        """Say whether a start of these calls must be durable before they run."""
        ...

    def asks(self, call: ToolCall) -> bool:
        """Say whether somebody outside is to judge this call, who must find it again after a crash."""
        ...

    def start(self, act: Act) -> None:
        """Start a batch; must not block."""
        ...

    def partial(self) -> Message | None:
        """Return what the model had said when it was interrupted, once."""
        ...

    def spent(self) -> Usage | None:
        """Return what the interrupted request had used, as far as the endpoint has told, once."""
        ...

    def publish(self, event: Event) -> None:
        """Tell observers; must not block and must not raise."""
        ...


class Host(Ground, Protocol):
    """Meets the effects in the caller's thread."""

    log: FactLog

    def boundary(self, at: Boundary) -> Plan:
        """Answer with what to do between steps."""
        ...

    def think(self, ask: Think) -> Reply:
        """Make one attempt of one request; fragments go through `publish`. Raises `ProviderFailed`."""
        ...

    def approve(self, call: ToolCall) -> Allow | Deny | Ask:
        """Judge one call."""
        ...

    def grant(self, call: ToolCall) -> Allow:
        """Return the yes that was given to a call elsewhere, with the call's intent."""
        ...

    def wait(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        """Return the outcomes of one or more calls, or `()` at the deadline."""
        ...

    def abandon(self) -> tuple[Outcome, ...]:
        """Stop what runs, wait for it, and return every outcome that is known; never raises."""
        ...


class AsyncHost(Ground, Protocol):
    """Meets the effects in the caller's event loop; a cancelled effect raises CancelledError and leaves nothing."""

    log: AsyncFactLog

    async def boundary(self, at: Boundary) -> Plan:
        """Answer with what to do between steps."""
        ...

    async def think(self, ask: Think) -> Reply:
        """Make one attempt of one request; fragments go through `publish`. Raises `ProviderFailed`."""
        ...

    async def approve(self, call: ToolCall) -> Allow | Deny | Ask:
        """Judge one call."""
        ...

    async def grant(self, call: ToolCall) -> Allow:
        """Return the yes that was given to a call elsewhere, with the call's intent."""
        ...

    async def wait(self, timeout_s: float | None) -> tuple[Outcome, ...]:
        """Return the outcomes of one or more calls, or `()` at the deadline."""
        ...

    async def abandon(self) -> tuple[Outcome, ...]:
        """Stop what runs, wait for it, and return every outcome that is known; never raises."""
        ...


def drive(loop: Loop, host: Host) -> End:
    """Run a turn in this thread.

    Cancel: the first Ctrl-C in the main thread, or `host.cancel` from any thread, ends the turn with a valid
    history and `End("interrupted")`. A second Ctrl-C, one that came when only the end was left, one that belongs to
    an outer turn or to another handler, and SystemExit are raised once the end is durable. Durability: every fact
    is, on return.
    """
    with shielded() as (shield, is_owner):
        end, cut = _drive(loop, host, shield)
        if cut is not None and not (is_owner and isinstance(cut, KeyboardInterrupt)):
            raise cut
    if is_owner or shield.armed:
        shield.check()
    return end


async def adrive(loop: Loop, host: AsyncHost) -> End:
    """Run a turn in this task.

    Cancel: a cancelled task closes the turn with a valid history and then raises CancelledError, as every await
    does; `host.cancel` from any thread ends it with `End`. Durability: every fact is, on return.
    """
    task = asyncio.current_task()
    assert task is not None
    wake = _Wake(task)
    undo = host.cancel.on_cancel(wake.from_any_thread)
    try:
        end, cut = await _adrive(loop, host, wake)
    finally:
        undo()
        wake.settle()
    if cut is not None:
        raise cut
    if wake.is_foreign:
        raise asyncio.CancelledError
    return end


def _drive(loop: Loop, host: Host, shield: Shield) -> tuple[End, BaseException | None]:
    try:
        return _interpret(loop, host, shield)
    except BaseException:
        # The log failed, or there is a bug: the turn stays as a crash would leave it.
        host.abandon()
        loop.close()
        raise


def _interpret(loop: Loop, host: Host, shield: Shield) -> tuple[End, BaseException | None]:
    answer: Any = None
    error: BaseException | None = None
    cut: BaseException | None = None
    while True:
        try:
            effect = loop.send(answer) if error is None else loop.throw(error)
        except StopIteration as done:
            host.log.commit()
            _show(host)
            return done.value, cut
        answer = error = None
        if isinstance(effect, Record):
            host.log.append(effect.facts)
            continue
        if _is_barrier(effect, host):
            host.log.commit()
        held: Effect | None = effect
        try:
            _show(host)
            if cut is None:
                shield.check()
            if host.cancel.reason is not None:
                raise Interrupted(host.cancel.reason)
            held = None
            if isinstance(effect, Act):
                host.start(effect)
                continue
            shield.arm()
            answer = _meet(effect, host)
            shield.armed = False
        except (KeyboardInterrupt, SystemExit) as stop:
            shield.armed = False
            cut = stop
            outcomes = _held_back(held) + host.abandon()
            error = Interrupted("interrupted", host.partial(), outcomes, host.spent())
        except Exception as problem:  # boundary: whatever a host does wrong, the history is closed first
            shield.armed = False
            if isinstance(problem, ProviderFailed) and isinstance(effect, Think):
                error = problem
            else:
                error = _interrupted(problem, host, _held_back(held) + host.abandon())


def _meet(effect: Effect, host: Host) -> object:
    if isinstance(effect, Wait):
        return host.wait(effect.timeout_s)
    if isinstance(effect, Think):
        return host.think(effect)
    if isinstance(effect, Approve):
        return host.grant(effect.call) if effect.granted else host.approve(effect.call)
    assert isinstance(effect, Boundary)
    return host.boundary(effect)


async def _adrive(loop: Loop, host: AsyncHost, wake: _Wake) -> tuple[End, BaseException | None]:
    try:
        return await _ainterpret(loop, host, wake)
    except GeneratorExit:
        # The event loop is gone, and with it every way to wait for what still runs.
        loop.close()
        raise
    except BaseException:
        # The log failed, or there is a bug: the turn stays as a crash would leave it.
        await _finish(host.abandon())
        loop.close()
        raise


async def _ainterpret(loop: Loop, host: AsyncHost, wake: _Wake) -> tuple[End, BaseException | None]:
    answer: Any = None
    error: BaseException | None = None
    cut: BaseException | None = None
    while True:
        try:
            effect = loop.send(answer) if error is None else loop.throw(error)
        except StopIteration as done:
            await _commit(host)
            _show(host)
            return done.value, cut
        answer = error = None
        if isinstance(effect, Record):
            host.log.append(effect.facts)
            continue
        if _is_barrier(effect, host):
            await _commit(host)
        held: Effect | None = effect
        try:
            _show(host)
            if cut is None and wake.is_foreign:
                raise asyncio.CancelledError
            if host.cancel.reason is not None:
                raise Interrupted(host.cancel.reason)
            held = None
            if isinstance(effect, Act):
                host.start(effect)
                continue
            answer = await _ameet(effect, host)
        except asyncio.CancelledError as cancelled:
            wake.settle()
            cut = cancelled if wake.is_foreign or host.cancel.reason is None else None
            reason = host.cancel.reason or "interrupted"
            outcomes = _held_back(held) + await _finish(host.abandon())
            error = Interrupted(reason, host.partial(), outcomes, host.spent())
        except (KeyboardInterrupt, SystemExit) as stop:
            cut = stop
            outcomes = _held_back(held) + await _finish(host.abandon())
            error = Interrupted("interrupted", host.partial(), outcomes, host.spent())
        except Exception as problem:  # boundary: whatever a host does wrong, the history is closed first
            if isinstance(problem, ProviderFailed) and isinstance(effect, Think):
                error = problem
            else:
                error = _interrupted(problem, host, _held_back(held) + await _finish(host.abandon()))


async def _ameet(effect: Effect, host: AsyncHost) -> object:
    if isinstance(effect, Wait):
        return await host.wait(effect.timeout_s)
    if isinstance(effect, Think):
        return await host.think(effect)
    if isinstance(effect, Approve):
        return await (host.grant(effect.call) if effect.granted else host.approve(effect.call))
    assert isinstance(effect, Boundary)
    return await host.boundary(effect)


async def _commit(host: AsyncHost) -> None:
    """The barrier: make facts durable, whatever is cancelled meanwhile."""
    pending = host.log.commit()
    if pending is not None:
        await _finish(pending)


async def _finish(work: Awaitable[T]) -> T:
    """Await `work` to its end; a cancellation that comes meanwhile shows in the task's own count."""
    inner = asyncio.ensure_future(work)
    while not inner.done():
        try:
            await (inner if isinstance(inner, Barrier) else asyncio.shield(inner))
        except asyncio.CancelledError:
            if inner.cancelled():
                raise
    return inner.result()


class _Wake:
    """Interrupts the driver's task when `host.cancel` is given, without passing for a cancellation from outside."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._before = task.cancelling()
        self._own = 0
        self._over = False

    def from_any_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._interrupt)
        except RuntimeError:
            # The event loop is closed, so the turn is over.
            return

    @property
    def is_foreign(self) -> bool:
        """True when somebody else cancelled the task since the turn began."""
        return self._task.cancelling() - self._own > self._before

    def settle(self) -> None:
        """Take back our own cancellation: it has been heard."""
        self._over = True
        while self._own:
            self._own -= 1
            self._task.uncancel()

    def _interrupt(self) -> None:
        if not self._over and not self._task.done():
            self._own += 1
            self._task.cancel()


def _show(host: Host | AsyncHost) -> None:
    """Tell observers what has become safe: all of it, even when one of them breaks its word and raises."""
    fault: Exception | None = None
    for entry in host.log.take_committed():
        try:
            host.publish(Committed(entry))
        except Exception as error:  # boundary: what is safe is safe, whoever fails to hear of it
            fault = fault or error
    if fault is not None:
        raise fault


def _is_barrier(effect: Effect, host: Host | AsyncHost) -> bool:
    if isinstance(effect, Act):
        return effect.resolve or host.needs_barrier(effect.calls)
    if isinstance(effect, Approve):
        return host.asks(effect.call) and not effect.granted
    if isinstance(effect, Boundary):
        # Whoever plans the next step has seen the last one, and the request behind it finds nothing left to commit.
        return effect.phase == "step"
    return isinstance(effect, Think) or (isinstance(effect, Wait) and host.running != 1)


def _held_back(effect: Effect | None) -> tuple[Outcome, ...]:
    """What is known of the calls of an `Act` that is not carried out: they did not run."""
    if not isinstance(effect, Act) or effect.resolve:
        return ()
    return tuple(Outcome.of(ToolResult(call.id, _NOT_RUN, status="cancelled")) for call in effect.calls)


def _interrupted(problem: Exception, host: Ground, outcomes: tuple[Outcome, ...]) -> Interrupted:
    partial, spent = host.partial(), host.spent()
    if isinstance(problem, Interrupted):
        interrupt = Interrupted(
            problem.reason, problem.partial or partial, (*problem.outcomes, *outcomes), problem.usage or spent
        )
        interrupt.__cause__ = problem.__cause__
        return interrupt
    interrupt = Interrupted("error", partial, outcomes, spent)
    interrupt.__cause__ = problem
    return interrupt
