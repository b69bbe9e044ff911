"""A process that lives a session and dies by SIGKILL at a point it is told: `python -m tests.helpers.victim`.

Reads one order a line, forks for each, and answers how the child ended. The child opens the session's journal, goes on
with its turn wherever that stands, and writes down outside of the journal what was acknowledged to it and what its
tools did. Points are counted around everything it does to a disk, to an observer and in a tool; writes also stop in
the middle. Syncs are not made: a killed process leaves what it wrote.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from plait.core.codec import encode_fact
from plait.core.events import Committed, Event
from plait.core.facts import Entry
from plait.core.messages import user
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.validation import compile_schema
from plait.kernel.ports import Setup
from plait.kernel.rules import Rules
from plait.kernel.tools import Tool, ToolTable
from plait.store import disk
from plait.store.opening import open_journal
from plait.store.syncer import AsyncJsonlLog, Syncer
from plait.testing import Call, Say, ScriptedModel
from tests.helpers.warm import Warm

TASK = user("Do the task.")
_QUICK = ("sync_data", "sync_file", "sync_folder", "sync_file_system")
_WATCHED = ("open_file", "overwrite", "cut", "lock", "unlock", "close_file", "read_all", "size_of", *_QUICK)


@dataclass(frozen=True)
class Order:
    """What a child is to do."""

    folder: str
    colour: str = "sync"
    kill_at: int = 0
    """Number of the point at which it dies, from 1; 0 lets it live."""
    kind: str = "plain"
    """`plain`: tools of its own; `effects`: the built-in tools, whose effects survive it; `jobs`: a background job;
    or a `SessionLife`'s."""


class Points:
    """Counts the points a life passes, and ends it at one of them."""

    def __init__(self, kill_at: int) -> None:
        self.passed = 0
        self._kill_at = kill_at

    def __call__(self) -> bool:
        """Pass a point; True when the next one is the last."""
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        return self.passed + 1 == self._kill_at


def watch_disk(points: Points) -> None:
    """Put points around everything the store does, and into the middle of its writes."""
    for name in _WATCHED:
        real = getattr(disk, name)
        setattr(disk, name, _watched(points, (lambda *_: None) if name in _QUICK else real))
    write_all = disk.write_all

    def write_in_two(fd: int, data: bytes) -> None:
        if points():
            write_all(fd, data[: len(data) // 2])
        points()
        write_all(fd, data)
        points()

    disk.write_all = write_in_two


def _watched(points: Points, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        points()
        value = real(*args)
        points()
        return value

    return call


def digest(entry: Entry) -> int:
    """Return a number that says what an entry is."""
    return zlib.crc32(repr((entry.seq, encode_fact(entry.fact))).encode())


class Life:
    """One life of the session's process."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._folder = Path(order.folder)
        self._points = Points(order.kill_at)

    def live(self) -> int:
        """Open the session, go on with it to its end, and return how many points were passed."""
        watch_disk(self._points)
        self._watch()
        opened = open_journal(self._folder / "session", "s1", lambda: time.time_ns() // 1_000_000)
        state = opened.state
        syncer = Syncer()
        table = ToolTable(self._tools(), compile=compile_schema)
        conversation = Conversation(
            ScriptedModel(self.answer),
            Terms(table, Setup("", table.schemas), rules=Rules(max_steps=20)),
            Workbench(),
            state=state,
            log=opened.log,
            alog=AsyncJsonlLog(opened.log, syncer),
            id="s1",
        )
        conversation.observers.add(self._acknowledge)
        inputs = () if TASK in state.history else (TASK,)
        if inputs or state.in_turn:
            if self._order.colour == "sync":
                conversation.turn(inputs, resume=state.in_turn)
            else:
                asyncio.run(conversation.aturn(inputs, resume=state.in_turn))
            self._note("acks", "0 returned")
        conversation.close()
        syncer.close()
        opened.log.close()
        return self._points.passed

    def answer(self, asked: Any) -> Any:
        """Answer a request: which step is next is read off it."""
        return _answer(asked)

    def _watch(self) -> None:
        """Put points around whatever else this life does."""

    def _acknowledge(self, event: Event) -> None:
        if isinstance(event, Committed):
            self._points()
            self._note("acks", f"{event.entry.seq} {digest(event.entry)}")
            self._points()

    def _note(self, name: str, line: str) -> None:
        with (self._folder / name).open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())

    def _tools(self) -> list[Tool]:
        def look(at: int) -> str:
            self._points()
            return f"saw {at}"

        def write(at: int) -> str:
            self._points()
            self._note("effects", str(at))
            self._points()
            return f"wrote {at}"

        return [Tool("look", "", look, parallel_safe=True, idempotent=True), Tool("write", "", write, mutates=True)]


def _answer(asked: Any) -> Any:
    """A turn of three steps with two calls each in two of them; which step is next is read off the request."""
    step = sum(message.role == "assistant" for message in asked.messages)
    steps = (
        Say("I look.", calls=[Call("look", {"at": 1}, id="a1"), Call("write", {"at": 2}, id="a2")]),
        Say(calls=[Call("write", {"at": 3}, id="b1"), Call("look", {"at": 4}, id="b2")]),
        Say("Done."),
    )
    return steps[min(step, 2)]


def life_of(kind: str) -> Callable[[Order], Life]:
    """Return the life of a kind."""
    if kind == "plain":
        return Life
    if kind == "effects":
        from tests.helpers.effects_victim import EffectsLife

        return EffectsLife
    if kind == "jobs":
        from tests.helpers.jobs_victim import JobsLife

        return JobsLife
    from tests.helpers.session_victim import SessionLife

    return SessionLife


def serve() -> None:
    """Answer orders until there are none."""
    compile_schema({})  # what it imports is imported here, once, and not in every child
    for line in sys.stdin:
        order = Order(**json.loads(line))
        life = life_of(order.kind)  # what this imports is imported once too
        pid = os.fork()
        if pid == 0:
            _live_and_exit(order, life)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(status, flush=True)


def _live_and_exit(order: Order, life: Callable[[Order], Life]) -> None:
    try:
        passed = life(order).live()
        Path(order.folder, "points").write_text(str(passed))
        os._exit(0)
    except BaseException:
        Path(order.folder, "error").write_text(traceback.format_exc())
        os._exit(1)


class Victims:
    """The other end: gives orders and learns how they ended."""

    kills = 0
    """How many of them were killed."""

    def __enter__(self) -> Self:
        self._process = Warm(
            [sys.executable, "-m", "tests.helpers.victim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def live(self, order: Order) -> bool:
        """Have a child live; True when it came to its end, False when it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        if status == 1:
            raise AssertionError(Path(order.folder, "error").read_text())
        assert status in (0, -signal.SIGKILL)
        self.kills += status != 0
        return status == 0


if __name__ == "__main__":
    serve()
