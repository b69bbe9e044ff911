"""A journal's lines: facts as bytes that can be checked one by one, and a file of them read back.

Floor: 2. Owns: the line format, its checksum chain, and telling a torn tail from damage; never: a file descriptor.

A line is a JSON object and a newline:

    {"at":1764500000000,"seq":7,"type":"tool_end","data":{…},"crc":"1f2e3d4c"}
    {"type":"round","data":{"of":3},"crc":"90ab12ef"}

The first line of all, of type `journal`, names the format version and the conversation; it keeps its form in every
version. `crc` is the CRC-32 of everything before it on the line, started from the `crc` of the line before: a changed
byte, a missing, repeated or exchanged line, and a line of another journal all break the chain.

The first line of each write begins with `at`, and no other line does. It alone has its number, `seq`; the others
count on. `run_id`, and a further `at`, stand where they are another than on the line before. `exact` marks a line with
numbers that the fast reader would round.

All lines before a write were durable when it began. So damage with a later write behind it is damage to what was
promised, and damage with none behind it is an unfinished write, which nobody was told was safe; the writer's note
(`store.writer`) vouches for the last one.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from plait.core.codec import decode_fact, encode_fact
from plait.core.errors import JournalCorrupt, JournalVersion
from plait.core.facts import Entry
from plait.core.strict_json import plain, text_of

VERSION: Final = 1
_BIRTH: Final = b'{"seq":0,"type":"journal","v":'
_SEAL_BYTES: Final = len(b',"crc":"00000000"}')
_EXACT: Final = b',"exact":true'
_ENVELOPE: Final = frozenset({"at", "seq", "type", "run_id", "data", "exact", "crc"})
_FIELD_DEPTH: Final = 5
"""A record's data, its messages, their parts, their own fields: deeper, values are somebody else's."""
_NOTHING: Final[Mapping[str, object]] = {}
_WRITE: Final = re.compile(rb'(?:\n|\}[^,])\{"at":\d{1,19},"seq":(\d{1,19}),')
"""The beginning of a write, though the newline before it may be the very byte that is damaged."""


@dataclass(frozen=True, slots=True)
class Torn:
    """An unfinished write at the end of a journal."""

    offset: int
    """Where it begins, in bytes."""
    size_bytes: int
    reason: str


@dataclass(slots=True)
class Journal:
    """What a journal holds."""

    conversation: str
    header: Mapping[str, object]
    """Everything that the first line says."""
    entries: list[Entry] = field(default_factory=list)
    end: int = 0
    """Where the last whole line ends, in bytes."""
    crc: int = 0
    """Checksum of the last whole line: where the chain goes on."""
    torn: Torn | None = None

    @property
    def seq(self) -> int:
        """Number of the last entry."""
        return self.entries[-1].seq if self.entries else 0

    @property
    def run_id(self) -> str:
        """The run of the last entry."""
        return self.entries[-1].run_id if self.entries else ""


class Chain:
    """Where a journal's lines have come to: the next one is written, or checked, against this."""

    __slots__ = ("at_ms", "crc", "run_id", "seq")

    def __init__(self, crc: int, seq: int = 0, run_id: str = "") -> None:
        self.crc = crc
        self.seq = seq
        self.run_id = run_id
        self.at_ms = 0

    def write(self, entries: Sequence[Entry]) -> bytes:
        """Return the lines of one write."""
        lines = []
        for index, entry in enumerate(entries):
            record: dict[str, object] = {} if index else {"at": entry.at_ms, "seq": entry.seq}
            record["type"], data = encode_fact(entry.fact)
            if index and entry.at_ms != self.at_ms:
                record["at"] = entry.at_ms
            if entry.run_id != self.run_id:
                record["run_id"] = entry.run_id
            if data:
                record["data"] = data
            line, self.crc = _seal(record, self.crc)
            lines.append(line)
            self.seq, self.at_ms, self.run_id = entry.seq, entry.at_ms, entry.run_id
        return b"".join(lines)

    def read(self, line: bytes) -> Entry:
        """Return the entry on a line; raise `ValueError` saying what is wrong with it, and stay where it was."""
        crc = _checked(line, self.crc)
        record = _load(line)
        seq = self.seq + 1
        at_ms, run_id = record.get("at", self.at_ms), record.get("run_id", self.run_id)
        name, stated = record.get("type"), record.get("seq", seq)
        if type(stated) is not int or type(at_ms) is not int or type(run_id) is not str or type(name) is not str:
            raise ValueError("the envelope is not plait's")
        if stated != seq:
            raise ValueError(f"the record is number {stated}, and {seq} is wanted")
        if not record.keys() <= _ENVELOPE:
            raise ValueError(f"unknown field {min(record.keys() - _ENVELOPE)!r}")
        fact = decode_fact(name, record.get("data", _NOTHING))
        self.crc, self.seq, self.at_ms, self.run_id = crc, seq, at_ms, run_id
        return Entry(seq, at_ms, run_id, fact)


def encode_header(conversation: str, more: Mapping[str, object]) -> tuple[bytes, int]:
    """Return the first line of a journal and its checksum."""
    return _seal({"seq": 0, "type": "journal", "v": VERSION, "conversation": conversation, **more}, 0)


def is_unborn(data: bytes) -> bool:
    """Say whether this is what a crash may leave of a journal whose first line was never safe."""
    line, newline, rest = data.partition(b"\n")
    if rest.strip(b"\0"):
        return False
    if b"\0" in line:
        return True
    return not newline and line.startswith(_BIRTH[: len(line)])


def read_journal(data: bytes, path: str = "", safe_bytes: int = 0) -> Journal:
    """Return what the bytes of a journal hold; `safe_bytes` of them are known to have been durable.

    Raises:
        JournalCorrupt: a line is damaged that was durable once, or the file is no journal; names the offset.
        JournalVersion: a newer plait wrote it.
    """
    lines = data.split(b"\n")
    rest = lines.pop()
    if not lines:
        raise _no_journal(data, path)
    journal = _header(lines[0], path)
    end, chain = journal.end, Chain(journal.crc)
    reason = "the line has no end" if rest else ""
    for line in lines[1:]:
        try:
            entry = chain.read(line)
        except ValueError as error:
            reason = str(error)
            break
        journal.entries.append(entry)
        end += len(line) + 1
    journal.end, journal.crc = end, chain.crc
    if reason:
        _judge_damage(journal, data, Torn(end, len(data) - end, reason), path, safe_bytes)
    elif end < safe_bytes:
        raise _corrupt(journal, path, f"it ends there, and {safe_bytes} bytes of it were safe")
    return journal


def _load(line: bytes) -> dict[str, Any]:
    """The JSON object on a line, as it was written; raises `ValueError`."""
    try:
        record = json.loads(line) if line.endswith(_EXACT, 0, -_SEAL_BYTES) else orjson.loads(line)
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError("the line holds no object")
    return record


def _dump_exactly(record: Mapping[str, object]) -> bytes:
    """Plain JSON in ASCII holds what the fast writer refuses: long integers, half characters, keys that are no text."""
    return json.dumps(_plain_below(record, _FIELD_DEPTH), separators=(",", ":")).encode("ascii")


def _plain_below(value: object, depth: int) -> object:
    """Make foreign values plain one by one, so that one without an end costs itself and not the record."""
    if depth and isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else text_of(key): _plain_below(item, depth - 1) for key, item in value.items()
        }
    if depth and isinstance(value, (list, tuple)):
        return [_plain_below(item, depth - 1) for item in value]
    return plain(value)


def _seal(record: Mapping[str, object], crc: int) -> tuple[bytes, int]:
    """Return a record as a line with its checksum, and that checksum."""
    try:
        body = orjson.dumps(record)[:-1]
    except TypeError:
        body = _dump_exactly(record)[:-1] + _EXACT
    crc = zlib.crc32(body, crc)
    return b'%s,"crc":"%08x"}\n' % (body, crc), crc


def _checked(line: bytes, crc: int) -> int:
    """The checksum of a line; raises `ValueError` where it is not what the line says."""
    crc = zlib.crc32(line[:-_SEAL_BYTES], crc)
    if line[-_SEAL_BYTES:] != b',"crc":"%08x"}' % crc:
        raise ValueError("the checksum does not fit")
    return crc


def _header(line: bytes, path: str) -> Journal:
    if not line.startswith(_BIRTH):
        raise _no_journal(line, path)
    try:
        crc = _checked(line, 0)
        header: dict[str, object] = _load(line)
    except ValueError as error:
        raise JournalCorrupt(
            f"the first line of the journal {path!r} is damaged: {error}",
            path=path,
            offset=0,
            hint="repair it into a new session; this file is left as it is",
        ) from error
    version = header.get("v")
    if not isinstance(version, int) or version > VERSION:
        raise JournalVersion(
            f"the journal {path!r} has the format {version!r}, and this plait knows {VERSION}",
            path=path,
            hint="update plait",
        )
    for name in ("seq", "type", "v", "crc", "exact"):
        header.pop(name, None)
    return Journal(str(header.pop("conversation", "")), header, end=len(line) + 1, crc=crc)


def _no_journal(data: bytes, path: str) -> JournalCorrupt:
    what = "is empty" if not data else "is no journal of plait's"
    return JournalCorrupt(f"the file {path!r} {what}", path=path, offset=0, hint="restore a copy, or repair it")


def _judge_damage(journal: Journal, data: bytes, torn: Torn, path: str, safe_bytes: int) -> None:
    """Call damage a torn tail, or raise: a later write, or the writer's note, says that it was durable."""
    if torn.offset < safe_bytes or any(seq > journal.seq + 1 for seq in _later_writes(data, torn.offset)):
        raise _corrupt(journal, path, torn.reason)
    journal.torn = torn


def _later_writes(data: bytes, offset: int) -> Iterator[int]:
    """Numbers of the first records of writes that began behind an offset."""
    return (int(match[1]) for match in _WRITE.finditer(data, offset))


def _corrupt(journal: Journal, path: str, reason: str) -> JournalCorrupt:
    seq = journal.seq + 1
    return JournalCorrupt(
        f"record {seq} of the journal {path!r} is damaged at byte {journal.end}: {reason}",
        path=path,
        offset=journal.end,
        seq=seq,
        hint="salvage what is whole into a new session; this file is left as it is",
    )
