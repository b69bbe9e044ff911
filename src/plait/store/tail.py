"""The last messages of a long journal, without reading all of it.

Floor: 2. Owns: which part of the file is enough; never: a second copy of the history, which could be stale.

The end of the file is read, and more of it until it says enough. Its lines are checked against each other like any;
what they do not tell, because it stands further up, is not guessed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from plait.core.facts import Fact, MessageAdded, Reset, RoundClosed, ToolEnd
from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.values import dataclass
from plait.kernel.state import fold
from plait.store import disk
from plait.store.opening import cannot_open, load_journal
from plait.store.records import read_end

_FIRST_BYTES: Final = 1 << 16
_GROWTH: Final = 8


@dataclass(frozen=True, slots=True)
class Tail:
    """How a history ends."""

    messages: Sequence[Message]
    at_ms: int
    """When the last fact was recorded; 0 when there is none."""
    is_all: bool
    """The history has no more messages than these."""


def read_tail(path: Path, count: int) -> Tail:
    """Return the last `count` messages of a journal, or all where there are fewer.

    Raises `JournalError` where the journal cannot be read, or is damaged where this has to look.
    """
    size = _FIRST_BYTES
    while True:
        data, is_whole = _end_of(path, size)
        if is_whole:
            break
        end = read_end(data)
        if end is not None:
            told, chain = end
            known = Window(told.facts).known
            if len(known) >= count:
                return Tail(known[len(known) - count :], chain.at_ms, False)
        size *= _GROWTH
    journal = load_journal(path)
    history = fold(journal.facts).history
    return Tail(history[max(0, len(history) - count) :], journal.chain.at_ms, len(history) <= count)


def _end_of(path: Path, size: int) -> tuple[bytes, bool]:
    """The last bytes of a file, and whether that is all of it."""
    try:
        with disk.opened(path, os.O_RDONLY) as fd:
            total = disk.size_of(fd)
            return disk.read_from(fd, max(0, total - size)), total <= size
    except OSError as error:
        raise cannot_open(path, error) from error


class Window:
    """As much of a history as its latest facts tell: the messages that are known, which are its last ones."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.known: list[Message] = []
        self._base: int | None = None
        """Index of the first known message in the whole history, once a fact has told it."""
        self._calls: tuple[ToolCall, ...] = ()
        self._ended: dict[str, ToolResult] = {}
        for fact in facts:
            self._take(fact)

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, MessageAdded):
            self.known.append(fact.message)
            self._calls, self._ended = fact.message.tool_calls, {}
        elif isinstance(fact, ToolEnd):
            self._ended[fact.result.call_id] = fact.result
        elif isinstance(fact, RoundClosed):
            self._close_round(fact.of)
        elif isinstance(fact, Reset) and not fact.is_skipped:
            self._reset(fact)

    def _close_round(self, of: int) -> None:
        if self._calls:
            self.known.append(Message("tool", tuple(self._ended[call.id] for call in self._calls)))
        else:
            # Its calls, and results perhaps, stand before the window.
            self.known.clear()
        self._calls = ()
        self._base = of + 2 - len(self.known)

    def _reset(self, fact: Reset) -> None:
        base, self._calls = self._base, ()
        if base is None:
            # Which of the known messages were replaced cannot be told.
            self.known.clear()
        elif fact.end < base:
            self._base = base + len(fact.messages) - (fact.end - fact.start)
        else:
            before = self.known[: max(0, fact.start - base)]
            self.known = [*before, *fact.messages, *self.known[fact.end - base :]]
            self._base = min(base, fact.start)
