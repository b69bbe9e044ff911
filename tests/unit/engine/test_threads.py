"""Threads for tools grow with the work and end with it; the portal is one loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time

import pytest

from plait.engine import threads as threads_module
from plait.engine.threads import Threads
from plait.tools.portal import Portal


def test_work_never_waits_for_other_work() -> None:
    """Every piece of work begins while the others are held up."""
    pool, meet = Threads(), threading.Barrier(9, timeout=10)
    for _ in range(8):
        pool.run(meet.wait)  # type: ignore[arg-type]

    meet.wait()


def test_an_idle_thread_is_used_again() -> None:
    """Work that comes one after the other needs one thread."""
    pool, seen = Threads(), set()
    for _ in range(20):
        done = threading.Event()
        pool.run(lambda done=done: (seen.add(threading.get_ident()), done.set()))  # type: ignore[misc]
        done.wait(10)
        time.sleep(0.001)

    assert len(seen) <= 3


def test_no_more_threads_than_the_limit() -> None:
    """Above the limit work waits its turn, and all of it is done."""
    pool, lock, running, most, done = Threads(2), threading.Lock(), 0, 0, threading.Semaphore(0)

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        done.release()

    for _ in range(10):
        pool.run(work)
    for _ in range(10):
        assert done.acquire(timeout=10)

    assert most <= 2


def test_idle_threads_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has nothing to do for a while ends, and the next work gets a new one."""
    monkeypatch.setattr(threads_module, "_IDLE_S", 0.01)
    pool, seen = Threads(), []

    def work() -> None:
        seen.append(threading.current_thread())

    for _ in range(2):
        pool.run(work)
        deadline_s = time.monotonic() + 10
        while not seen or seen[-1].is_alive():
            assert time.monotonic() < deadline_s
            time.sleep(0.005)

    assert 2 == len(set(seen))


def test_a_thread_knows_that_it_is_the_pools() -> None:
    """Only in a thread of a pool `is_worker` is true."""
    pool, seen, done = Threads(), [], threading.Event()
    pool.run(lambda: (seen.append(Threads.is_worker()), done.set()))  # type: ignore[arg-type]
    done.wait(10)

    assert ([True], False) == (seen, Threads.is_worker())


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration("x"), asyncio.CancelledError("x"), SystemExit(3)])
def test_what_a_thread_raises_reaches_the_task(error: BaseException) -> None:
    """Whatever work raises, the task that waits for it hears of it."""

    def work() -> None:
        raise error

    async def main() -> str:
        try:
            await Threads().arun(work)
        except BaseException as raised:
            return str(raised)
        return "nothing"

    assert str(error) in asyncio.run(main())


def test_a_loop_that_is_gone_is_not_told() -> None:
    """Work that ends after its event loop was closed has nobody to tell, and that is no error."""
    release, done = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(10)
        done.set()

    async def main() -> None:
        Threads().arun(work).cancel()

    asyncio.run(main())
    release.set()

    assert done.wait(10)


def test_the_portal_is_one_loop() -> None:
    """All coroutines run on one loop, in the context of whoever submitted them, until it is closed."""
    portal = Portal()
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    who.set("me")

    async def note() -> tuple[object, str]:
        return asyncio.get_running_loop(), who.get()

    (loop, first), (same, _) = (portal.submit(note()).result(10) for _ in range(2))
    portal.close()
    portal.close()

    assert (loop, "me", True) == (same, first, loop.is_closed())  # type: ignore[attr-defined]


def test_closing_the_portal_cancels_what_runs() -> None:
    """A coroutine that still runs is cancelled, and cleans up."""
    portal, log, began = Portal(), [], threading.Event()

    async def work() -> None:
        try:
            began.set()
            await asyncio.sleep(60)
        finally:
            log.append("cleaned up")

    future = portal.submit(work())
    began.wait(10)
    portal.close()

    assert (True, ["cleaned up"]) == (future.cancelled(), log)
