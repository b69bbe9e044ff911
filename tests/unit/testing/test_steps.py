"""The values of a script."""

from __future__ import annotations

from hypothesis import given, strategies as st

from plait.testing.steps import Call, Say, as_answer, deltas, joined, with_ids


@given(st.text())
def test_deltas_join_to_the_text(text: str) -> None:
    """However text is cut for a stream, its pieces are the text again."""
    assert text == "".join(deltas(text))


def test_given_deltas_are_kept() -> None:
    """A sequence in place of text gives the deltas exactly."""
    assert ("He", "llo") == deltas(["He", "llo"])
    assert "Hello" == joined(["He", "llo"])


def test_loose_forms_become_one() -> None:
    """A string, a call and a list of calls are answers too."""
    look, run = Call("look"), Call("run")

    assert Say("hi") == as_answer("hi")
    assert Say(calls=(look,)) == as_answer(look)
    assert Say(calls=(look, run)) == as_answer([look, run])


def test_the_stop_reason_follows_from_the_calls() -> None:
    """Without a finish reason of its own an answer with calls stops for them."""
    assert "stop" == Say("hi").stop
    assert "tool_calls" == Say(calls=[Call("look")]).stop
    assert "length" == Say("hi", finish_reason="length").stop


def test_arguments_keep_their_text() -> None:
    """An object is written compactly, text is sent as it is, broken or not."""
    assert '{"a":"ü"}' == Call("look", {"a": "ü"}).arguments_text
    assert '{"a": ' == Call("look", '{"a": ').arguments_text


def test_missing_ids_are_made() -> None:
    """Only calls without an id get one."""
    said = with_ids(Say(calls=[Call("a"), Call("b", id="mine")]), "call_7")

    assert ["call_7_0", "mine"] == [call.id for call in said.calls]


def test_output_counts_what_the_model_wrote() -> None:
    """Text, reasoning, names and arguments are output, in bytes of UTF-8."""
    said = Say("ü", reasoning="ab", calls=[Call("look", "{}")])

    assert 2 + 2 + 4 + 2 == said.output_bytes()
