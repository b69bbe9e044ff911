"""The lines of a journal: what is written comes back, and what was not written does not."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import JournalCorrupt, JournalVersion
from plait.core.facts import Entry, Fact, Observation, ToolEnd, TurnEnd, TurnStart
from plait.core.messages import ToolResult
from plait.store.records import Chain, encode_header, is_unborn, read_journal
from tests.helpers.journals import EVERYTHING_PRINTABLE, HUGE
from tests.helpers.strategies import facts

WRITES = st.lists(
    st.lists(st.tuples(facts, st.integers(0, 3), st.sampled_from(["", "r1", "r2"])), min_size=1), max_size=4
)


def entries_of(facts: list[tuple[Fact, int, str]], seq: int) -> list[Entry]:
    """Number facts, and give each its time and run."""
    return [Entry(seq + index, 1_000 + at_ms, run_id, fact) for index, (fact, at_ms, run_id) in enumerate(facts, 1)]


def written(writes: list[list[tuple[Fact, int, str]]]) -> tuple[bytes, list[Entry]]:
    """Return a journal's bytes and entries."""
    header, crc = encode_header("s1", {"project": "p"})
    chain, entries, data = Chain(crc), [], [header]
    for write in writes:
        new = entries_of(write, len(entries))
        data.append(chain.write(new))
        entries += new
    return b"".join(data), entries


@given(WRITES)
def test_what_is_written_is_read(writes: list[list[tuple[Fact, int, str]]]) -> None:
    """Facts, times, runs and numbers come back from a journal, whatever they hold."""
    data, entries = written(writes)
    journal = read_journal(data)

    assert entries == journal.entries
    assert ("s1", {"project": "p"}, len(data), None) == (
        journal.conversation,
        journal.header,
        journal.end,
        journal.torn,
    )


@given(WRITES)
def test_a_line_is_a_json_object_and_says_where_a_write_begins(writes: list[list[tuple[Fact, int, str]]]) -> None:
    """Every line is JSON that ends with its checksum; the first one of a write, and no other, begins with `at`."""
    data, entries = written(writes)
    records = [json.loads(line) for line in data.splitlines()]

    assert 1 + len(entries) == len(records)
    assert {"crc"} == {list(record)[-1] for record in records}
    assert len(writes) == len(re.findall(rb'^\{"at":\d+,"seq":\d+,', data, re.MULTILINE))
    assert len(writes) == len(re.findall(rb'^\{"at":', data, re.MULTILINE))


def test_numbers_and_text_that_json_readers_round_are_exact() -> None:
    """Integers beyond 64 bits, half characters and every control character survive."""
    fact = ToolEnd(ToolResult("c", EVERYTHING_PRINTABLE, data={"huge": HUGE, "negative": -HUGE, "float": 0.1}))
    data, entries = written([[(fact, 0, "")]])

    assert entries == read_journal(data).entries


def test_what_json_has_no_form_for_becomes_text() -> None:
    """A tool's odd data is stored as well as it can be: it must not cost the session."""
    circle: list[object] = []
    circle.append(circle)
    deep: object = 1
    for _ in range(3_000):
        deep = [deep]
    odd = {"set": {1}, "keys": {1: "a", (2, 3): "b"}, "circle": circle, "deep": deep, "huge": 10**9_000}
    data, _ = written([[(Observation("note", odd), 0, ""), (TurnEnd("completed"), 0, "")]])
    told = read_journal(data).facts

    assert TurnEnd("completed") == told[1]
    assert isinstance(told[0], Observation)
    assert {"1": "a", "(2, 3)": "b"} == told[0].data["keys"]
    assert "{1}" == told[0].data["set"]


def test_one_line_of_each_form_is_as_documented() -> None:
    """The format on disk is what the module says, byte for byte."""
    data, _ = written([[(TurnStart(), 0, ""), (TurnEnd("completed"), 1, "r1")]])

    assert [
        b'{"seq":0,"type":"journal","v":1,"conversation":"s1","project":"p","crc":"c47fa013"}',
        b'{"at":1000,"seq":1,"type":"turn_start","crc":"e5c81c6c"}',
        b'{"type":"turn_end","at":1001,"run_id":"r1","data":{"reason":"completed"},"crc":"64245ff8"}',
    ] == data.splitlines()


@pytest.mark.parametrize(
    "line",
    [
        {"type": "turn_start", "seq": 3},
        {"type": "turn_start", "seq": True},
        {"type": "turn_start", "at": "now"},
        {"type": "turn_start", "at": 1.5},
        {"type": "turn_start", "run_id": 1},
        {"type": "turn_start", "data": []},
        {"type": "turn_start", "more": 1},
        {"type": "unheard_of"},
        {"type": 1},
        {"type": []},
        {},
    ],
    ids=str,
)
def test_a_line_of_another_form_is_refused(line: dict[str, object]) -> None:
    """A line with a right checksum and a wrong content was written by something else: none of it is believed."""
    import zlib

    header, crc = encode_header("s1", {})
    body = json.dumps(line, separators=(",", ":"))[:-1].encode() if line else b'{"x":1'
    data = header + body + b',"crc":"%08x"}\n' % zlib.crc32(body, crc)

    assert 0 == read_journal(data).seq
    with pytest.raises(JournalCorrupt, match="record 1"):
        read_journal(data, "", len(data))


def test_a_newer_format_is_refused_by_name() -> None:
    """A journal of a later plait is not taken for a damaged one."""
    header, _ = encode_header("s1", {"v": 2})

    with pytest.raises(JournalVersion, match="format 2"):
        read_journal(header)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"messages": []}', b'{"a":1}\n{"a":2}\n', b"\xff\xfe\n", b"no journal\n"], ids=repr
)
def test_a_file_of_something_else_is_no_journal(data: bytes) -> None:
    """What is not plait's is refused, and said to be."""
    with pytest.raises(JournalCorrupt) as caught:
        read_journal(data)

    assert ("journal.jsonl" in caught.value.hint) == bool(data), caught.value.hint


def test_what_a_crash_leaves_of_a_birth_is_told_from_other_files() -> None:
    """A first line cut anywhere, or with sectors missing, is no journal yet; anything else may be somebody's file."""
    header, _ = encode_header("s1", {"project": "p" * 600})

    assert all(is_unborn(header[:size]) for size in range(len(header)))
    assert all(is_unborn(header[:size] + b"\0" * 100) for size in range(len(header)))
    assert is_unborn(b"\0" * 512 + header[512:])
    assert not is_unborn(header)
    assert not is_unborn(header[:-1] + b"x\n")
    assert not is_unborn(b'{"messages": []}')
    assert not is_unborn(header + b"\0" * 10 + b"more")
