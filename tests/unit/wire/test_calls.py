"""Fragments find their call, whatever a server does to indexes, ids and names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, strategies as st

from plait.core.messages import ToolCall
from plait.wire.calls import CallAssembler, Fragment, text_of_arguments

Call = tuple[str, str, str]
"""Id, name and arguments of a call that a model made."""

ARGUMENTS = st.dictionaries(
    st.sampled_from(["p", "q", 'a"b', "c\\"]), st.sampled_from([1, "x", "}{", '\\"', [], {"r": "]"}]), max_size=3
).map(json.dumps)
CALLS = st.lists(st.tuples(st.sampled_from(["f", "read_file", "g"]), ARGUMENTS), min_size=1, max_size=4).map(
    lambda pairs: [(f"id{number}", name, text) for number, (name, text) in enumerate(pairs)]
)
SIZES = st.integers(1, 7)


def assembled(fragments: Sequence[Fragment]) -> list[ToolCall]:
    calls = CallAssembler()
    for fragment in fragments:
        calls.add(fragment)
    return calls.calls()


def chunks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def by_the_book(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """Id and name first, then arguments by index."""
    for index, (call_id, name, text) in enumerate(calls):
        yield Fragment(index, call_id, name)
        yield from (Fragment(index, text=piece) for piece in chunks(text, size))


def interleaved(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """All names first, then arguments of all calls in turn."""
    yield from (Fragment(index, call_id, name) for index, (call_id, name, _) in enumerate(calls))
    pieces = [chunks(text, size) for _, _, text in calls]
    for turn in range(max(map(len, pieces))):
        yield from (Fragment(index, text=own[turn]) for index, own in enumerate(pieces) if turn < len(own))


def everything_repeated(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """Id and name on every fragment."""
    for index, (call_id, name, text) in enumerate(calls):
        yield from (Fragment(index, call_id, name, piece) for piece in chunks(text, size))


def index_always_zero(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """Only ids tell the calls apart."""
    for call_id, name, text in calls:
        yield Fragment(0, call_id, name)
        yield from (Fragment(0, call_id, text=piece) for piece in chunks(text, size))


def no_index(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """No indexes at all; the fragments of a call follow each other."""
    for call_id, name, text in calls:
        yield Fragment(None, call_id, name)
        yield from (Fragment(None, text=piece) for piece in chunks(text, size))


def whole_calls(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """Every call in one fragment, index always 0."""
    del size
    yield from (Fragment(0, call_id, name, text) for call_id, name, text in calls)


def gaps_and_new_ids(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """Indexes from 1 with gaps, and another id on every later fragment."""
    for number, (call_id, name, text) in enumerate(calls):
        yield Fragment(1 + 4 * number, call_id, name)
        later = enumerate(chunks(text, size))
        yield from (Fragment(1 + 4 * number, f"{call_id}.{count}", text=piece) for count, piece in later)


def flushed_twice(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """At the end of each call its arguments come again, cut anywhere."""
    for index, (call_id, name, text) in enumerate(calls):
        yield Fragment(index, call_id, name)
        yield from (Fragment(index, text=piece) for piece in chunks(text + text, size))


def summed_up(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """After all calls, each comes once more in one piece, its arguments encoded twice."""
    yield from by_the_book(calls, size)
    yield from (Fragment(index, call_id, name, json.dumps(text)) for index, (call_id, name, text) in enumerate(calls))


def names_in_pieces(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """The name comes letter by letter before the arguments."""
    for index, (call_id, name, text) in enumerate(calls):
        yield Fragment(index, call_id)
        yield from (Fragment(index, name=piece) for piece in chunks(name, 4))
        yield from (Fragment(index, text=piece) for piece in chunks(text, size))


def counted_fragments(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """The index counts fragments, not calls."""
    index = 0
    for call_id, name, text in calls:
        for number, piece in enumerate(chunks(text, size)):
            yield Fragment(index, call_id if number == 0 else "", name if number == 0 else "", piece)
            index += 1


def growing(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """Every fragment holds all of the arguments so far."""
    for index, (call_id, name, text) in enumerate(calls):
        ends = [*range(size, len(text), size), len(text)]
        yield from (Fragment(index, call_id, name, text[:end]) for end in ends)


def respaced_at_the_end(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """After all calls, each comes once more, its arguments spaced otherwise."""
    yield from by_the_book(calls, size)
    for index, (call_id, name, text) in enumerate(calls):
        yield Fragment(index, call_id, name, json.dumps(json.loads(text), indent=1))


def new_id_and_name_always(calls: Sequence[Call], size: int) -> Iterator[Fragment]:
    """The name and another id on every fragment of a call."""
    for index, (call_id, name, text) in enumerate(calls):
        for number, piece in enumerate(chunks(text, size)):
            yield Fragment(index, f"{call_id}.{number}" if number else call_id, name, piece)


STYLES = [
    by_the_book,
    interleaved,
    everything_repeated,
    index_always_zero,
    no_index,
    whole_calls,
    gaps_and_new_ids,
    flushed_twice,
    summed_up,
    names_in_pieces,
    counted_fragments,
    new_id_and_name_always,
    growing,
    respaced_at_the_end,
]


@pytest.mark.parametrize("style", STYLES)
@given(CALLS, SIZES)
def test_every_style_gives_the_same_calls(
    style: Callable[[Sequence[Call], int], Iterator[Fragment]], calls: list[Call], size: int
) -> None:
    """However a server cuts and labels its fragments, the calls are those the model made."""
    assert [ToolCall(*call) for call in calls] == assembled(list(style(calls, size)))


@pytest.mark.parametrize(
    "fragments, expected",
    [
        ([Fragment(0, "a", "f", '{"x":1}'), Fragment(0, "", "g", "{}")], [("a", "f", '{"x":1}'), ("", "g", "{}")]),
        ([Fragment(0, "x", "f", "{}"), Fragment(1, "x", "g", "{}")], [("x", "f", "{}"), ("x", "g", "{}")]),
        ([Fragment(0, "a", "f"), Fragment(0, "a", "f", "")], [("a", "f", "{}")]),
        ([Fragment(None, "", "f", "{}"), Fragment(None, "", "f", '{"x":1}')], [("", "f", "{}"), ("", "f", '{"x":1}')]),
        ([Fragment(0, "", "re"), Fragment(0, "", "read"), Fragment(0, "", "read")], [("", "read", "{}")]),
        ([Fragment(0, "", "", '{"x":'), Fragment(0, "a", "f", "1}")], [("a", "f", '{"x":1}')]),
        ([Fragment(0, "a", "f", "{}"), Fragment(0, text='{"x":1}')], [("a", "f", '{"x":1}')]),
        ([Fragment(0, "a", "f", "null")], [("a", "f", "{}")]),
        ([Fragment(0, "a", "f", '{"x":1} trailing')], [("a", "f", '{"x":1} trailing')]),
        ([Fragment(0, "a", "f", ' {"x": 1.10} ')], [("a", "f", ' {"x": 1.10} ')]),
        ([Fragment(0, "a", "f", '"{}"')], [("a", "f", '"{}"')]),
        ([Fragment(0, "a", "", "{}")], []),
    ],
)
def test_single_quirks(fragments: list[Fragment], expected: list[Call]) -> None:
    """Calls without ids, with shared ids, with placeholders and odd texts come out as they were meant."""
    assert [ToolCall(*call) for call in expected] == assembled(fragments)


def test_free_text_is_kept_as_it_is() -> None:
    """The input of a custom tool is not JSON and is never repaired."""
    fragments = [Fragment(0, "a", "patch", "*** {", custom=True), Fragment(0, text='"\n', custom=True)]
    assert [ToolCall("a", "patch", '*** {"\n', custom=True)] == assembled(fragments)


def test_extra_fields_stay_with_their_call() -> None:
    """What a provider sends beside a call is kept with it, whichever fragment brought it."""
    fragments = [Fragment(0, "a", "f"), Fragment(0, text="{}", extra={"extra_content": {"s": 1}})]
    assert {"extra_content": {"s": 1}} == assembled(fragments)[0].extra


@pytest.mark.parametrize(
    "value, expected",
    [
        ("{", ("{", False)),
        (None, ("", False)),
        ({"a": 9223372036854775808}, ('{"a":9223372036854775808}', True)),
        (["x"], ('["x"]', True)),
    ],
)
def test_arguments_field(value: object, expected: tuple[str, bool]) -> None:
    """Arguments are text, nothing, or an object that is dumped compactly with exact integers."""
    assert expected == text_of_arguments(value)
