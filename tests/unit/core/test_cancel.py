"""The one stop signal."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from types import FrameType
from typing import Any

import pytest

from plait.core.cancel import Cancel


def test_the_first_reason_stays() -> None:
    """A signal is given once; who comes later changes nothing."""
    cancel = Cancel()
    heard: list[str] = []
    cancel.on_cancel(lambda: heard.append("heard"))

    cancel.cancel("timeout")
    cancel.cancel("interrupted")

    assert ("timeout", ["heard"]) == (cancel.reason, heard)


def test_listeners_are_called_in_order() -> None:
    """Who asked first hears first; who asks too late hears at once."""
    cancel = Cancel()
    heard: list[int] = []
    for number in range(5):
        cancel.on_cancel(lambda number=number: heard.append(number))  # type: ignore[misc]

    cancel.cancel("x")
    cancel.on_cancel(lambda: heard.append(5))

    assert [0, 1, 2, 3, 4, 5] == heard


def test_a_listener_can_leave() -> None:
    """The undo takes a listener out, may be called twice, and touches no other."""
    cancel = Cancel()
    heard: list[str] = []
    undo = cancel.on_cancel(lambda: heard.append("first"))
    cancel.on_cancel(lambda: heard.append("second"))

    undo()
    undo()
    cancel.cancel("x")
    undo()

    assert ["second"] == heard


def test_one_bad_listener_does_not_silence_the_others() -> None:
    """All listeners hear; the first exception is raised after them."""
    cancel = Cancel()
    heard: list[str] = []

    def bad(error: Exception) -> None:
        heard.append(str(error))
        raise error

    cancel.on_cancel(lambda: bad(ValueError("one")))
    cancel.on_cancel(lambda: bad(KeyError("two")))
    cancel.on_cancel(lambda: heard.append("three"))

    with pytest.raises(ValueError, match="one"):
        cancel.cancel("x")
    assert ["one", "'two'", "three"] == heard


def test_the_signal_goes_down_the_tree() -> None:
    """A parent's signal reaches every descendant with its reason; a child's stays below it."""
    root = Cancel()
    left, right = root.child(), root.child()
    leaf = left.child()

    left.cancel("left")
    assert [None, "left", "left", None] == [each.reason for each in (root, left, leaf, right)]

    root.cancel("root")
    assert ["root", "left", "left", "root"] == [each.reason for each in (root, left, leaf, right)]
    assert "root" == root.child().reason


def test_a_detached_child_hears_no_more() -> None:
    """When its work is over a child leaves, and nothing of it stays with the parent."""
    root = Cancel()
    child = root.child()

    child.detach()
    child.detach()
    root.cancel("x")

    assert child.reason is None


def test_children_leak_nothing() -> None:
    """Children that are dropped, detached or still held leave no listener behind and are collected."""
    root = Cancel()
    for _ in range(100):
        root.child()
        kept = root.child()
        kept.detach()
    child = root.child()
    gone = weakref.ref(child)
    del child, kept
    gc.collect()

    assert gone() is None
    assert (0, 0) == (len(root._calls), len(root._children))


def test_a_child_keeps_its_parent_alive() -> None:
    """The signal of a tree's root is not lost because only a leaf is held."""
    root = Cancel()
    leaf = root.child().child()
    give = weakref.WeakMethod(root.cancel)
    del root
    gc.collect()

    alive = give()
    assert alive is not None
    alive("x")
    assert "x" == leaf.reason


@pytest.mark.parametrize("timeout_s", [0, -1, 0.001])
def test_waiting_ends_at_the_timeout(timeout_s: float) -> None:
    """Without a signal a wait ends by itself and says so."""
    assert not Cancel().wait(timeout_s)


def test_waiting_ends_at_the_signal() -> None:
    """A waiter in another thread is woken; one that comes late does not wait."""
    cancel = Cancel()
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(cancel.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()

    cancel.cancel("x")
    for thread in threads:
        thread.join(10)

    assert [True] * 4 == woken
    assert cancel.wait()
    assert cancel.wait(1e12)


def test_many_threads_give_it_once() -> None:
    """Of many threads that cancel and listen at once, one gives the reason, and every listener hears once."""
    for _ in range(50):
        cancel = Cancel()
        start = threading.Barrier(8)
        heard: list[int] = []

        def work(number: int, cancel: Cancel = cancel, start: threading.Barrier = start, heard: Any = heard) -> None:
            start.wait()
            cancel.on_cancel(lambda: heard.append(number))
            if number % 2:
                cancel.cancel(str(number))
            cancel.child().detach()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

        assert sorted(heard) == list(range(8))
        assert cancel.reason in {"1", "3", "5", "7"}


def _wait_interrupted_at(step: int) -> str:
    """Sleep on a signal that is given at the `step`-th bytecode of the sleeping thread, and say what came of it."""
    cancel, steps, woke = Cancel(), iter(range(step, -1, -1)), threading.Event()

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        frame.f_trace_opcodes = True
        if event in ("opcode", "line") and next(steps, None) == 0:  # Python 3.12 tells of lines only
            sys.settrace(None)
            cancel.cancel("signal")  # as a handler of a real signal would, between two bytecodes
        return trace

    def wait() -> None:
        sys.settrace(trace)
        cancel.wait()
        sys.settrace(None)
        woke.set()

    threading.Thread(target=wait, daemon=True).start()
    if woke.wait(0.2) or (cancel.reason is not None and woke.wait(10)):
        return "woken"
    if cancel.reason is not None:
        return "stuck"
    cancel.cancel("it sleeps, and no bytecode is left")
    return "asleep" if woke.wait(10) else "stuck"


def test_a_signal_handler_may_cancel_its_own_waiter() -> None:
    """A handler that interrupts `wait` at any bytecode and cancels neither blocks nor is missed."""
    came = []
    while not came or (came[-1] == "woken" and len(came) < 1_000):
        came.append(_wait_interrupted_at(len(came)))

    assert "asleep" == came[-1], f"after {len(came)} bytecodes"
    assert len(came) > 10


def test_a_real_signal_wakes_the_main_thread() -> None:
    """SIGALRM's handler cancels what the main thread sleeps on, a hundred times in a row."""
    code = (
        "import signal\n"
        "from plait.core.cancel import Cancel\n"
        "for number in range(100):\n"
        "    cancel = Cancel()\n"
        "    signal.signal(signal.SIGALRM, lambda *_: cancel.cancel('alarm'))\n"
        "    signal.setitimer(signal.ITIMER_REAL, number * 1e-5 + 1e-6)\n"
        "    assert cancel.wait(30) and cancel.reason == 'alarm'\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (0, "") == (ran.returncode, ran.stderr)
