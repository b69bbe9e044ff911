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
from dataclasses import field
from typing import Any, Final

import orjson

from plait.core.codec import decode_fact, encode_fact
from plait.core.errors import JournalCorrupt, JournalVersion
from plait.core.facts import Entry, Fact
from plait.core.strict_json import plain, text_of
from plait.core.values import dataclass

VERSION: Final = 1
_BIRTH: Final = b'{"seq":0,"type":"journal","v":'
BIRTH_BYTES_MAX: Final = 1 << 20
"""No first line is longer."""
_SEAL: Final = b',"crc":"%08x"}'
_SEALED_LINE: Final = b"%s" + _SEAL + b"\n"
_SEAM: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}\n\{"at":\d{1,19},"seq":(\d{1,19}),')
"""The end of a write and the beginning of the next."""
_SEAL_BYTES: Final = len(_SEAL % 0)
_EXACT: Final = b',"exact":true'
_ENVELOPE: Final = ("at", "seq", "type", "run_id", "data", "exact", "crc")
_CHUNK_LINES: Final = 256
"""So many lines are checked, and then understood: the processor likes to do one thing at a time."""
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
class Told:
    """Facts with their places, side by side: what is only folded needs no `Entry`."""

    facts: list[Fact] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)


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
        crc, at_ms, run_id = self.crc, self.at_ms, self.run_id
        lines: list[bytes] = []
        record: dict[str, object] = {"at": entries[0].at_ms, "seq": entries[0].seq}
        for entry in entries:
            record["type"], data = encode_fact(entry.fact)
            if entry.at_ms != at_ms and lines:
                record["at"] = entry.at_ms
            if entry.run_id != run_id:
                record["run_id"] = entry.run_id
            if data:
                record["data"] = data
            line, crc = _seal(record, crc)
            lines.append(line)
            at_ms, run_id, record = entry.at_ms, entry.run_id, {}
        self.crc, self.seq, self.at_ms, self.run_id = crc, entries[-1].seq, at_ms, run_id
        return b"".join(lines)

    def read(self, lines: Sequence[bytes], told: Told) -> str:
        """Add the facts on lines to `told` as far as they are whole; return what is wrong with the next, or nothing."""
        damage = ""
        for start in range(0, len(lines), _CHUNK_LINES):
            records, damage = _checked(lines[start : start + _CHUNK_LINES], self.crc)
            damage = self._understand(records, told) or damage
            if damage:
                break
        return damage

    def _understand(self, records: Sequence[dict[str, Any]], told: Told) -> str:
        facts, times_ms, run_ids = told.facts, told.times_ms, told.run_ids
        at_ms, run_id, before, damage = self.at_ms, self.run_id, len(facts), ""
        for record in records:
            try:
                if len(record) != 3 or "type" not in record or "data" not in record:
                    at_ms, run_id = _envelope(record, self.seq + len(facts) - before + 1, at_ms, run_id)
                facts.append(decode_fact(record["type"], record.get("data", _NOTHING)))
            except ValueError as error:
                damage = str(error)
                break
            times_ms.append(at_ms)
            run_ids.append(run_id)
        understood = len(facts) - before
        if understood:
            self.crc = int(records[understood - 1]["crc"], 16)
            self.seq, self.at_ms, self.run_id = self.seq + understood, times_ms[-1], run_ids[-1]
        return damage


def _checked(lines: Sequence[bytes], crc: int) -> tuple[list[dict[str, Any]], str]:
    """The records on lines as far as their checksums fit, and what is wrong with the next."""
    records: list[dict[str, Any]] = []
    for line in lines:
        crc = zlib.crc32(line[:-_SEAL_BYTES], crc)
        if not line.endswith(_SEAL % crc):
            return records, "the checksum does not fit"
        try:
            records.append(json.loads(line) if line.endswith(_EXACT, 0, -_SEAL_BYTES) else orjson.loads(line))
        except ValueError as error:
            return records, str(error)
    return records, ""


def _envelope(record: dict[str, Any], seq: int, at_ms: int, run_id: str) -> tuple[int, str]:
    """The time and run of record number `seq`; raises `ValueError` for one that is not what `Chain.write` writes."""
    at_ms, run_id = record.get("at", at_ms), record.get("run_id", run_id)
    stated, name = record.get("seq", seq), record.get("type")
    if type(stated) is not int or type(at_ms) is not int or type(run_id) is not str or type(name) is not str:
        raise ValueError("the envelope is not plait's")
    if stated != seq:
        raise ValueError(f"the record is number {stated}, and {seq} is wanted")
    if len(record) != sum(map(record.__contains__, _ENVELOPE)):
        raise ValueError(f"unknown field {min(record.keys() - {*_ENVELOPE})!r}")
    return at_ms, run_id


@dataclass(slots=True)
class Journal:
    """What a journal holds."""

    conversation: str
    header: Mapping[str, object]
    """Everything that the first line says."""
    chain: Chain
    """Where its last whole line has come to."""
    end: int
    """Where that line ends, in bytes."""
    torn: Torn | None = None
    told: Told = field(default_factory=Told)

    @property
    def seq(self) -> int:
        """Number of the last fact."""
        return self.chain.seq

    @property
    def facts(self) -> list[Fact]:
        """All facts, in order."""
        return self.told.facts

    @property
    def entries(self) -> list[Entry]:
        """All facts with their places."""
        told = self.told
        return list(map(Entry, range(1, self.seq + 1), told.times_ms, told.run_ids, told.facts))


def encode_header(conversation: str, more: Mapping[str, object]) -> tuple[bytes, int]:
    """Return the first line of a journal and its checksum."""
    return _seal({"seq": 0, "type": "journal", "v": VERSION, "conversation": conversation, **more}, 0)


def is_journal_text(data: bytes) -> bool:
    """Say whether a file begins as a journal of plait's does, or is what a crash left of the beginning of one."""
    return data.startswith(_BIRTH) or is_unborn(data)


def is_unborn(data: bytes) -> bool:
    """Say whether this is what a crash may leave of a journal whose first line was never safe."""
    if len(data) > BIRTH_BYTES_MAX:
        return False
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
    damage = journal.chain.read(lines[1:], journal.told)
    journal.end = offset_of(data, journal.seq + 1) if damage else len(data) - len(rest)
    if damage or rest:
        _judge_damage(journal, data, damage or "the line has no end", path, safe_bytes)
    elif journal.end < safe_bytes:
        raise corrupt(journal.seq + 1, journal.end, path, f"it ends there, and {safe_bytes} bytes of it were safe")
    return journal


def read_whole_lines(data: bytes, path: str = "") -> Journal:
    """Return what a journal holds up to the first line that is not whole, whatever comes after it.

    Raises `JournalCorrupt` and `JournalVersion` where already the first line is of no use.
    """
    lines = data.split(b"\n")
    del lines[-1]
    if not lines:
        raise _no_journal(data, path)
    journal = _header(lines[0], path)
    journal.chain.read(lines[1:], journal.told)
    journal.end = offset_of(data, journal.seq + 1)
    return journal


def read_end(data: bytes) -> tuple[Told, Chain] | None:
    """Return what the last bytes of a journal tell, from the first write on that is whole in them.

    None where they begin in the middle of the last write, or are not whole up to a last newline.
    """
    seam = _SEAM.search(data)
    if seam is None:
        return None
    lines = data[data.index(b"\n", seam.start()) + 1 :].split(b"\n")
    chain, told = Chain(int(seam[1], 16), int(seam[2]) - 1), Told()
    damage = chain.read(lines[:-1], told)
    return None if damage else (told, chain)


def offset_of(data: bytes, seq: int) -> int:
    """Return where a record begins, or would, in the bytes of a journal."""
    offset = 0
    for _ in range(seq):
        offset = data.index(b"\n", offset) + 1
    return offset


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
    return _SEALED_LINE % (body, crc), crc


def _header(line: bytes, path: str) -> Journal:
    if not line.startswith(_BIRTH):
        raise _no_journal(line, path)
    crc = zlib.crc32(line[:-_SEAL_BYTES])
    if line[-_SEAL_BYTES:] != _SEAL % crc:
        raise JournalCorrupt(
            f"the first line of the journal {path!r} is damaged: the checksum does not fit",
            path=path,
            offset=0,
            hint="`plait sessions repair` copies what is whole into a new session; this file is left as it is",
        )
    header: dict[str, object] = json.loads(line)
    version = header.get("v")
    if not isinstance(version, int) or version > VERSION:
        raise JournalVersion(
            f"the journal {path!r} has the format {version!r}, and this plait knows {VERSION}",
            path=path,
            hint="update plait",
        )
    for name in ("seq", "type", "v", "crc", "exact"):
        header.pop(name, None)
    return Journal(str(header.pop("conversation", "")), header, Chain(crc), len(line) + 1)


def _no_journal(data: bytes, path: str) -> JournalCorrupt:
    if not data:
        return JournalCorrupt(f"the file {path!r} is empty", path=path, offset=0, hint="restore a copy, or repair it")
    hint = "name a session or the journal.jsonl in its folder; if this was one, restore a copy"
    return JournalCorrupt(f"the file {path!r} is no journal of plait's", path=path, offset=0, hint=hint)


def _judge_damage(journal: Journal, data: bytes, reason: str, path: str, safe_bytes: int) -> None:
    """Call damage a torn tail, or raise: a later write, or the writer's note, says that it was durable."""
    seq, offset = journal.seq + 1, journal.end
    if offset < safe_bytes or any(later > seq for later in _later_writes(data, offset)):
        raise corrupt(seq, offset, path, reason)
    journal.torn = Torn(offset, len(data) - offset, reason)


def _later_writes(data: bytes, offset: int) -> Iterator[int]:
    """Numbers of the first records of writes that began behind an offset."""
    return (int(match[1]) for match in _WRITE.finditer(data, offset))


def corrupt(seq: int, offset: int, path: str, reason: str) -> JournalCorrupt:
    """Return the error for a record that is damaged, or says what cannot be."""
    return JournalCorrupt(
        f"record {seq} of the journal {path!r} is damaged at byte {offset}: {reason}",
        path=path,
        offset=offset,
        seq=seq,
        hint="`plait sessions repair` copies what is whole into a new session; this file is left as it is",
    )
