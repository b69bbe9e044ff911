"""Turns under Ctrl-C, in a process of their own: `python -m tests.helpers.interrupts KIND COUNT` prints their ends.

Every kind plays many turns in the main thread, interrupts each at another moment, and counts the ends. A turn that is
left open, a history no provider would take, memory that is not the log, or a fact that is not durable is an
AssertionError, and so a red exit code.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from plait.core.facts import TurnEnd
from plait.core.messages import Message
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from plait.kernel.tools import Tool, ToolTable
from tests.helpers.hosts import SmallHost
from tests.helpers.worlds import assert_same_state, call, said

ROUNDS = 24


def interrupt() -> None:
    """Send this process a SIGINT; its handler runs before the next line does."""
    os.kill(os.getpid(), signal.SIGINT)


def long_host() -> SmallHost:
    """A turn of many short steps: readers two by two, a writer now and then."""
    replies = []
    for number in range(ROUNDS):
        pair = [call("look", f"a{number}", f"[{number}]"), call("look", f"b{number}", f'{{"n":{number}}}')]
        replies.append(said(pair if number % 3 else call("write", f"a{number}")))
    return SmallHost([*replies, said("done")])


def short_host() -> SmallHost:
    """A turn with one reader, one writer and an answer."""
    return SmallHost([said(call("look", "a")), said(call("write", "b")), said("done")])


def nesting_host(inner: list[SmallHost]) -> SmallHost:
    """A turn whose tool runs a turn of its own, in the same thread."""

    def sub() -> str:
        inner.append(short_host())
        return inner[-1].drive().reason

    tools = ToolTable([Tool("sub", "", sub)])
    return SmallHost([said(call("sub", "s")), said("done")], tools=tools, calls={"s": sub})


def check(host: SmallHost) -> None:
    """Assert that a turn is closed as it must be, unless it never began."""
    if not host.log.entries:
        return
    assert not host.state.in_turn, "the turn was left open"
    assert isinstance(host.log.facts[-1], TurnEnd)
    assert fault_in(host.state.history) is None
    assert_same_state(host.state, fold(host.log.facts))
    assert host.log.uncommitted == 0, "facts were left that are not durable"


def storm(count: int) -> Counter[str]:
    """Send SIGINT at random microseconds of turns that never leave Python."""
    chance = random.Random(count)
    signal.signal(signal.SIGALRM, lambda *_: interrupt())
    ends: Counter[str] = Counter()
    for _ in range(count):
        host = long_host()
        delay_s = chance.random() * 0.006 + 1e-5
        end = "escaped"
        try:
            signal.setitimer(signal.ITIMER_REAL, delay_s)
            end = host.drive().reason
        except KeyboardInterrupt:
            pass
        finally:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
        check(host)
        ends[end if host.log.entries else "early"] += 1
    return ends


class Bytecodes:
    """Interrupts between two bytecodes: after the `number`-th that the kernel or a host executes."""

    def __init__(self, number: int) -> None:
        self.left = number
        self._seen: list[str] = []
        self._begun = 0

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Count bytecodes of the code that a turn consists of."""
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("plait.", "tests.helpers.hosts", "tests.helpers.interrupts")):
            return None
        frame.f_trace_opcodes = True
        if event in ("opcode", "line") and not _is_prologue(frame):  # Python 3.12 tells of lines only
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                self._begun = len(self._seen)
                interrupt()
        return self.trace

    def drive(self, host: SmallHost) -> str:
        """Drive a turn under the trace and return its end; no effect may begin once the interrupt is there."""
        self._seen = host.seen
        try:
            sys.settrace(self.trace)
            end = host.drive().reason
        except KeyboardInterrupt:
            end = "escaped"
        finally:
            sys.settrace(None)
        late = host.seen[self._begun :] if end == "interrupted" else []
        assert late == [] or (len(late) == 1 and late[0].startswith("act")), late
        return end


def _is_prologue(frame: FrameType) -> bool:
    """Say whether a generator's frame is only being made: no signal is handled there, nor could one be."""
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and frame.f_lasti < 8


def everywhere(count: int, make: Callable[[list[SmallHost]], SmallHost]) -> Counter[str]:
    """Interrupt a turn after `count` of its bytecodes, evenly spread: after each one when there are fewer."""
    whole = Bytecodes(10**9)
    assert "completed" == whole.drive(make([]))
    total = 10**9 - whole.left
    ends: Counter[str] = Counter()
    for number in _spread(total, count):
        inner: list[SmallHost] = []
        host = make(inner)
        end = Bytecodes(number).drive(host)
        for each in (host, *inner):
            check(each)
        ends[end if host.log.entries else "early"] += 1
    ends["bytecodes"] = total
    return ends


def _spread(total: int, count: int) -> Iterator[int]:
    step = max(1, total // count)
    yield from range(1 + step // 2, total + 1, step)


def closing(_count: int) -> Counter[str]:
    """Interrupt a turn, and again while it is being closed: the second one is raised when the end is durable."""
    ends: Counter[str] = Counter()

    class Twice(SmallHost):
        def partial(self) -> Message | None:
            interrupt()
            return super().partial()

    host = Twice([said(call("look", "a")), lambda: interrupt() or said("never")])
    try:
        host.drive()
    except KeyboardInterrupt:
        ends["raised"] += 1
    check(host)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return ends


def held(_count: int) -> Counter[str]:
    """Interrupt where no effect is under way: the next one does not begin, or the caller hears of it."""
    ends: Counter[str] = Counter()
    for where in ("start", "publish", "commit"):
        for number in range(1, 12):
            host = short_host()
            inside = getattr(host.log if where == "commit" else host, where)
            left = [number]

            def interrupted(*given: Any, inside: Any = inside, left: list[int] = left) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    interrupt()
                return inside(*given)

            setattr(host.log if where == "commit" else host, where, interrupted)
            try:
                ends[host.drive().reason] += 1
            except KeyboardInterrupt:
                ends["raised"] += 1
            assert where != "start" or number > 2 or host.ran == ["a", "b"][: number - 1], host.ran
            check(host)
    return ends


def foreign(_count: int) -> Counter[str]:
    """With somebody else's handler a Ctrl-C is theirs: the turn is closed, then theirs is raised."""
    signal.signal(signal.SIGINT, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt("theirs")))
    host = SmallHost([said(call("look", "a"))], calls={"a": interrupt})
    ends: Counter[str] = Counter()
    try:
        host.drive()
    except KeyboardInterrupt as raised:
        ends[str(raised)] += 1
    check(host)
    return ends


def kept(_count: int) -> Counter[str]:
    """A tool that takes the handler over for good keeps it."""

    def take() -> str:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return "mine"

    host = SmallHost([said(call("look", "a")), said("done")], calls={"a": take})
    ends = Counter({host.drive().reason: 1})
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    check(host)
    return ends


KINDS: dict[str, Callable[[int], Counter[str]]] = {
    "storm": storm,
    "everywhere": lambda count: everywhere(count, lambda _: short_host()),
    "nested": lambda count: everywhere(count, nesting_host),
    "closing": closing,
    "held": held,
    "foreign": foreign,
    "kept": kept,
}


if __name__ == "__main__":
    json.dump(KINDS[sys.argv[1]](int(sys.argv[2])), sys.stdout)
