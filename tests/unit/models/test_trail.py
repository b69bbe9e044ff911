"""Where a request leaves the last answered one: within a line, from one line to the next, from process to process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from plait.core.exchange import ToolSchema, View
from plait.core.messages import Message, assistant, user
from plait.models.trail import Footprint, Head, Place, Trail
from plait.wire.prefix import Prefix, Sent
from plait.wire.profile import Encoded, WireProfile

HEAD = Head(WireProfile(origin="local:m"), (), "Be brief.")


def encode(message: Message) -> Encoded:
    """Encode a message as its text."""
    return Encoded(message.content.encode())


class Talk:
    """A line without a server: what it would send, request by request."""

    def __init__(self, head: Head = HEAD, before: Footprint | None = None) -> None:
        self.prefix = Prefix(head.system.encode() + b"[", encode)
        self.trail = Trail(self.prefix, head)
        self.trail.before = before
        self.epoch = 0
        self.history: list[Message] = []

    def ask(self, *, answered: bool = True, length: int | None = None, step: bool = True) -> Place | None:
        """Send a request; return where it left the one before it."""
        self.trail.note(self.prefix.extend(View(self.epoch, self.history, length or len(self.history))))
        sent: Sent = self.prefix.request(b"]")
        if step:
            self.trail.depart()
            if answered:
                self.trail.answered(sent)
        return self.trail.place

    def say(self, *texts: str) -> None:
        """Add messages to the history."""
        self.history += [user(text) for text in texts]

    def replace(self, start: int, end: int, *texts: str) -> None:
        """Put other messages in the place of some."""
        self.history = [*self.history[:start], *map(user, texts), *self.history[end:]]
        self.epoch += 1


def test_an_ordinary_request_leaves_nothing() -> None:
    """A first request, and one that only adds messages, differ nowhere."""
    talk = Talk()
    talk.say("a", "b")

    assert None is talk.ask()
    talk.say("c")
    assert None is talk.ask()


def test_the_first_message_that_differs_is_named() -> None:
    """A message that was replaced is named by its index, and the request after it goes on from there."""
    talk = Talk()
    talk.say("a", "b", "c")
    talk.ask()

    talk.replace(1, 3, "B")

    assert Place("message", 1) == talk.ask()
    talk.say("d")
    assert None is talk.ask()


def test_the_measure_is_the_last_answered_request() -> None:
    """A request that failed changes nothing: what is sent again is still compared with what was answered."""
    talk = Talk()
    talk.say("a", "b")
    talk.ask()
    talk.replace(0, 1, "A")

    assert Place("message", 0) == talk.ask(answered=False)
    assert Place("message", 0) == talk.ask()
    assert None is talk.ask()


def test_a_request_for_a_summary_is_no_measure() -> None:
    """A shorter request in between, for a summary, is no departure of the steps around it."""
    talk = Talk()
    talk.say("a", "b", "c")
    talk.ask()

    talk.ask(step=False, length=1)

    assert None is talk.ask()
    talk.ask(step=False, length=2)
    talk.replace(0, 2, "summary")
    assert Place("message", 0) == talk.ask()


def test_an_edit_that_was_taken_back_is_none() -> None:
    """What counts is what is sent, not how it came to be."""
    talk = Talk()
    talk.say("a", "b")
    talk.ask()
    talk.replace(0, 1, "A")
    talk.ask(answered=False)

    talk.replace(0, 1, "a")

    assert None is talk.ask()


@pytest.mark.parametrize(
    "head, expected",
    [
        (HEAD, None),
        (replace(HEAD, system="Be kind."), Place("system")),
        (replace(HEAD, tools=(ToolSchema("t", "T.", {}),)), Place("tools")),
        (replace(HEAD, wire=replace(HEAD.wire, reasoning_echo="always"), system="x"), Place("encoding")),
        (replace(HEAD, wire=replace(HEAD.wire, origin="local:n"), system="x"), Place("model")),
        (replace(HEAD, wire=replace(HEAD.wire, max_tokens_field="max_completion_tokens")), None),
    ],
    ids=["same", "system", "tools", "encoding", "model", "tail"],
)
@pytest.mark.parametrize("digests", [True, False])
def test_a_new_line_goes_on_after_the_old_one(head: Head, expected: Place | None, digests: bool) -> None:
    """The first part of the head that differs is named, in the order model, encoding, tools, system; what stands
    behind the messages does not count. An earlier process hands on no more than its sections."""
    old = Talk()
    old.say("a", "b")
    old.ask()
    before = old.trail.footprint()
    assert before is not None
    assert 3 == len(before.digests or ())

    new = Talk(head, before if digests else Footprint(before.sections))
    new.say("a", "b", "c")

    assert expected == new.ask()
    assert new.trail.footprint() != before


def test_messages_are_compared_from_line_to_line() -> None:
    """With the head the same, the first message that differs, or is no longer there, is named."""
    old = Talk()
    old.say("a", "b", "c")
    old.ask()
    changed, shorter = Talk(before=old.trail.footprint()), Talk(before=old.trail.footprint())
    changed.say("a", "B", "c")
    shorter.say("a")

    assert Place("message", 1) == changed.ask()
    assert Place("message", 1) == shorter.ask()


def test_a_line_that_was_never_answered_hands_on_what_it_was_given() -> None:
    """A line that is closed before an answer leaves the footprint of the one before it."""
    before = Footprint({"model": "m"})
    talk = Talk(before=before)
    talk.say("a")
    talk.ask(answered=False)

    assert before == talk.trail.footprint()
    assert None is Talk().trail.footprint()


edits = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.text("ab", max_size=2)),
        st.tuples(st.just("cut"), st.integers(0, 6)),
        st.tuples(st.just("set"), st.integers(0, 6)),
        st.sampled_from([("ask", True), ("ask", False), ("look", 1), ("look", 3)]),
    ),
    max_size=25,
)


@given(edits)
def test_a_departure_is_named_if_and_only_if_the_bytes_part(moves: list[tuple[str, object]]) -> None:
    """Whatever happens between two answered requests: the later one begins with the earlier one, or the first message
    in which they differ is the one that is named."""
    talk, answered = Talk(), None
    for move, what in moves:
        if move == "say":
            talk.say(str(what))
        elif move == "cut" and isinstance(what, int) and what <= len(talk.history):
            talk.replace(what, len(talk.history))
        elif move == "set" and isinstance(what, int) and what < len(talk.history):
            talk.replace(what, what + 1, "other")
        elif move == "look" and isinstance(what, int) and what <= len(talk.history):
            talk.ask(step=False, length=what)
        elif move == "ask":
            place = talk.ask(answered=what is True)
            now = [message.content for message in talk.history]
            assert _first_difference(answered, now) == (None if place is None else place.index)
            answered = now if what is True else answered


def _first_difference(before: list[str] | None, now: list[str]) -> int | None:
    if before is None or now[: len(before)] == before:
        return None
    pairs = enumerate(zip(before, now, strict=False))
    return next((index for index, (one, other) in pairs if one != other), len(now))


def test_sections_are_the_same_in_every_process() -> None:
    """Another process, with another order of its sets, comes to the same digests; no text of the prompt is in them."""
    code = (
        "from plait.models.trail import Head; from plait.wire.profile import WireProfile\n"
        "wire = WireProfile(origin='o:m', schema_keywords_refused=frozenset('abcdefgh'))\n"
        "print(dict(Head(wire, (), 'secret').sections()))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert 1 == len(told)
    (line,) = told
    assert b"'model': 'o:m'" in line
    assert b"secret" not in line


def test_answers_are_messages_like_others() -> None:
    """An answer that joined the history is part of the next request."""
    talk = Talk()
    talk.say("a")
    talk.ask()
    talk.history.append(assistant("b"))

    assert None is talk.ask()
