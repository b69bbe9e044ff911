"""An event loop in a thread of its own: for async tools of a sync host, and for clients that live as long as one.

Floor: 3. Owns: one loop, made when first needed; never: what runs on it.

One loop for the host's whole life, not one a call, because clients bind themselves to the loop they were made on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """Runs coroutines for threads that have no event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def prepare(self) -> asyncio.AbstractEventLoop:
        """Return the loop; made on the first call, which must not be interrupted half-way."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="plait-portal", daemon=True)
                self._thread.start()
            return self._loop

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start `work` on the loop and return its future; cancelling the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self.prepare())

    @property
    def is_here(self) -> bool:
        """True in the loop's own thread, where nobody may wait for it."""
        return self._thread is threading.current_thread()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on this loop for a caller on any loop. Cancel: the caller's cancels the work."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """Cancel what still runs and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(timeout=5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5)
        loop.close()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
