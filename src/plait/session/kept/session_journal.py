"""A session's journal for programs that write or read one themselves, under the names of the older library.

Floor: 5. Owns: `SessionJournal` and `replay_journal`; never: the file's format (`store`), or a turn.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from plait.core.clock import SystemClock
from plait.core.codec import FactInvalid, decode_fact
from plait.core.errors import ConfigError
from plait.core.facts import Fact, MessageAdded, Reset, RoundClosed, ToolEnd, ToolStart, TurnEnd, TurnStart
from plait.core.ids import new_id
from plait.core.messages import ResultStatus, ToolCall, ToolResult
from plait.core.strict_json import JsonInvalid, dump
from plait.core.values import dataclass
from plait.kernel.state import FoldError, fold
from plait.session.history.mirror import read_history
from plait.session.kept.flat import chat_items
from plait.session.sender import sender_label
from plait.store import disk
from plait.store.importing import replay_older
from plait.store.opening import cannot_open, load_journal, open_journal_at
from plait.store.records import is_journal_text, is_unborn
from plait.wire.chat.history import decode_messages

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A call that was started and has not ended."""

    call_id: str
    name: str
    args: Mapping[str, object] | str


@dataclass(frozen=True, slots=True)
class KnownToolResult:
    """A call that has ended, whose result the model has not been shown."""

    call_id: str
    name: str
    result: str

    def summary(self, chars_max: int = 200) -> str:
        """Return the result on one line, cut."""
        line = " ".join(self.result.split())
        return line if len(line) <= chars_max else f"{line[: chars_max - 1]}\u2026"


@dataclass(frozen=True, slots=True)
class JournalState:
    """What a journal comes to."""

    messages: Sequence[Json] = ()
    """As chat-completions messages, without the system prompt."""
    pending_tool_calls: Sequence[PendingToolCall] = ()
    unreceived_results: Sequence[KnownToolResult] = ()
    entries_replayed: int = 0
    completed_turns: int = 0
    mid_turn: bool = False


def replay_journal(path: str | os.PathLike[str]) -> JournalState:
    """Return what a journal comes to, plait's or agentknit's; nothing for a file that is not there.

    An unfinished write at its end is left out. Raises `JournalCorrupt` for damage before it.
    """
    place = Path(path)
    try:
        data = disk.read_file(place)
    except FileNotFoundError:
        return JournalState()
    except OSError as error:
        raise cannot_open(place, error, "read") from error
    if is_unborn(data):
        return JournalState()
    if not is_journal_text(data):
        return _older(data, str(place))
    journal = load_journal(place)
    state = fold(journal.facts)
    round_ = state.round
    pending = [] if round_ is None else [PendingToolCall(c.id, c.name, _args(c.raw)) for c in round_.lost]
    ended = {} if round_ is None else round_.ended
    names = {} if round_ is None else {call.id: call.name for call in round_.calls}
    return JournalState(
        chat_items(state.history),
        pending,
        [KnownToolResult(call_id, names[call_id], result.content) for call_id, result in ended.items()],
        journal.seq,
        sum(isinstance(fact, TurnEnd) for fact in journal.facts),
        state.in_turn,
    )


class SessionJournal:
    """Writes a journal record by record, each durable on return.

    A journal that is there goes on. Facts that do not fit those before them are refused with `ConfigError`, and
    nothing is written.
    """

    def __init__(self, path: str | os.PathLike[str], *, exclusive: bool = True) -> None:
        """Open a journal, or begin one; there is never a second writer, whatever `exclusive` says.

        Raises:
            SessionBusy: somebody else writes it. JournalCorrupt: it is damaged, or none of plait's.
        """
        opened = open_journal_at(Path(path), new_id("s"), SystemClock().now_ms)
        self._log, self._state = opened.log, opened.state

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record in the journal's own form: `{type, data}`; number and time are the journal's."""
        try:
            fact = decode_fact(str(record.get("type")), record.get("data", {}))
        except FactInvalid as error:
            raise ConfigError(f"the journal takes no such record: {error}") from error
        self._write(fact)

    def turn_start(self, task: str | None = None, sender: Mapping[str, object] | None = None) -> None:
        """A turn begins; the task is the message that follows."""
        self._write(TurnStart(sender=sender_label(sender)))

    def turn_end(self) -> None:
        """The turn is over."""
        self._write(*self._closing(), TurnEnd("completed"))

    def message(self, msg: Mapping[str, Any]) -> None:
        """A chat message joins the history; a system prompt is no part of it, and a call's result only once."""
        for message in decode_messages([msg]):
            if message.role != "tool":
                self._write(*self._closing(), MessageAdded(message))
                continue
            known = self._known()
            self._write(*(ToolEnd(result) for result in message.tool_results if result.call_id not in known))
            self._write(*self._closing())

    def tool_start(self, call_id: str, name: str, args: Mapping[str, object]) -> None:
        """A call is about to run."""
        round_ = self._state.round
        call = None if round_ is None else next((call for call in round_.calls if call.id == call_id), None)
        is_same = call is not None and _args(call.raw) == dict(args)
        self._write(ToolStart(call_id, None if is_same else dump(dict(args))))

    def tool_end(self, call_id: str, name: str, result: str, outcome: str | None = None) -> None:
        """A call has its result; `outcome` says that a hook denied it (`hook_deny`) or that it failed (`error`)."""
        status: ResultStatus = "ok" if outcome is None else "error" if outcome == "error" else "denied"
        self._write(ToolEnd(ToolResult(call_id, result, status=status)))

    def reset_messages(self, reason: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """The whole history is replaced."""
        history = tuple(read_history(messages))
        self._write(*self._closing(), Reset(0, len(self._state.history), history, reason))

    def close(self) -> None:
        """Let the journal go; may be called twice."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _known(self) -> set[str]:
        """Calls whose results the journal has: of the open round, or of the one that was closed last."""
        if self._state.round is not None:
            return {*self._state.round.ended}
        last = self._state.history[-1:]
        return {result.call_id for message in last for result in message.tool_results}

    def _closing(self) -> tuple[Fact, ...]:
        """What closes a round whose calls have all ended."""
        round_ = self._state.round
        is_done = round_ is not None and all(call.id in round_.ended for call in round_.calls)
        return (RoundClosed(round_.of),) if round_ is not None and is_done else ()

    def _write(self, *facts: Fact) -> None:
        for fact in facts:
            try:
                self._state.apply(fact)
            except FoldError as error:
                raise ConfigError(f"the journal takes no such record now: {error}") from error
            self._log.append((fact,))
        self._log.commit()


def _older(data: bytes, path: str) -> JournalState:
    told = replay_older(data, path)
    shown = {str(item.get("tool_call_id")) for item in told.messages if item.get("role") == "tool"}
    return JournalState(
        told.messages,
        [
            PendingToolCall(call_id, str(record.get("name", "")), record.get("args") or {})
            for call_id, record in told.pending_tool_calls.items()
        ],
        [
            KnownToolResult(call_id, told.names.get(call_id, ""), result)
            for call_id, result in told.results.items()
            if call_id not in shown
        ],
        told.entries_replayed,
        told.completed_turns,
        told.mid_turn,
    )


def _args(raw: str) -> Mapping[str, object] | str:
    try:
        return ToolCall("", "", raw).arguments
    except JsonInvalid:
        return raw
