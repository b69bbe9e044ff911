"""Threads for tools, as many as are asked for.

Floor: 4. Owns: starting and reusing daemon threads; never: what runs in them.

A bounded pool deadlocks when a tool runs an agent whose tools need the same pool. This one grows on demand, and a
host that already runs in one of its threads runs its calls right there.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

THREADS_MAX: Final = 512
_IDLE_S: Final = 10.0


class _Worker(threading.Thread):
    """Marks a thread as one of the pool's."""


class Threads:
    """Runs work in threads that are made when no idle one waits, and that go when nothing comes for a while."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0
        self._backlog = 0

    @staticmethod
    def is_worker() -> bool:
        """True in a thread of a pool."""
        return isinstance(threading.current_thread(), _Worker)

    def run(self, work: Callable[[], None]) -> None:
        """Have `work` run soon, in the caller's context variables; it must not raise."""
        context = contextvars.copy_context()
        self._work.put(lambda: context.run(work))
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                return
            if self._count >= self._threads_max:
                self._backlog += 1
                return
            self._count += 1
        _Worker(target=self._serve, name="plait-tool", daemon=True).start()

    def arun(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread and return its future; cancelling the future does not stop the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def tell() -> None:
            try:
                value = work()
            except (StopIteration, asyncio.CancelledError) as error:
                # A future cannot hold them: whoever waits would take it for its own end.
                _tell(loop, future, None, RuntimeError(f"{type(error).__name__}: {error}"))
            except BaseException as error:  # boundary: the waiting task raises it
                _tell(loop, future, None, error)
            else:
                _tell(loop, future, value, None)

        self.run(tell)
        return future

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    # Somebody may have counted on this idle thread between the timeout and now.
                    if self._idle > 0:
                        self._idle -= 1
                        self._count -= 1
                        return
                continue
            work()
            with self._lock:
                if self._backlog > 0:
                    self._backlog -= 1
                else:
                    self._idle += 1


def _tell(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], value: T | None, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The loop was closed while the tool ran: nobody is left to be told.
        return
