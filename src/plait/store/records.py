"""A journal's lines: facts as bytes that can be checked one by one, and a file of them read back.

Floor: 2. Owns: the line format, its checksum chain, and telling a torn tail from damage; never: a file descriptor.

A line is a JSON object and a newline:

    {"at":1764500000000,"seq":7,"type":"tool_end","data":{…},"crc":"1f2e3d4c"}
    {"seq":8,"type":"round","data":{"of":3},"crc":"90ab12ef"}

The first line of all, of type `journal`, names the format version and the conversation. `crc` is the CRC-32 of
everything before it on the line, started from the `crc` of the line before: a changed byte, a missing, repeated or
exchanged line, and a line of another journal all break the chain.

The first line of each write begins with `at`, every other line with `seq` (and has an `at` only where the time is
another than on the line before). All lines before a write were durable when it began. So damage with a later write
behind it is damage to what was promised, and damage with none behind it is an unfinished write, which nobody was
told was safe.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from plait.core.codec import FactInvalid, decode_fact, encode_fact
from plait.core.errors import JournalCorrupt, JournalVersion
from plait.core.facts import Entry

VERSION: Final = 1
_CRC_TAIL_BYTES: Final = len(b',"crc":"00000000"}')
_CRC: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}\Z')
_LONG_NUMBER: Final = re.compile(rb"\d{19}")


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


def encode_header(conversation: str, more: Mapping[str, object]) -> tuple[bytes, int]:
    """Return the first line of a journal and its checksum."""
    return seal({"seq": 0, "type": "journal", "v": VERSION, "conversation": conversation, **more}, 0)


def encode_entries(entries: Sequence[Entry], crc: int) -> tuple[bytes, int]:
    """Return the lines of one write and the checksum of the last."""
    lines = []
    at_ms = -1
    for entry in entries:
        name, data = encode_fact(entry.fact)
        record: dict[str, object] = {"at": entry.at_ms} if at_ms < 0 else {}
        record["seq"] = entry.seq
        if entry.at_ms != at_ms and at_ms >= 0:
            record["at"] = entry.at_ms
        at_ms = entry.at_ms
        record["type"] = name
        if entry.run_id:
            record["run_id"] = entry.run_id
        if data:
            record["data"] = data
        line, crc = seal(record, crc)
        lines.append(line)
    return b"".join(lines), crc


def seal(record: Mapping[str, object], crc: int) -> tuple[bytes, int]:
    """Return a record as a line with its checksum, and that checksum."""
    body = dump(record)[:-1]
    crc = zlib.crc32(body, crc)
    return b'%s,"crc":"%08x"}\n' % (body, crc), crc


def dump(value: object) -> bytes:
    """Return compact JSON of anything that a tool may have handed over; what JSON has no form for becomes text."""
    try:
        return orjson.dumps(value, default=str)
    except TypeError:
        # Integers over 64 bits, keys that are not text, lone surrogates: plain JSON, in ASCII, can hold them.
        return json.dumps(value, separators=(",", ":"), default=str, skipkeys=False).encode("ascii")


def load(line: bytes) -> Any:
    """Return the JSON value of a line, integers exact; raise `ValueError`."""
    if _LONG_NUMBER.search(line):
        return json.loads(line)
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)


def read_journal(data: bytes, path: str = "") -> Journal:
    """Return what the bytes of a journal hold.

    Raises:
        JournalCorrupt: a line is damaged that was durable once, or the file is no journal; names the offset.
        JournalVersion: a newer plait wrote it.
    """
    lines = _lines(data)
    first = next(lines, None)
    if first is None:
        raise JournalCorrupt("an empty file is no journal", path=path, offset=0, hint="delete it, or restore a copy")
    journal = _header(first[1], data, path)
    seq, at_ms = 1, 0
    for offset, line in lines:
        try:
            entry, crc = decode_line(line, journal.crc, seq, at_ms)
        except ValueError as error:
            _judge_damage(journal, data, offset, str(error), path)
            return journal
        journal.entries.append(entry)
        journal.crc = crc
        journal.end = offset + len(line) + 1
        seq, at_ms = seq + 1, entry.at_ms
    return journal


def decode_line(line: bytes, crc: int, seq: int, at_ms: int) -> tuple[Entry, int]:
    """Return the entry on a line and its checksum; raise `ValueError` saying what is wrong with it.

    `crc`, `seq` and `at_ms` are what the line before leads to.
    """
    crc = _check(line, crc)
    record = load(line)
    if record.pop("seq", None) != seq:
        raise ValueError(f"the record is not number {seq}")
    record.pop("crc")
    try:
        fact = decode_fact(record.pop("type", ""), record.pop("data", {}))
    except FactInvalid as error:
        raise ValueError(str(error)) from error
    entry = Entry(seq, record.pop("at", at_ms), record.pop("run_id", ""), fact)
    if record:
        raise ValueError(f"unknown field {min(record)!r}")
    return entry, crc


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Offsets and lines without their newline; a last line that has none is marked by a trailing NUL."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        if end < 0:
            yield start, data[start:] + b"\0"
            return
        yield start, data[start:end]
        start = end + 1


def _check(line: bytes, crc: int) -> int:
    if line.endswith(b"\0"):
        raise ValueError("the line has no end")
    match = _CRC.search(line, max(0, len(line) - _CRC_TAIL_BYTES))
    if match is None:
        raise ValueError("the line has no checksum")
    crc = zlib.crc32(line[: match.start()], crc)
    if crc != int(match[1], 16):
        raise ValueError("the checksum does not fit")
    return crc


def _header(line: bytes, data: bytes, path: str) -> Journal:
    try:
        crc = _check(line, 0)
        header: dict[str, object] = load(line)
    except ValueError as error:
        raise JournalCorrupt(
            f"the first line of the journal is damaged: {error}", path=path, offset=0, hint="repair it into a new file"
        ) from error
    if header.get("type") != "journal":
        raise JournalCorrupt("this is no journal of plait's", path=path, offset=0)
    version = header.get("v")
    if not isinstance(version, int) or version > VERSION:
        raise JournalVersion(
            f"the journal has the format {version!r}, and this plait knows {VERSION}", path=path, hint="update plait"
        )
    for name in ("seq", "type", "v", "crc"):
        header.pop(name, None)
    return Journal(str(header.pop("conversation", "")), header, end=len(line) + 1, crc=crc)


def _judge_damage(journal: Journal, data: bytes, offset: int, reason: str, path: str) -> None:
    """Call damage at `offset` a torn tail, or raise: a later write says that it was durable."""
    if data.find(b'\n{"at":', offset) >= 0:
        seq = journal.seq + 1
        raise JournalCorrupt(
            f"record {seq} is damaged at byte {offset}: {reason}",
            path=path,
            offset=offset,
            seq=seq,
            hint="salvage what is whole into a new file; this one is left as it is",
        )
    journal.torn = Torn(offset, len(data) - offset, reason)
