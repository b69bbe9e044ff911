"""The fold that tells, from facts alone, what each request found in the cache and whose fault a miss was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.facts import Fact, MessageAdded, Observation, Reset, RetryScheduled, TurnEnd, TurnStart
from plait.core.messages import Message, Text, assistant, user
from plait.core.usage import Usage
from plait.engine.cache.ledger import REQUEST, CacheLedger, CacheRequest, Departure, Known, Note, blame, read_note

SECTIONS = {"model": "o:m", "encoding": "e", "tools": "t", "system": "s"}
FIRST = Note(None, SECTIONS, 0, 3_600.0).observation()


def answer(read: int | None, input: int = 10_000, origin: str = "o:m") -> MessageAdded:
    """Return the fact of an answer with these numbers."""
    return MessageAdded(Message("assistant", (Text("x"),), origin), Usage(input, 1, cache_read=read), "end_turn")


def told(*facts: Fact, step_s: float = 1.0) -> list[CacheRequest]:
    """Return the requests of some facts, each so long after the one before it."""
    return CacheLedger().take_all(facts, [round(number * step_s * 1_000) for number in range(len(facts))])


def verdicts(*facts: Fact, step_s: float = 1.0) -> list[tuple[str, str | None]]:
    """Return blame and place of each request."""
    requests = told(*facts, step_s=step_s)
    return [(each.blame, None if each.departure is None else each.departure.place) for each in requests]


@pytest.mark.parametrize(
    "usage, known, expected",
    [
        (Usage(10_000, 1), Known(9_000, 1, 3_600, 0, False), "unmeasured"),
        (Usage(10_000, 1, cache_read=8_960), Known(9_000, 1, 3_600, 0, False), "hit"),
        (Usage(10_000, 1, cache_read=7_900), Known(9_000, 1, 3_600, 0, False), "hit"),
        (Usage(10_000, 1, cache_read=7_000), Known(9_000, 1, 3_600, 0, False), "provider"),
        (Usage(100_000, 1, cache_read=80_000), Known(99_000, 1, 3_600, 0, False), "provider"),
        (Usage(100_000, 1, cache_read=90_000), Known(99_000, 1, 3_600, 0, False), "hit"),
        (Usage(10_000, 1, cache_read=0), Known(9_000, 1, 3_600, 0, True), "ours"),
        (Usage(10_000, 1, cache_read=2_000), Known(9_000, 1, 3_600, 0, True), "ours"),
        (Usage(10_000, 1, cache_read=9_000), Known(9_000, 1, 3_600, 0, True), "hit"),
        (Usage(10_000, 1, cache_read=0), Known(9_000, 3_601, 3_600, 0, False), "expired"),
        (Usage(10_000, 1, cache_read=0), Known(9_000, 3_601, 3_600, 0, True), "expired"),
        (Usage(900, 1, cache_read=0), Known(800, 1, 3_600, 0, False), "below_minimum"),
        (Usage(900, 1, cache_read=0), Known(800, 1, 3_600, 64, False), "provider"),
        (Usage(5_000, 1, cache_read=0), Known(3_000, 1, 3_600, 4_096, False), "below_minimum"),
        (Usage(None, 1, cache_read=0), Known(None, 1, 3_600, 0, False), "provider"),
        (Usage(None, 1, cache_read=5), Known(None, 1, 3_600, 0, False), "hit"),
    ],
)
def test_whose_fault_a_miss_is(usage: Usage, known: Known, expected: str) -> None:
    """All that was sent before could be read, less a block and a small share; what is missing has one cause."""
    assert expected == blame(usage, known)


def test_an_ordinary_conversation() -> None:
    """The first request has nothing before it, the others extend it; nothing but the answers tells of them."""
    first, second = told(TurnStart(), MessageAdded(user("a")), FIRST, answer(0), MessageAdded(user("b")), answer(9_000))

    assert ("first", None, None, False) == (first.blame, first.expected, first.departure, first.extends)
    assert ("hit", 10_000, None, True) == (second.blame, second.expected, second.departure, second.extends)
    assert (1, 2, "o:m", 5_000) == (first.number, second.number, second.origin, second.at_ms)


def test_what_an_observation_tells_is_believed() -> None:
    """The place comes from the bytes that were compared, and belongs to the next answer alone."""
    changed = Note(Departure("message", 3, "host_edit")).observation()

    assert [("first", None), ("ours", "message 3"), ("provider", None)] == verdicts(
        FIRST, answer(0), changed, answer(0), answer(0)
    )


def test_a_replaced_message_is_told_without_observations() -> None:
    """A journal whose requests were not compared still says which messages were replaced, and by what."""
    facts = (MessageAdded(user("a")), answer(0), MessageAdded(user("b")), Reset(0, 1, (user("A"),), "compaction"))

    first, second = told(*facts, answer(0))

    assert (None, Departure("message", 0, "compaction")) == (first.departure, second.departure)


def test_replacing_what_was_never_sent_is_no_departure() -> None:
    """A question that nobody answered may be replaced: no cache holds it."""
    facts = (MessageAdded(user("a")), answer(0), MessageAdded(user("b")), Reset(2, 3, (user("B"),), "user_merge"))

    assert [("first", None), ("hit", None)] == verdicts(*facts, answer(9_500))


def test_where_requests_are_compared_silence_means_that_they_extend() -> None:
    """A replacement that came to the same bytes is no departure when nothing was observed."""
    reset = Reset(0, 1, (user("a"),), "host_edit")

    assert [("first", None), ("provider", None)] == verdicts(
        FIRST, MessageAdded(user("a")), answer(0), reset, answer(0)
    )


def test_another_model_is_told_without_observations() -> None:
    """The answers say who gave them."""
    assert [("first", None), ("ours", "model")] == verdicts(answer(0), answer(0, origin="o:n"))


def test_summaries_and_failures_are_requests_too() -> None:
    """A summary extends what was sent; a request that failed has its cost, and no verdict."""
    paid = Usage(10_000, 5, cache_read=9_500)
    facts = (
        MessageAdded(user("a")),
        RetryScheduled(1, 0, "protocol", "cut", Usage(500, 1)),
        answer(0),
        Reset(0, 1, (user("s"),), "compaction", paid),
        answer(0),
        TurnEnd("error", usage=Usage(600)),
    )

    assert [
        ("retry", "unanswered"),
        ("step", "first"),
        ("compaction", "hit"),
        ("step", "ours"),
        ("failed", "unanswered"),
    ] == [(request.purpose, request.blame) for request in told(*facts)]


def test_what_is_no_answer_is_no_request() -> None:
    """Words that were cut off by an interruption, and a reply that the host gave, were asked for by no request."""
    assert [] == told(MessageAdded(assistant("half")), MessageAdded(assistant("mine"), stop="end_turn"))


def test_a_long_pause_is_seen_in_the_times() -> None:
    """The age is that of the answer before; how long a cache lasts stands in the first observation."""
    short = Note(None, SECTIONS, 0, 60.0).observation()

    assert [("first", None), ("expired", None)] == verdicts(short, answer(0), answer(0), step_s=61)
    assert [("first", None), ("provider", None)] == verdicts(FIRST, answer(0), answer(0), step_s=61)


@pytest.mark.parametrize(
    "data",
    [{}, {"request": {"model": "m"}}, {"part": "soul"}, {"part": 3}, {"sections": "x"}, {"min_tokens": 5}],
    ids=["empty", "capture", "word", "number", "text", "numbers"],
)
def test_an_observation_of_something_else_is_passed_over(data: dict[str, Any]) -> None:
    """Other things may be recorded of a request; they say nothing about its prefix."""
    observed = Observation(REQUEST, data)

    assert None is read_note(observed)
    assert [("first", None), ("hit", None)] == verdicts(answer(0), observed, answer(9_500))


@pytest.mark.parametrize("data", [{"part": "tools", "index": "x", "why": 3, "sections": {"a": 1}, "ttl_s": "long"}])
def test_fields_of_a_wrong_kind_are_passed_over(data: dict[str, Any]) -> None:
    """What cannot be meant does not keep the rest from being read."""
    assert Note(Departure("tools", None, "3"), {"a": "1"}) == read_note(Observation(REQUEST, data))


numbers = st.none() | st.integers(0, 20_000)
any_fact = st.one_of(
    st.builds(answer, numbers, input=st.integers(0, 20_000), origin=st.sampled_from(["o:m", "o:n"])),
    st.just(MessageAdded(user("a"))),
    st.just(MessageAdded(assistant("half"))),
    st.builds(lambda start: Reset(start, start + 1, (user("s"),), "host_edit"), st.integers(0, 5)),
    st.sampled_from([FIRST, Note(Departure("message", 1, "host_edit")).observation(), TurnEnd("completed")]),
    st.builds(lambda read: TurnEnd("error", usage=Usage(5, cache_read=read)), numbers),
)


@given(st.lists(any_fact, max_size=12), st.lists(any_fact, max_size=4))
def test_a_log_that_is_only_read_leads_to_the_same(before: list[Fact], after: list[Fact]) -> None:
    """What is told of later requests does not depend on whether the earlier ones were told of."""
    whole, quick = CacheLedger(), CacheLedger()
    whole.take_all(before, range(len(before)))
    quick.absorb(before, range(len(before)))

    times_ms = range(len(before), len(before) + len(after))
    expected = [replace(request, number=0) for request in whole.take_all(after, times_ms)]
    assert expected == [replace(request, number=0) for request in quick.take_all(after, times_ms)]
    assert (whole.answers, whole.answered_ms, whole.proved_ms, whole.sections, whole.replaced) == (
        quick.answers,
        quick.answered_ms,
        quick.proved_ms,
        quick.sections,
        quick.replaced,
    )


notes = st.builds(
    Note,
    st.none() | st.builds(Departure, st.sampled_from(["tools", "message"]), st.none() | st.integers(0, 9), st.text()),
    st.dictionaries(st.text(), st.text(), min_size=1),
    st.integers(0),
    st.floats(1, 1e6),
)


@given(notes)
def test_a_note_comes_back_as_it_was(note: Note) -> None:
    """What is recorded of a request is what is read."""
    assert note == read_note(note.observation())
