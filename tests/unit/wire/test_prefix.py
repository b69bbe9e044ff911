"""Head and messages only ever grow, byte for byte, unless the first message that differs is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from plait.core.exchange import View
from plait.core.messages import Message, assistant, user
from plait.wire.chat.encode import ChatEncoder, head, tail
from plait.wire.prefix import MARKER, Prefix, Sent
from plait.wire.profile import RequestParams, WireProfile
from tests.unit.wire.conversations import FEWER, histories

PROFILE = WireProfile(cache_markers=True)
TAIL = tail(RequestParams(), PROFILE)
SYSTEMS = st.sampled_from(["", "be brief"])


def prefix_of(system: str = "", *, marks_max: int = 4) -> Prefix:
    return Prefix(head("m", (), system, WireProfile()), ChatEncoder(PROFILE), marks_max=marks_max)


def view(messages: list[Message], epoch: int = 0) -> View:
    return View(epoch, messages, len(messages))


def stem(sent: Sent) -> bytes:
    """Head and messages without markers."""
    return sent.body.replace(MARKER, b"").removesuffix(TAIL)


@FEWER
@given(SYSTEMS, histories(), st.lists(st.integers(0, 6), max_size=5))
def test_prefix_law(system: str, history: list[Message], lengths: list[int]) -> None:
    """Without markers, head and messages of every request are a prefix of the next one."""
    prefix, before = prefix_of(system), b""
    for length in sorted(min(length, len(history)) for length in lengths):
        assert None is prefix.extend(View(0, history, length))
        sent = prefix.request(TAIL, prefix.tail_marks())
        json.loads(sent.body)
        assert stem(sent).startswith(before)
        before = stem(sent)


@FEWER
@given(histories(), st.sets(st.integers(0, 5), max_size=4))
def test_markers_are_spliced_not_encoded(history: list[Message], wanted: set[int]) -> None:
    """At most four markers stand in the messages they were asked for, and without them nothing has changed."""
    prefix = prefix_of()
    prefix.extend(view(history))
    marks = sorted(mark for mark in wanted if mark < len(history))
    marked, plain = prefix.request(TAIL, marks), prefix.request(TAIL)
    messages = json.loads(marked.body)["messages"]
    count = sum("cache_control" in json.dumps(message) for message in messages)
    assert count <= len(marks) <= 4
    assert stem(marked) == stem(plain)
    assert marked.digest == plain.digest


@FEWER
@given(histories(), histories(), st.integers(0, 6))
def test_first_difference_is_named(old: list[Message], new: list[Message], kept: int) -> None:
    """When history changed, the first differing message is named and the request is that of a fresh start."""
    prefix, fresh = prefix_of("s"), prefix_of("s")
    prefix.extend(view(old))
    history = [*old[:kept], *new]
    expected = next((i for i, (a, b) in enumerate(zip(old, history, strict=False)) if a != b), None)
    if expected is None and len(history) < len(old):
        expected = len(history)
    assert expected == prefix.extend(view(history, epoch=1))
    fresh.extend(view(history))
    assert fresh.request(TAIL) == replace_encoder(prefix.request(TAIL), fresh.request(TAIL))


def replace_encoder(sent: Sent, other: Sent) -> Sent:
    return Sent(sent.parts, sent.digest, sent.upto, sent._stem, sent._own, other._encode)


def test_digests_prove_the_extension() -> None:
    """A request that extends the last one says so before it leaves; one that does not, does not."""
    prefix = prefix_of("s")
    prefix.extend(view([user("a"), assistant("b")]))
    sent = prefix.request(TAIL)
    prefix.extend(view([user("a"), assistant("b"), user("c")]))
    assert prefix.extends(sent)
    assert None is prefix.first_difference(prefix.digests(2))
    prefix.extend(view([user("a"), assistant("B"), user("c")], epoch=1))
    assert not prefix.extends(sent)


def test_difference_from_an_earlier_run_is_found_by_digests() -> None:
    """Digests kept from another process name the head, or the message, that is not the same any more."""
    old, new = prefix_of("s"), prefix_of("s")
    old.extend(view([user("a"), user("b")]))
    new.extend(view([user("a"), user("B")]))
    assert 2 == new.first_difference(old.digests(2))
    assert 0 == prefix_of("other").first_difference(old.digests(0))


def test_aside_extends_what_was_sent_and_leaves_no_trace() -> None:
    """A side query says more after the last request, and the next request knows nothing of it."""
    prefix = prefix_of()
    prefix.extend(view([user("a")]))
    sent = prefix.request(TAIL, (0,), extra=(user("x"),))
    aside = b"".join(sent.aside((user("q"),), b'],"max_tokens":1}'))
    assert aside.startswith(sent.body.removesuffix(TAIL))
    assert ["a", "x", "q"] == [item["content"][0]["text"] for item in json.loads(aside)["messages"]]
    assert ["a"] == [item["content"][0]["text"] for item in json.loads(prefix.request(TAIL).body)["messages"]]


def test_messages_that_say_nothing_need_no_commas() -> None:
    """A message that encodes to nothing leaves valid JSON, wherever it stands."""
    prefix = prefix_of()
    prefix.extend(view([assistant(" "), user("a"), assistant(""), user("b")]))
    sent = prefix.request(TAIL, extra=(user(" "), user("c")))
    assert 3 == len(json.loads(sent.body)["messages"])
    empty = prefix_of()
    empty.extend(view([user(" ")]))
    assert 1 == len(json.loads(b"".join(empty.request(TAIL).aside((user(""), user("q")), TAIL)))["messages"])


def test_too_many_markers_are_refused() -> None:
    """More markers than a request may hold are an error, not a silent cut."""
    prefix = prefix_of(marks_max=2)
    prefix.extend(view([user("a"), user("b"), user("c")]))
    with pytest.raises(ValueError, match="3 cache markers"):
        prefix.request(TAIL, (0, 1, 2))


def test_moving_marks_follow_the_conversation() -> None:
    """One marker stands at the last message, one where the previous request ended."""
    prefix = prefix_of()
    prefix.extend(view([user("a"), assistant("b")]))
    sent = prefix.request(TAIL, prefix.tail_marks())
    assert (0,) == prefix.tail_marks()
    prefix.extend(view([user("a"), assistant("b"), user("c")]))
    assert (0, 2) == prefix.tail_marks(sent)


def test_only_new_messages_are_encoded() -> None:
    """While the epoch is the same, every message is encoded once."""
    encode, count = ChatEncoder(PROFILE), 0

    def counted(message: Message) -> object:
        nonlocal count
        count += 1
        return encode(message)

    prefix = Prefix(head("m", (), "", PROFILE), counted)  # type: ignore[arg-type]
    history = [user(str(number)) for number in range(50)]
    for length in range(50):
        prefix.extend(View(0, history, length + 1))
    assert 50 == count


@FEWER
@given(SYSTEMS, histories(), histories())
def test_a_fingerprint_needs_no_request(system: str, history: list[Message], extra: list[Message]) -> None:
    """A request is known by the same fingerprint whether it was built or not."""
    prefix = prefix_of(system)
    prefix.extend(view(history))
    assert prefix.request(TAIL, (), extra).fingerprint == prefix.fingerprint(TAIL, extra)
