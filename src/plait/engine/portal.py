"""An event loop in a thread of its own, for async tools of a sync host.

Floor: 4. Owns: one loop, made when first needed; never: what runs on it.

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
