"""The log of a session: nothing on disk until its first turn begins, then its journal, and beside it whoever listens.

Floor: 5. Owns: when the journal is made, and that a sink has a fact before anybody else hears of it; never: a file.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from plait.core.codec import encode_fact
from plait.core.errors import JournalError
from plait.core.facts import Entry, Fact, MessageAdded, ToolEnd, ToolStart
from plait.core.messages import ToolCall
from plait.kernel.log import FactLog, MemoryLog
from plait.session.kept.flat import CallRecord
from plait.store.jsonl import JsonlLog

Record = dict[str, object]


class DurableSink(Protocol):
    """Somewhere else that facts are to be kept."""

    def append(self, record: Mapping[str, object]) -> object:
        """Take a record, `{seq, type, at, run_id?, data}` with `at` in milliseconds since 1970.

        Called in order, once what is recorded is safe in the journal and before its consequence: what this raises
        comes out of the call that ran the turn, and the request is not sent or the tool not run. The record is
        offered again when the session goes on.
        """


class SessionLog:
    """Takes the facts of one session; see `kernel.log.FactLog` for the contract, and one thread at a time.

    It serves both colours: a barrier is made in the caller's thread.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        open: Callable[[], JsonlLog] | None = None,
        log: JsonlLog | None = None,
        sink: DurableSink | None = None,
    ) -> None:
        """Begin in memory, unless there is a journal already.

        Args:
            open: makes the journal when the first turn begins; None never makes one.
            log: the journal of a session that goes on.
            sink: is to have every fact before anybody acts on it.
        """
        self._log: FactLog = log or MemoryLog(now_ms)
        self._journal = log
        self._open = open
        self._sink = sink
        self._unseen: deque[Entry] = deque()
        """Safe, and not yet with the sink."""
        self._fresh: list[Entry] = []
        """With the sink, and not yet handed on."""
        self._calls: dict[str, ToolCall] = {}
        self._told = 0
        """So many of the next entries were handed on when they were in memory only."""

    @property
    def journal(self) -> JsonlLog | None:
        """The journal, once there is one."""
        return self._journal

    def begin(self) -> None:
        """Make the journal, with all that was recorded so far, where there is to be one and is none yet.

        Raises `JournalError` where that cannot be done; nothing is lost, and the next turn tries again.
        """
        if self._open is None:
            return
        journal = self._open()
        assert isinstance(self._log, MemoryLog)
        early = tuple(entry.fact for entry in self._log.entries)
        if early:
            journal.append(early)
        self._told = self._log.taken
        self._log, self._journal, self._open = journal, journal, None

    def append(self, facts: tuple[Fact, ...]) -> None:
        """Take facts in."""
        self._log.append(facts)

    def commit(self) -> None:
        """Make everything appended durable, and give it to the sink; raise what either of them raises."""
        self._log.commit()
        if self._sink is None or self._open is not None:
            return
        self._unseen.extend(self._log.take_committed())
        while self._unseen:
            self._sink.append(self._record(self._unseen[0]))
            self._fresh.append(self._unseen.popleft())

    def take_committed(self) -> Sequence[Entry]:
        """Return what became safe since the last call."""
        if self._sink is None or self._open is not None:
            fresh = self._log.take_committed()
        else:
            fresh, self._fresh = self._fresh, []
        if self._told:
            told = min(self._told, len(fresh))
            self._told -= told
            return fresh[told:]
        return fresh

    def _record(self, entry: Entry) -> Record:
        """Return an entry as a sink gets it; the start and the end of a call know the call."""
        fact, record = entry.fact, envelope(entry)
        if isinstance(fact, MessageAdded):
            self._calls = {call.id: call for call in fact.message.tool_calls}
        elif isinstance(fact, (ToolStart, ToolEnd)):
            record = CallRecord(record)
            record.call = self._calls.get(fact.call_id if isinstance(fact, ToolStart) else fact.result.call_id)
        return record

    def close(self, last: Fact | None = None) -> None:
        """Record a last fact where there is a journal, and let it go; may be called twice."""
        journal = self._journal
        if journal is None:
            return
        try:
            # Everything that was promised is safe already; a full disk is no reason to fail here.
            with contextlib.suppress(JournalError):
                if last is not None and not self._unseen:
                    self.append((last,))
                    self.commit()
        finally:
            with contextlib.suppress(JournalError):
                journal.close()


def envelope(entry: Entry) -> Record:
    """Return an entry as a record of the journal, without its checksum."""
    name, data = encode_fact(entry.fact)
    record: Record = {"seq": entry.seq, "type": name, "at": entry.at_ms}
    if entry.run_id:
        record["run_id"] = entry.run_id
    return {**record, "data": data} if data else record
