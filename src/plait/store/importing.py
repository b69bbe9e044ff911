"""Sessions from elsewhere: an exported journal, or the files of the older session program, by path.

Floor: 2. Owns: what each form says, and mending what a provider would refuse; never: a change to what is read.

The older journal has a record a line with `seq`, `ts` and `type`; its snapshot is a JSON object with `metadata` and
`messages`, or a bare list. Where both are there, the journal wins as it did for its own program: when it tells more
than one message, or a turn that has not ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from plait.core.errors import ConfigError, JournalCorrupt
from plait.core.facts import Entry, Fact, Observation, Reset
from plait.core.messages import Message, ToolResult
from plait.core.values import dataclass
from plait.store import disk
from plait.store.jsonl import JOURNAL
from plait.store.layout import SNAPSHOT
from plait.store.opening import cannot_open, file_bytes, load_journal
from plait.store.salvage import write_journal
from plait.wire.chat.history import decode_messages

Json = dict[str, Any]

_UNKNOWN: Final = "The process ended during this call: it may have done all, part or nothing. Check before a repeat."
_NOT_RUN: Final = "Not run: the process ended before this call."
_BIRTH: Final = b'{"seq":0,"type":"journal",'


@dataclass
class OlderJournal:
    """What an older journal comes to."""

    messages: list[Json] = field(default_factory=list)
    pending_tool_calls: dict[str, Json] = field(default_factory=dict)
    """Started and not ended, by call id."""
    results: dict[str, str] = field(default_factory=dict)
    """Every result that was recorded, whole."""
    names: dict[str, str] = field(default_factory=dict)
    """The tool of each call that has ended."""
    entries_replayed: int = 0
    completed_turns: int = 0
    mid_turn: bool = False
    at_ms: int = 0


def import_session(source: Path, folder: Path, conversation: str) -> Path:
    """Make a session of a journal, a snapshot, or a folder with both; return the new journal.

    Raises:
        ConfigError: `folder` has a session, or `source` is nothing that can be imported. JournalError: it is damaged.
    """
    journal, snapshot = _files(source)
    if journal is not None and file_bytes(journal).startswith(_BIRTH):
        ours = load_journal(journal)
        return write_journal(folder, conversation, {**ours.header, "imported_from": str(source)}, ours.entries)
    metadata, kept = ({}, []) if snapshot is None else _snapshot(snapshot)
    if journal is not None and "up_to_seq" in metadata:
        # The cache of a session of plait's is no reason to overlook that its journal is damaged.
        load_journal(journal)
    state = OlderJournal() if journal is None else replay_older(file_bytes(journal), str(journal))
    wins = state.entries_replayed and (not kept or state.mid_turn or len(state.messages) > 1)
    items = state.messages if wins else kept
    facts: list[Fact] = [Observation("session_start", {"imported_from": str(source), **metadata})]
    facts.append(Reset(0, 0, tuple(_history(items, state if wins else OlderJournal(), str(source))), "import"))
    entries = [Entry(seq, state.at_ms, "", fact) for seq, fact in enumerate(facts, 1)]
    return write_journal(folder, conversation, {"imported_from": str(source)}, entries)


def is_journal(folder: Path) -> bool:
    """Say whether a folder holds a journal of plait's own; raise `JournalError` where that cannot be seen."""
    path = folder / JOURNAL
    try:
        with disk.opened(path, os.O_RDONLY) as fd:
            return disk.read_some(fd, len(_BIRTH)) == _BIRTH
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise cannot_open(path, error, "read") from error


def replay_older(data: bytes, path: str = "") -> OlderJournal:
    """Return what an older journal says; an unfinished last line is left out, damage before it raises."""
    state, turns, offset = OlderJournal(), 0, 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line) if line.strip() else None
        except ValueError as error:
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise JournalCorrupt(
                f"record {number} of the journal {path!r} is damaged at byte {offset}: {error}",
                path=path,
                offset=offset,
                seq=number,
            ) from error
        offset += len(line)
        if isinstance(record, dict):
            turns += _take(state, record)
    state.mid_turn = turns > 0
    return state


def _take(state: OlderJournal, record: Json) -> int:
    """Take a record in; return how many more turns are open after it."""
    kind, call_id = record.get("type"), str(record.get("call_id") or "")
    state.entries_replayed += 1
    state.at_ms = _time_ms(record.get("ts")) or state.at_ms
    if kind == "message" and isinstance(record.get("msg"), dict):
        state.messages.append(record["msg"])
    elif kind == "reset_messages":
        told = record.get("messages")
        state.messages = [item for item in told if isinstance(item, dict)] if isinstance(told, list) else []
    elif kind == "tool_start":
        state.pending_tool_calls[call_id] = record
    elif kind == "tool_end":
        state.pending_tool_calls.pop(call_id, None)
        state.results[call_id] = str(record.get("result") or "")
        state.names[call_id] = str(record.get("name") or "")
    elif kind == "turn_end":
        state.completed_turns += 1
    return {"turn_start": 1, "turn_end": -1}.get(str(kind), 0)


def _history(items: Iterable[Mapping[str, object]], state: OlderJournal, path: str) -> list[Message]:
    """The messages, every call with exactly one result: as recorded, or unknown, or not run."""
    try:
        read = decode_messages(items)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path!r} holds something that is no message: {error}") from error
    told = {result.call_id: result for message in read for result in message.tool_results}
    history: list[Message] = []
    for message in read:
        if message.role == "tool":
            continue
        history.append(message)
        if message.tool_calls:
            results = (told.get(call.id) or _result(call.id, state) for call in message.tool_calls)
            history.append(Message("tool", tuple(results)))
    return history


def _result(call_id: str, state: OlderJournal) -> ToolResult:
    if call_id in state.results:
        return ToolResult(call_id, state.results[call_id])
    if call_id in state.pending_tool_calls:
        return ToolResult(call_id, _UNKNOWN, status="unknown")
    return ToolResult(call_id, _NOT_RUN, status="cancelled")


def _files(source: Path) -> tuple[Path | None, Path | None]:
    """The journal and the snapshot that a path names, by what its program called them."""
    if source.is_dir():
        candidates = (source / JOURNAL, source / SNAPSHOT)
    elif source.name.endswith("_messages.json"):
        candidates = (source.with_name(source.name.replace("_messages.json", "_journal.jsonl")), source)
    elif source.name.endswith("_journal.jsonl"):
        candidates = (source, source.with_name(source.name.replace("_journal.jsonl", "_messages.json")))
    elif source.suffix == ".json":
        candidates = (source.with_name(JOURNAL), source)
    else:
        candidates = (source, source.with_name(SNAPSHOT))
    journal, snapshot = (path if path.is_file() else None for path in candidates)
    if journal is None and snapshot is None:
        raise ConfigError(
            f"there is nothing to import at {str(source)!r}", hint="name a journal, a snapshot or a folder"
        )
    return journal, snapshot


def _snapshot(path: Path) -> tuple[Json, Sequence[Json]]:
    try:
        document = json.loads(file_bytes(path))
    except ValueError as error:
        raise ConfigError(f"the snapshot {str(path)!r} is no JSON: {error}") from error
    metadata: object = {}
    if isinstance(document, dict):
        metadata, document = document.get("metadata", {}), document.get("messages")
    if not isinstance(document, list) or not isinstance(metadata, dict):
        raise ConfigError(f"the snapshot {str(path)!r} holds no messages")
    return metadata, [item for item in document if isinstance(item, dict)]


def _time_ms(value: object) -> int:
    try:
        return int(datetime.fromisoformat(str(value)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return 0
