"""`python -m bench.durable`: what keeping a journal costs, and how fast one is read back.

Owns: the rows about durability and their goals; never: how a ratio is measured (`bench.running`). Ratios compare the
same conversation with and without a journal; the other rows have goals of their own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.plan import Measure, Subject
from bench.running import Failed, figure_of, serving
from plait.core.facts import Fact, MessageAdded, RoundClosed, ToolEnd, ToolStart, TurnEnd, TurnStart
from plait.core.messages import Message, Text, ToolCall, ToolResult, user
from plait.core.usage import Usage
from plait.store import disk
from plait.store.opening import Opened, open_journal
from plait.store.tail import read_tail

FOLDER: Final = Path(__file__).parent / "out" / "journal"
STEPS: Final = 5_000
"""Two messages a step."""
_NOW_MS: Final = 1_764_500_000_000
_SENT: Final = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    value: float
    unit: str
    goal: float

    @property
    def is_met(self) -> bool:
        """Say whether the value is as good as was wanted."""
        return self.value <= self.goal


def ratios(rounds: int) -> Iterator[Row]:
    """Measure conversations with and without a journal, CPU of both."""
    plan = (
        ("a step, sync", "writing_sync", "writing_sync_in_memory", "steps", 200, 1.6),
        ("a step, one async conversation", "writing", "writing_in_memory", "steps", 200, 2.0),
        ("a step, 64 conversations, tool that writes", "writing", "writing_in_memory", "conversations", 63, 1.1),
        ("a step, 64 conversations, tool that reads", "reading", "reading_in_memory", "conversations", 63, 1.1),
    )
    with serving() as url:
        for name, face, floor, mode, count, goal in plan:
            mine, its = (Subject(module="bench.p_durable", face=each) for each in (face, floor))
            measure = Measure(name, "worker", mine, its, "cpu_ms", mode=mode, count=count)
            yield Row(name, figure_of(measure, url, rounds).ratio, "x", goal)


def conversation(steps: int, result: str = "ok x") -> list[tuple[Fact, ...]]:
    """Return the writes of one long turn, as a driver makes them: two a step."""
    writes: list[tuple[Fact, ...]] = [(TurnStart(), MessageAdded(user("Read the files and say what they do.")))]
    for step in range(steps):
        call = ToolCall(f"call_{step:024d}", "read_file", '{"path":"src/plait/core/messages.py"}')
        answer = Message("assistant", (Text("I look."), call), "https://api.example.com/v1")
        usage = Usage(1_000 + step, 20, 900, 0)
        writes.append((MessageAdded(answer, usage, "tool_calls", _SENT), ToolStart(call.id)))
        writes.append((ToolEnd(ToolResult(call.id, result)), RoundClosed(1 + 2 * step)))
    return [
        *writes,
        (MessageAdded(Message("assistant", (Text("done"),)), Usage(1, 1), "end_turn"), TurnEnd("completed")),
    ]


def content_bytes(write: tuple[Fact, ...]) -> int:
    """Return the bytes that a chat-completions request has of what a write says."""
    size = 0
    for fact in write:
        if isinstance(fact, MessageAdded):
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
                for call in fact.message.tool_calls
            ]
            size += len(json.dumps({"role": "assistant", "content": fact.message.content, "tool_calls": calls}))
        elif isinstance(fact, ToolEnd):
            told = {"role": "tool", "tool_call_id": fact.result.call_id, "content": fact.result.content}
            size += len(json.dumps(told))
    return size


@contextmanager
def journal(writes: Sequence[tuple[Fact, ...]]) -> Iterator[Path]:
    """Give a journal of these writes; it is synced once, at the end."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    sync, disk.sync_data = disk.sync_data, lambda fd: None
    try:
        log = opened().log
        for write in writes:
            log.append(write)
            log.commit()
    finally:
        disk.sync_data = sync
    log.close()
    yield log.path
    shutil.rmtree(FOLDER)


def opened() -> Opened:
    """Open the journal."""
    return open_journal(FOLDER, "s", lambda: _NOW_MS)


def cpu_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the least CPU time of some rounds: whatever is more was somebody else's."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best * 1e3


def reading(rounds: int) -> Iterator[Row]:
    """Measure how fast ten thousand messages are back."""
    with journal(conversation(STEPS)) as path:
        yield Row("resume of 10,000 messages, CPU", cpu_ms(lambda: opened().log.close(), rounds), "ms", 120)
        yield Row("the last 50 of them, CPU", cpu_ms(lambda: read_tail(path, 50), rounds), "ms", 20)


def sizes() -> Iterator[Row]:
    """Measure what a journal holds beside what was said."""
    for name, result in (("tiny", "ok x"), ("500-byte", "x" * 500), ("20-kB", "x" * 20_000)):
        writes = conversation(200, result)
        with journal(writes) as path:
            said = sum(map(content_bytes, writes)) / 200
            yield Row(
                f"journal beside 1.05 x content, {name} results", path.stat().st_size / 200 - 1.05 * said, "B", 330
            )


def syncs() -> Iterator[Row]:
    """Count syncs of a step that writes, and the time they add."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    log, count, sync = opened().log, 0, disk.sync_data

    def counted(fd: int) -> None:
        nonlocal count
        count += 1
        sync(fd)

    disk.sync_data = counted
    began_s = time.perf_counter()
    for write in conversation(100)[1:-1]:
        log.append(write)
        log.commit()
    wall_ms = (time.perf_counter() - began_s) * 1e3
    disk.sync_data = sync
    log.close()
    shutil.rmtree(FOLDER)
    yield Row("syncs of a step that writes", count / 100, "", 2)
    yield Row("wall time they add, sync", wall_ms / 100, "ms", 2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when a measurement failed, or with `--gate` when a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.durable", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when a goal is missed")
    options = parser.parse_args(arguments)
    rounds = 3 if options.quick else 7
    missed = 0
    try:
        for rows in (sizes(), syncs(), reading(rounds * 2), ratios(rounds)):
            for row in rows:
                missed += not row.is_met
                verdict = "ok" if row.is_met else "MISSED"
                print(f"{row.name:<48}{row.value:>9.2f} {row.unit:<3}{row.goal:>8.4g}  {verdict}", flush=True)
    except Failed as why:
        print(f"not measured: {why}")
        return 1
    return 1 if missed and options.gate else 0


if __name__ == "__main__":
    sys.exit(main())
